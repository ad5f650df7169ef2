#pragma once

// Launches of every unary row but the special ones (special_cuda.cuh) for storage type T. Each device file compiles one
// or a few types, so that they build in parallel.
#include <utility>

#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/pointwise_cuda.cuh>

namespace sluice::detail {

/// The launch of formula F with N operands of type T.
template <class F, class Out, class T, std::size_t... I>
constexpr auto launch_of_each(std::index_sequence<I...>) {
  return &PointwiseKernel<F, Out, Each<T, I>...>::launch;
}

// Tables are of rows with P parameters; the others' places are empty.
template <Unary row, class T, int P>
constexpr PointwiseLaunch<2 + P> unary_launch_of() {
  using Row = math::UnaryRow<row>;
  if constexpr (!k_takes<Row::kind, T> || Row::kind == RowKind::special || Row::parameters != P) {
    return nullptr;
  } else {
    using Out = std::conditional_t<gives_bool(Row::kind), bool, T>;
    return launch_of_each<typename Row::Value, Out, T>(std::make_index_sequence<1 + P>());
  }
}

template <class T, int P>
PointwiseLaunch<2 + P> unary_launch_for(Unary row) {
  static constexpr PointwiseLaunch<2 + P> k_launches[] = {
#define UNARY(name, ...) unary_launch_of<Unary::name, T, P>(),
#include <sluice/operator/elementwise/unary.def>
  };
  return k_launches[static_cast<std::size_t>(row)];
}

template <Unary row, class T, int P>
constexpr PointwiseLaunch<4 + P> unary_backward_launch_of() {
  using Row = math::UnaryRow<row>;
  // Formulas that read neither x nor y never come here: see unary.cpp.
  constexpr bool is_none = Row::uses == nothing_ || Row::kind == RowKind::special;
  if constexpr (!k_has_gradient<Row::kind, T> || is_none || Row::parameters != P) {
    return nullptr;
  } else {
    return launch_of_each<typename Row::Gradient, T, T>(std::make_index_sequence<3 + P>());
  }
}

template <class T, int P>
PointwiseLaunch<4 + P> unary_backward_launch_for(Unary row) {
  static constexpr PointwiseLaunch<4 + P> k_launches[] = {
#define UNARY(name, ...) unary_backward_launch_of<Unary::name, T, P>(),
#include <sluice/operator/elementwise/unary.def>
  };
  return k_launches[static_cast<std::size_t>(row)];
}

}  // namespace sluice::detail

/// In namespace sluice::detail: the tables of storage type T.
#define SLUICE_UNARY_LAUNCHES(T)                             \
  template PointwiseLaunch<2> unary_launch_for<T, 0>(Unary); \
  template PointwiseLaunch<3> unary_launch_for<T, 1>(Unary); \
  template PointwiseLaunch<4> unary_launch_for<T, 2>(Unary);
#define SLUICE_UNARY_GRADIENT_LAUNCHES(T)                             \
  template PointwiseLaunch<4> unary_backward_launch_for<T, 0>(Unary); \
  template PointwiseLaunch<5> unary_backward_launch_for<T, 1>(Unary); \
  template PointwiseLaunch<6> unary_backward_launch_for<T, 2>(Unary);
