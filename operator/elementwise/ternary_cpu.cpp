#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/loop.h>

namespace sluice::detail {

PointwiseLoop where_loop(DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLoop {
    using C = math::Compute<T>;
    return &Loop<math::Where, C, bool, C, C>::run;
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
