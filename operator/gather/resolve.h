#pragma once

#include <cstdint>

#include <sluice/ndarray/half.h>
#include <sluice/operator/gather/gather.h>

namespace sluice::detail {

/// Of class labels: none counts from the back. 0 <= i < n, others are an IndexError.
inline constexpr IndexMode k_label_mode{3};

/// Whether an index may name no entry.
SLUICE_HD constexpr bool may_name_none(IndexMode mode) noexcept {
  return mode == IndexMode::raise || mode == k_label_mode;
}

/// The entry that `index` names on an axis of extent n > 0, or -1 if it names none (modes raise and k_label_mode).
SLUICE_HD inline std::int64_t resolve_index(std::int64_t index, std::int64_t n, IndexMode mode) noexcept {
  if (mode == IndexMode::raise) {
    if (index < -n || index >= n)
      return -1;
    return index < 0 ? index + n : index;
  }
  if (mode == k_label_mode)
    return index >= 0 && index < n ? index : -1;
  if (mode == IndexMode::clip)
    return index < 0 ? 0 : index >= n ? n - 1 : index;
  const std::int64_t rest = index % n;
  return rest < 0 ? rest + n : rest;
}

}  // namespace sluice::detail
