#pragma once

#include <bit>
#include <cstddef>

namespace sluice::detail {

/// Rounds what is asked for up to the size of a chunk; chunks of one size are interchangeable.
struct SizeRule {
  std::size_t smallest = 64;
  int steps_per_doubling = 0;         // 0: every multiple of `smallest` is a size of its own
  std::size_t large_from = 1u << 20;  // above this, multiples of large_step
  std::size_t large_step = 1u << 19;

  /// `bytes` > 0 and below 2^62.
  std::size_t round(std::size_t bytes) const noexcept {
    if (bytes <= smallest)
      return smallest;
    if (steps_per_doubling == 0)
      return up(bytes, smallest);
    if (bytes > large_from)
      return up(bytes, large_step);
    // The doubling that holds `bytes` starts at `base`; its steps are equal, so at most 1 / steps is wasted.
    const std::size_t base = std::bit_floor(bytes - 1);
    const std::size_t step = base / static_cast<std::size_t>(steps_per_doubling);
    return up(bytes, step < smallest ? smallest : step);
  }

 private:
  static std::size_t up(std::size_t bytes, std::size_t step) noexcept { return (bytes + step - 1) / step * step; }
};

/// No rounding beyond alignment.
inline SizeRule exact_rule(std::size_t alignment) noexcept {
  return {.smallest = alignment};
}
/// Powers of two in four steps, multiples of 512 KiB (host) or 2 MiB (GPU: the driver's page) above 1 MiB.
inline SizeRule bucket_rule(std::size_t alignment, bool gpu) noexcept {
  return {
      .smallest = alignment,
      .steps_per_doubling = 4,
      .large_from = std::size_t{1} << 20,
      .large_step = std::size_t{1} << (gpu ? 21 : 19)};
}

}  // namespace sluice::detail
