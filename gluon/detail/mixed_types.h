#pragma once

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/autocast.h>

namespace sluice::gluon::detail {

/// Is the input of a layer of its weight's type, or will amp::autocast() see to that?
inline bool goes_with(const NDArray& x, const NDArray& weight) {
  return x.dtype() == weight.dtype() ||
         (is_floating(x.dtype()) && is_floating(weight.dtype()) && amp::autocast_dtype().has_value());
}

}  // namespace sluice::gluon::detail
