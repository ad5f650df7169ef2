// Does an array have NaN: what a backward that looks for them asks.
#include <sluice/ndarray/autograd.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice::detail {

bool has_nan(const NDArray& array) {
  if (!is_floating(array.dtype()))
    return false;
  const autograd::ModeScope unrecorded(false, autograd::is_training());
  return any(isnan(array)).item<bool>();
}

}  // namespace sluice::detail
