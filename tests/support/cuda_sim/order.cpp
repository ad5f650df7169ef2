#include "tests/support/cuda_sim/order.h"

namespace sluice::test::sim {

#if defined(__SANITIZE_THREAD__)

namespace {
constexpr std::size_t k_stack_bytes = 256 * 1024;
}

Strand::Strand() : fiber_(__tsan_create_fiber(0)), stack_(new char[k_stack_bytes]) {
  getcontext(&own_);
  own_.uc_stack.ss_sp = stack_.get();
  own_.uc_stack.ss_size = k_stack_bytes;
  own_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(
      &own_,
      reinterpret_cast<void (*)()>(&Strand::loop),
      2,
      static_cast<unsigned>(self >> 32),
      static_cast<unsigned>(self));
}

Strand::~Strand() {
  __tsan_destroy_fiber(fiber_);
}

// Never returns: what one body left of it serves the next.
__attribute__((no_sanitize("thread"))) void Strand::loop(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Strand*>(std::uintptr_t{high} << 32 | low);
  for (;;) {
    self->act_();
    __tsan_switch_to_fiber(self->caller_, __tsan_switch_to_fiber_no_sync);
    swapcontext(&self->own_, &self->back_);
  }
}

__attribute__((no_sanitize("thread"))) void Strand::run(std::function<void()> act) {
  {
    const Unseen unseen;
    act_ = std::move(act);
    caller_ = __tsan_get_current_fiber();
  }
  __tsan_switch_to_fiber(fiber_, __tsan_switch_to_fiber_no_sync);
  swapcontext(&back_, &own_);
  const Unseen unseen;
  act_ = nullptr;
}

#else

void Strand::run(std::function<void()> act) {
  act();
}

#endif

}  // namespace sluice::test::sim
