// The place of the largest or smallest element of each row.
#include <cstdint>
#include <type_traits>

#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/reduce/kernels.h>
#include <sluice/operator/reduce/plan.h>
#include <sluice/operator/reduce/states.h>
#include <sluice/operator/row_kernel.cuh>

namespace sluice::detail {

namespace {

template <class T, bool Largest>
struct Arg : RowOperands<T, 1, false> {
  using C = Compute<T>;
  using Total = Candidate<C>;
  std::int64_t* out_index = nullptr;

  // Changes nothing where a thread finds no other.
  __device__ Total start(std::int64_t offset) const { return {static_cast<C>(this->in[0][offset]), 0}; }
  template <int V>
  __device__ void take(Total& best, const RowValues<C, 1, V>& values, std::int64_t first) const {
    // One comparison an element says whether any may win; a NaN on either side says so too.
    bool any = false;
#pragma unroll
    for (int j = 0; j < V; ++j)
      any |= !(Largest ? values.at[0][j] <= best.value : values.at[0][j] >= best.value);
    if (!any)
      return;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      // A thread's indices grow, so of equals the first stays.
      const C value = values.at[0][j];
      const bool wins = Largest ? value > best.value : value < best.value;
      if (wins || (is_nan(value) && !is_nan(best.value)))
        best = {value, first + j};
    }
  }
  __device__ Total join(const Total& a, const Total& b) const {
    return better<Largest>(a, b);
  }
  __device__ int finish(std::int64_t row, std::int64_t, const Total& best, bool once) const {
    if (once)
      out_index[row] = best.index;
    return 0;
  }
};

template <class T, bool Largest>
void arg_over(const KernelCall& call) {
  const ReducePlan plan = plan_reduce(call.inputs[0], call.attributes.as<ReduceAttributes>().axes);
  if (plan.outputs() == 0)
    return;
  Arg<T, Largest> op;
  op.in[0] = call.inputs[0].as<const T>();
  op.out_index = call.outputs[0].as<std::int64_t>();
  Rows rows;
  rows.count = plan.outputs();
  rows.n = plan.terms();
  rows.step = plan.reduced.inner_stride(0);
  rows.pitch = plan.kept.inner_stride(1);
  const cudaStream_t stream = stream_of(call.queue);
  if (plan.kept.ndim == 1 && op.in_vectors(rows, k_neighbours<T>)) {
    rows.width = row_width(rows.count, rows.n);
    return launch_rows("arg", op, rows, stream);
  }
  // Threads side by side read side by side: along the outputs, or along the terms.
  rows.width = plan.columns() ? 1 : group_width(rows.n);
  with_geometry(plan.kept, [&](auto kept) { launch_placed_rows("arg", op, PlacedRows(rows, kept), stream); });
}

template <bool Largest>
void arg_of_any(const KernelCall& call) {
  by_dtype(call.inputs[0].dtype, [&]<class T>() {
    // A bool is read as the byte that it is.
    arg_over<std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>, Largest>(call);
  });
}

}  // namespace

void argmax_gpu(const KernelCall& call) {
  arg_of_any<true>(call);
}

void argmin_gpu(const KernelCall& call) {
  arg_of_any<false>(call);
}

}  // namespace sluice::detail
