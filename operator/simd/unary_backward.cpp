#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/unary_backward.cpp>
#include <hwy/foreach_target.h>

#include <sluice/operator/simd/detail/formulas.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {

template <Unary row, class T>
constexpr PointwiseLoop loop_of() {
  if constexpr (!is_differentiable(math::UnaryRow<row>::kind)) {
    return nullptr;
  } else {
    return &Loop<typename VectorFormula<row>::Gradient, T, T, 3 + math::UnaryRow<row>::parameters>::run;
  }
}

template <class T>
PointwiseLoop unary_backward_at(Unary row) {
  static constexpr PointwiseLoop k_loops[] = {
#define UNARY(name, ...) loop_of<Unary::name, T>(),
#include <sluice/operator/elementwise/unary.def>
  };
  return k_loops[static_cast<std::size_t>(row)];
}

}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {

template <class T>
PointwiseLoop unary_backward_loop([[maybe_unused]] Unary row) {
  SLUICE_SIMD_RETURN(unary_backward_at<T>(row))
  return nullptr;
}

template PointwiseLoop unary_backward_loop<float>(Unary);
template PointwiseLoop unary_backward_loop<double>(Unary);

}  // namespace sluice::simd
#endif
