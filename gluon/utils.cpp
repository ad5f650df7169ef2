#include <sluice/engine/error.h>
#include <sluice/gluon/utils.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/update/guard.h>

namespace sluice::gluon::utils {

NDArray clip_global_norm(std::span<const NDArray> arrays, double max_norm, SourceLocation site) {
  require(
      max_norm >= 0, [&] { return message("clip_global_norm: max_norm is ", max_norm, ", it must be at least 0"); });
  if (arrays.empty())
    return zeros({}, {.dtype = float64}, site);
  const autograd::PauseScope pause;
  const NDArray guard = gradient_guard(arrays, {.max_norm = max_norm}, {}, site);
  for (NDArray array : arrays)
    array *= guard[1].astype(array.dtype() == float64 ? float64 : float32);  // half types might have no such factor
  return guard[0];
}

}  // namespace sluice::gluon::utils
