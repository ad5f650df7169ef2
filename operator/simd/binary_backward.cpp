#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/binary_backward.cpp>
#include <hwy/foreach_target.h>

#include <sluice/operator/simd/detail/formulas.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {

template <Binary row, class T, int operand>
constexpr PointwiseLoop loop_of() {
  using Row = math::BinaryRow<row>;
  // Formulas that read dy alone never come here: see elementwise/binary.cpp.
  constexpr Uses uses = operand == 0 ? Row::uses_a : Row::uses_b;
  if constexpr (!is_differentiable(Row::kind) || uses == nothing_) {
    return nullptr;
  } else {
    using Formula = BinaryFormula<row>;
    using Gradient = std::conditional_t<operand == 0, typename Formula::GradientA, typename Formula::GradientB>;
    return &Loop<Gradient, T, T, 4>::run;
  }
}

template <class T, int operand>
PointwiseLoop binary_backward_at(Binary row) {
  static constexpr PointwiseLoop k_loops[] = {
#define BINARY(name, ...) loop_of<Binary::name, T, operand>(),
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
  };
  return k_loops[static_cast<std::size_t>(row)];
}

}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {

template <class T, int operand>
PointwiseLoop binary_backward_loop([[maybe_unused]] Binary row) {
  SLUICE_SIMD_RETURN(binary_backward_at<T, operand>(row))
  return nullptr;
}

template PointwiseLoop binary_backward_loop<float, 0>(Binary);
template PointwiseLoop binary_backward_loop<float, 1>(Binary);
template PointwiseLoop binary_backward_loop<double, 0>(Binary);
template PointwiseLoop binary_backward_loop<double, 1>(Binary);

}  // namespace sluice::simd
#endif
