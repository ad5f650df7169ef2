#pragma once

#include <sluice/ndarray/detail/array_object.h>

namespace sluice::detail {

/// y, or a copy where it is a view of x: who writes what an operator gave leaves what it was given as it was.
inline NDArray own_memory(const NDArray& y, const NDArray& x, SourceLocation site) {
  const auto& memory = y.object()->buffer;
  return memory != nullptr && memory == x.object()->buffer ? y.copy(site) : y;
}

}  // namespace sluice::detail
