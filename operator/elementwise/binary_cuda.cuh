#pragma once

// Launches of every binary row but the special ones (special_cuda.cuh) for storage type T. Each device file compiles
// one or a few types, so that they build in parallel.
#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/pointwise_cuda.cuh>

namespace sluice::detail {

template <Binary row, class T>
constexpr PointwiseLaunch<3> binary_launch_of() {
  using Row = math::BinaryRow<row>;
  if constexpr (!k_takes<Row::kind, T> || Row::kind == RowKind::special) {
    return nullptr;
  } else {
    using Out = std::conditional_t<gives_bool(Row::kind), bool, T>;
    return &PointwiseKernel<typename Row::Value, Out, T, T>::launch;
  }
}

template <class T>
PointwiseLaunch<3> binary_launch_for(Binary row) {
  static constexpr PointwiseLaunch<3> k_launches[] = {
#define BINARY(name, ...) binary_launch_of<Binary::name, T>(),
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
  };
  return k_launches[static_cast<std::size_t>(row)];
}

template <Binary row, class T, int operand>
constexpr PointwiseLaunch<5> binary_backward_launch_of() {
  using Row = math::BinaryRow<row>;
  // Formulas that read dy alone never come here: see binary.cpp.
  constexpr Uses uses = operand == 0 ? Row::uses_a : Row::uses_b;
  if constexpr (!k_has_gradient<Row::kind, T> || Row::kind == RowKind::special || uses == nothing_) {
    return nullptr;
  } else {
    using Gradient = std::conditional_t<operand == 0, typename Row::GradientA, typename Row::GradientB>;
    return &PointwiseKernel<Gradient, T, T, T, T, T>::launch;
  }
}

template <class T, int operand>
PointwiseLaunch<5> binary_backward_launch_for(Binary row) {
  static constexpr PointwiseLaunch<5> k_launches[] = {
#define BINARY(name, ...) binary_backward_launch_of<Binary::name, T, operand>(),
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
  };
  return k_launches[static_cast<std::size_t>(row)];
}

}  // namespace sluice::detail
