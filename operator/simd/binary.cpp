#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/binary.cpp>
#include <hwy/foreach_target.h>

#include <sluice/operator/simd/detail/formulas.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {

template <Binary row, class T>
constexpr PointwiseLoop loop_of() {
  constexpr RowKind kind = math::BinaryRow<row>::kind;
  if constexpr (kind == RowKind::logical || is_of_bits(kind) || (gives_bool(kind) && sizeof(T) == 8)) {
    return nullptr;
  } else {
    using Out = std::conditional_t<gives_bool(kind), bool, T>;
    return &Loop<typename BinaryFormula<row>::Value, Out, T, 2>::run;
  }
}

template <class T>
PointwiseLoop binary_at(Binary row) {
  static constexpr PointwiseLoop k_loops[] = {
#define BINARY(name, ...) loop_of<Binary::name, T>(),
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

template <class T>
PointwiseLoop binary_loop([[maybe_unused]] Binary row) {
  SLUICE_SIMD_RETURN(binary_at<T>(row))
  return nullptr;
}

template PointwiseLoop binary_loop<float>(Binary);
template PointwiseLoop binary_loop<double>(Binary);

}  // namespace sluice::simd
#endif
