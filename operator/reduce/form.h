#pragma once

#include <cstddef>
#include <cstdint>

#include <sluice/operator/reduce/plan.h>
#include <sluice/operator/reduce/row_states.h>

namespace sluice::detail {

/// The kernels of reduce_kernels.cuh, by how they walk; `nothing`: each result is that of no terms.
enum class ReduceWalk : std::uint8_t { nothing, rows, columns, general };

/// How a reduction runs on a GPU. The order in which terms are added up, and so each bit of the results, follows from
/// it: it depends on the arrays alone, never on who asks.
struct ReduceForm {
  ReduceWalk walk = ReduceWalk::nothing;
  int vector = 1;          // neighbours that a thread reads at once: terms, or columns
  int width = 0;           // threads of a group; of columns the threads along them
  std::int64_t units = 0;  // groups, or tiles of columns, all pieces counted
  unsigned blocks = 0;     // of the kernel
  Split split;             // with general walks in vectors
};

/// What a reduction of elements of `bytes` that begin at `x` takes. `by_layout` false leaves out the forms for rows and
/// columns; `placed`: its state is told places.
ReduceForm form_of(const ReducePlan& plan, const void* x, std::size_t bytes, bool by_layout, bool placed);

/// The same of a row of reduce.def.
ReduceForm form_of_row(Reduction row, const TensorView& x, const Shape& axes);

/// Reductions that are rare have the general form alone: it is most of the time that compiling takes.
template <class Op>
inline constexpr bool k_by_layout = true;
template <class T>
inline constexpr bool k_by_layout<ProductOf<T>> = false;

}  // namespace sluice::detail
