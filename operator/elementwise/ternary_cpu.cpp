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

PointwiseLoop clip_loop(DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLoop {
    using C = math::Compute<T>;
    if constexpr (!k_takes<RowKind::arithmetic, T>) {
      return nullptr;
    } else {
      return &Loop<math::Clip, C, C, C, C>::run;
    }
  });
}

PointwiseLoop clip_gradient_loop(DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLoop {
    using C = math::Compute<T>;
    if constexpr (!k_has_gradient<RowKind::arithmetic, T>) {
      return nullptr;
    } else {
      return &Loop<math::ClipGradient, C, C, C, C, C>::run;
    }
  });
}

}  // namespace sluice::detail
