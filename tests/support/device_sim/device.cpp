// The threads of a block as fibres of one thread of the host.
#include "tests/support/device_sim/device.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <pthread.h>
#include <random>
#include <ucontext.h>
#include <vector>

#include <sluice/engine/detail/float_mode.h>
#include <sluice/engine/detail/test_faults.h>
#include <sluice/engine/error.h>

#include "tests/support/counts.h"
#include "tests/support/cuda_sim/sim.h"

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

namespace device_sim {
namespace {

constexpr std::size_t k_stack = 256 * 1024;
constexpr unsigned k_warp = 32;

// The shared memory of every kernel is a variable of each thread of the host, megabytes in all, and the system takes
// the room for those out of the thread's stack.
[[maybe_unused]] const bool k_has_room = [] {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{64} << 20);
  const bool set = pthread_setattr_default_np(&attributes) == 0;
  pthread_attr_destroy(&attributes);
  return set;
}();

// Looking every 5 us whether a kernel has ended took a third of all time here, and kernels take longer than 50.
[[maybe_unused]] const bool k_polls_seldom = [] {
  sluice::detail::test_faults().poller_sleeps = 50;
  return true;
}();

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "device_sim: %s\n", what);
  std::abort();
}

// Of the compiler's own jumps: the library's look for what threads clean up, half of what a change of fibres takes.
struct Mark {
  void* words[5];
};
[[noreturn, gnu::noinline]] void jump(Mark& to) {
  __builtin_longjmp(to.words, 1);
}

// ucontext begins a fibre; what follows are jumps, which leave the signal mask, and so the system, alone.
struct Fibre {
  ucontext_t context{};
  Mark here;
  bool begun = false;
  std::unique_ptr<char[]> stack{new char[k_stack]};
  unsigned thread = 0;  // that it runs now
  Here place;           // of that thread
};

struct Warp {
  unsigned lanes = 0;  // that exist
  unsigned arrived = 0;
  unsigned wanted = 0;
  unsigned turn = 0;  // which of the two boxes is filled now
  std::array<std::array<std::array<char, 16>, k_warp>, 2> box;
  std::array<Fibre*, k_warp> waiting{};
};

// Kept from grid to grid: their stacks are large.
struct Fibres {
  std::vector<std::unique_ptr<Fibre>> all;
  std::vector<Fibre*> free;
};
thread_local Fibres fibres;

class Block;
thread_local Block* now = nullptr;
thread_local Here place;
thread_local std::uint64_t awaited = 0;  // threads of the grid that have called await_earlier()

class Block {
 public:
  Block(const Config& config, const std::function<void()>& body)
      : config_(config), body_(body), count_(config.block.x * config.block.y * config.block.z) {}

  void run(Place block, std::mt19937& random) {
    block_ = block;
    order_.resize(count_);
    for (unsigned i = 0; i < count_; ++i)
      order_[i] = i;
    std::shuffle(order_.begin(), order_.end(), random);
    warps_.assign((count_ + k_warp - 1) / k_warp, Warp{});
    for (unsigned i = 0; i < count_; ++i)
      warps_[i / k_warp].lanes |= 1u << i % k_warp;
    started_ = returned_ = waiting_ = 0;
    now = this;
    while (returned_ < count_) {
      if (!ready_.empty()) {
        Fibre* const fibre = ready_.back();
        ready_.pop_back();
        resume(*fibre);
      } else if (started_ < count_) {
        resume(fresh());
      } else if (waiting_ > 0 && waiting_ == count_ - returned_) {
        release_barrier(random);
      } else {
        broken("threads of a block wait for each other: a barrier or an exchange in code that not all of them run");
      }
    }
    now = nullptr;
  }

  void barrier() {
    ++waiting_;
    at_barrier_.push_back(current_);
    leave();
  }

  void exchange(unsigned mask, void* value, std::size_t bytes, unsigned from) {
    Fibre* const me = current_;
    Warp& warp = warps_[me->thread / k_warp];
    const unsigned mine = me->thread % k_warp;
    if ((mask >> mine & 1) == 0)
      broken("a lane exchanges with lanes of a mask that it is not in");
    if (warp.arrived != 0 && warp.wanted != (mask & warp.lanes))
      broken("lanes of a warp exchange with different masks");
    const unsigned lanes = warp.wanted = mask & warp.lanes;  // some may have returned when this one goes on
    auto& box = warp.box[warp.turn];
    std::memcpy(box[mine].data(), value, bytes);
    warp.arrived |= 1u << mine;
    if (warp.arrived != warp.wanted) {
      warp.waiting[mine] = me;
      leave();
    } else {
      for (Fibre*& waiting : warp.waiting) {
        if (waiting != nullptr)
          ready_.push_back(waiting);
        waiting = nullptr;
      }
      warp.arrived = 0;
      warp.turn ^= 1;
    }
    if (from < k_warp && (lanes >> from & 1) != 0)
      std::memcpy(value, box[from].data(), bytes);
  }

  unsigned lane() const noexcept { return current_->thread % k_warp; }

 private:
  // A fibre lives on from block to block: to begin one asks the system.
  [[noreturn]] static void begin() {
    for (;;)
      now->work();
  }

  // Threads one after the other, until one waits: another fibre then takes the next.
  void work() {
    Fibre* const me = current_;
    while (started_ < count_) {
      me->thread = order_[started_++];
      place = me->place = place_of(me->thread);
      body_();
      ++returned_;
      Warp& warp = warps_[me->thread / k_warp];
      warp.lanes &= ~(1u << me->thread % k_warp);
      if (warp.arrived != 0 && (warp.wanted & ~warp.lanes) != 0)
        broken("a thread returned that lanes of its warp exchange with");
    }
    fibres.free.push_back(me);
    leave();
  }

  [[gnu::noinline]] Fibre& fresh() {
    if (!fibres.free.empty()) {
      Fibre* const fibre = fibres.free.back();
      fibres.free.pop_back();
      return *fibre;
    }
    Fibre& fibre = *fibres.all.emplace_back(std::make_unique<Fibre>());
    getcontext(&fibre.context);
    // Not all begin at one place of a page: what fibres touch in turn would share a few lines of the cache.
    const std::size_t shift = fibres.all.size() * 832 % (k_stack / 4);
    fibre.context.uc_stack = {fibre.stack.get(), 0, k_stack - shift};
    fibre.context.uc_link = nullptr;
    makecontext(&fibre.context, &Block::begin, 0);
    return fibre;
  }

  Here place_of(unsigned t) const {
    const unsigned x = config_.block.x, y = config_.block.y;
    return {
        {t % x, t / x % y, t / (x * y)},
        block_,
        {config_.block.x, config_.block.y, config_.block.z},
        {config_.grid.x, config_.grid.y, config_.grid.z}};
  }

  // Not inlined: setjmp leaves what its caller keeps in registers undefined.
  [[gnu::noinline]] void resume(Fibre& fibre) {
    current_ = &fibre;
    place = fibre.place;
    if (__builtin_setjmp(scheduler_.words) != 0)
      return;
    if (fibre.begun)
      jump(fibre.here);
    fibre.begun = true;
    setcontext(&fibre.context);
  }

  // At once to the next fibre, or to the scheduler where none is ready.
  [[gnu::noinline]] void leave() {
    if (__builtin_setjmp(current_->here.words) != 0)
      return;
    if (ready_.empty())
      jump(scheduler_);
    current_ = ready_.back();
    ready_.pop_back();
    place = current_->place;
    jump(current_->here);
  }

  void release_barrier(std::mt19937& random) {
    std::shuffle(at_barrier_.begin(), at_barrier_.end(), random);
    ready_.swap(at_barrier_);
    waiting_ = 0;
  }

  const Config& config_;
  const std::function<void()>& body_;
  const unsigned count_;
  Place block_;
  Mark scheduler_;
  std::vector<unsigned> order_;
  std::vector<Warp> warps_;
  std::vector<Fibre*> ready_, at_barrier_;
  Fibre* current_ = nullptr;
  unsigned started_ = 0, returned_ = 0, waiting_ = 0;
};

void run_grid(const Config& config, const std::function<void()>& body) {
  static thread_local std::mt19937 random(17);
  using sluice::detail::FloatMode;
  const FloatMode kept = FloatMode::current();
  kept.flushing().install();  // as -ftz has it; of float64 too, which a GPU does not flush
  Block block(config, body);
  awaited = 0;
  const bool backwards = random() % 2 == 1;  // no block may count on those before it
  for (unsigned z = 0; z < config.grid.z; ++z) {
    for (unsigned y = 0; y < config.grid.y; ++y) {
      for (unsigned x = 0; x < config.grid.x; ++x)
        block.run({backwards ? config.grid.x - 1 - x : x, y, z}, random);
    }
  }
  kept.install();
  const auto extent = [](const dim3& of) { return std::uint64_t{of.x} * of.y * of.z; };
  if (awaited == extent(config.grid) * extent(config.block))
    sluice::test::sim::kernel_waits();
  else if (awaited != 0)
    broken("some threads of a kernel wait for what is before it, others do not");
}

}  // namespace

Here& here() noexcept {
  return place;
}

void enqueue(const Config& config, std::function<void()> thread) {
  constexpr unsigned most_blocks = 65535, most_threads = 1024;  // as a GPU has them along y and z, and in a block
  const unsigned threads = config.block.x * config.block.y * config.block.z;
  if (config.grid.y > most_blocks || config.grid.z > most_blocks || threads > most_threads)
    throw sluice::CudaError("a launch that no GPU takes", cudaErrorInvalidConfiguration);
  sluice::test::sim::launch(config.stream, [config, thread = std::move(thread)] { run_grid(config, thread); });
}

void await_earlier() noexcept {
  ++awaited;
}

void block_barrier() {
  now->barrier();
}

void exchange(unsigned mask, void* value, std::size_t bytes, unsigned from) {
  now->exchange(mask, value, bytes, from);
}

unsigned lane() noexcept {
  return now->lane();
}

}  // namespace device_sim

namespace sluice::test {

std::string take_noticed() {
  return sim::take_violations();
}

}  // namespace sluice::test
