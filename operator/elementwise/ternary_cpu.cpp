#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/loop.h>
#include <sluice/operator/simd/where.h>

namespace sluice::detail {

PointwiseLoop where_loop(DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLoop {
    using C = math::Compute<T>;
    const PointwiseLoop vectors = simd::where_loop(sizeof(C));
    return vectors != nullptr ? vectors : &Loop<math::Where, C, bool, C, C>::run;
  });
}

}  // namespace sluice::detail
