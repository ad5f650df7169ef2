#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/loop.h>
#include <sluice/operator/simd/rows.h>

namespace sluice::detail {

namespace {

template <Binary row, class T, int operand>
constexpr PointwiseLoop loop_of() {
  using Row = math::BinaryRow<row>;
  using C = math::Compute<T>;
  if constexpr (!k_has_gradient<Row::kind, T>) {
    return nullptr;
  } else {
    using Gradient = std::conditional_t<operand == 0, typename Row::GradientA, typename Row::GradientB>;
    return &Loop<Gradient, C, C, C, C, C>::run;
  }
}

template <class T, int operand>
PointwiseLoop loop_at(Binary row) {
  static constexpr PointwiseLoop k_loops[] = {
#define BINARY(name, ...) loop_of<Binary::name, T, operand>(),
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
  };
  return k_loops[static_cast<std::size_t>(row)];
}

}  // namespace

PointwiseLoop binary_backward_loop(Binary row, int operand, DType dtype) {
  return by_dtype(dtype, [&]<class T>() -> PointwiseLoop {
    using C = math::Compute<T>;
    if constexpr (std::is_floating_point_v<C>) {
      const PointwiseLoop loop =
          operand == 0 ? simd::binary_backward_loop<C, 0>(row) : simd::binary_backward_loop<C, 1>(row);
      if (loop != nullptr)
        return loop;
    }
    return operand == 0 ? loop_at<T, 0>(row) : loop_at<T, 1>(row);
  });
}

}  // namespace sluice::detail
