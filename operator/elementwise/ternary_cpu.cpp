#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/loop.h>

namespace sluice::detail {

PointwiseLoop where_loop(DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLoop {
    using C = math::Compute<T>;
    return &Loop<math::Where, C, bool, C, C>::run;
  });
}

}  // namespace sluice::detail
