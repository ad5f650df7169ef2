#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <pthread.h>

#include <sluice/engine/detail/stack_left.h>

namespace sluice::detail {

namespace {

constexpr std::uintptr_t k_reserve = 256U << 10;  // for bodies that take no waits into account

/// Where this thread's stack lies; empty where the system does not say.
struct StackBounds {
  std::uintptr_t low = 0, high = 0;

  StackBounds() noexcept {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
      return;
    void* address = nullptr;
    std::size_t size = 0;
    if (pthread_attr_getstack(&attributes, &address, &size) == 0) {
      low = reinterpret_cast<std::uintptr_t>(address);
      high = low + size;
    }
    pthread_attr_destroy(&attributes);
  }

  bool here(std::uintptr_t frame) const noexcept { return frame > low && frame < high; }
  std::uintptr_t reserve() const noexcept { return std::min(k_reserve, (high - low) / 4); }
};

const StackBounds& bounds() noexcept {
  static const thread_local StackBounds known;
  return known;
}

std::uintptr_t frame() noexcept {
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}

}  // namespace

bool stack_is_left() noexcept {
  const StackBounds& stack = bounds();
  return stack.here(frame()) && frame() > stack.low + stack.reserve();
}

bool stack_is_used_up() noexcept {
  const StackBounds& stack = bounds();
  return stack.here(frame()) && frame() <= stack.low + stack.reserve();
}

}  // namespace sluice::detail
