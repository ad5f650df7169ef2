#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/unary.cpp>
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include <sluice/operator/simd/detail/formulas.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {

template <Unary row, class T>
constexpr PointwiseLoop loop_of() {
  constexpr RowKind kind = math::UnaryRow<row>::kind;
  if constexpr (is_of_bits(kind) || (gives_bool(kind) && sizeof(T) == 8)) {
    return nullptr;  // memory is what they wait for
  } else {
    using Out = std::conditional_t<gives_bool(kind), bool, T>;
    return &Loop<typename VectorFormula<row>::Value, Out, T, 1 + math::UnaryRow<row>::parameters>::run;
  }
}

template <class T>
PointwiseLoop unary_at(Unary row) {
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
PointwiseLoop unary_loop([[maybe_unused]] Unary row) {
  SLUICE_SIMD_RETURN(unary_at<T>(row))
  return nullptr;
}

template PointwiseLoop unary_loop<float>(Unary);
template PointwiseLoop unary_loop<double>(Unary);

void finish_streams() noexcept {
#if SLUICE_HIGHWAY
  hwy::FlushStream();
#endif
}

}  // namespace sluice::simd
#endif
