#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/loop.h>
#include <sluice/operator/simd/rows.h>

namespace sluice::detail {

namespace {

template <Unary row, class T>
constexpr PointwiseLoop loop_of() {
  using Row = math::UnaryRow<row>;
  using C = math::Compute<T>;
  if constexpr (!k_has_gradient<Row::kind, T>) {
    return nullptr;
  } else {
    return loop_of_each<typename Row::Gradient, C, C>(std::make_index_sequence<3 + Row::parameters>());
  }
}

template <class T>
PointwiseLoop loop_at(Unary row) {
  static constexpr PointwiseLoop k_loops[] = {
#define UNARY(name, ...) loop_of<Unary::name, T>(),
#include <sluice/operator/elementwise/unary.def>
  };
  return k_loops[static_cast<std::size_t>(row)];
}

}  // namespace

PointwiseLoop unary_backward_loop(Unary row, DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLoop {
    if constexpr (std::is_floating_point_v<math::Compute<T>>) {
      if (const PointwiseLoop loop = simd::unary_backward_loop<math::Compute<T>>(row))
        return loop;
    }
    return loop_at<T>(row);
  });
}

}  // namespace sluice::detail
