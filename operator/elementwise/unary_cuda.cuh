#pragma once

// Launches of every unary row for storage type T. Each device file compiles one or a few types, so that they build in
// parallel.
#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/pointwise_cuda.cuh>

namespace sluice::detail {

template <Unary row, class T>
constexpr PointwiseLaunch<2> unary_launch_of() {
  using Row = math::UnaryRow<row>;
  if constexpr (!k_takes<Row::kind, T>) {
    return nullptr;
  } else {
    using Out = std::conditional_t<gives_bool(Row::kind), bool, T>;
    return &PointwiseKernel<typename Row::Value, Out, T>::launch;
  }
}

template <class T>
PointwiseLaunch<2> unary_launch_for(Unary row) {
  static constexpr PointwiseLaunch<2> k_launches[] = {
#define UNARY(name, ...) unary_launch_of<Unary::name, T>(),
#include <sluice/operator/elementwise/unary.def>
#undef UNARY
  };
  return k_launches[static_cast<std::size_t>(row)];
}

template <Unary row, class T>
constexpr PointwiseLaunch<4> unary_gradient_launch_of() {
  using Row = math::UnaryRow<row>;
  // Formulas that read neither x nor y never come here: see unary.cpp.
  if constexpr (!k_has_gradient<Row::kind, T> || Row::uses == nothing_) {
    return nullptr;
  } else {
    return &PointwiseKernel<typename Row::Gradient, T, T, T, T>::launch;
  }
}

template <class T>
PointwiseLaunch<4> unary_gradient_launch_for(Unary row) {
  static constexpr PointwiseLaunch<4> k_launches[] = {
#define UNARY(name, ...) unary_gradient_launch_of<Unary::name, T>(),
#include <sluice/operator/elementwise/unary.def>
#undef UNARY
  };
  return k_launches[static_cast<std::size_t>(row)];
}

}  // namespace sluice::detail
