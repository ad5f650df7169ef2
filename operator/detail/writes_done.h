#pragma once

#include <cstdint>
#include <optional>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/ndarray/buffer.h>
#include <sluice/ndarray/detail/dlpack.h>

namespace sluice::detail {

/// A number that changes with each write of the memory that is over, also one that failed. Nothing while one is to come
/// and while another library may write at any time.
inline std::optional<std::uint64_t> writes_done(const Buffer& buffer) noexcept {
  if (is_lent(buffer))
    return std::nullopt;
  std::uint64_t sum = 0;
  for (const Buffer::Region& region : buffer.regions()) {
    const std::optional<std::uint64_t> done = EngineAccess::writes_done(region.var);
    if (!done)
      return std::nullopt;
    sum += *done;
  }
  return sum;
}

/// How many of those have failed, or were skipped.
inline std::uint64_t failures_in(std::uint64_t writes) noexcept {
  constexpr int k_failed_above = 48;  // VarCore::k_failed_write
  return writes >> k_failed_above;
}

}  // namespace sluice::detail
