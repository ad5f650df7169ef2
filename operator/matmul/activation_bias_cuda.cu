#include <sluice/operator/elementwise/math.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel_reduce.cuh>
#include <sluice/operator/library/channel_walk.cuh>
#include <sluice/operator/library/tensor_core.cuh>
#include <sluice/operator/matmul/activation_bias.h>
#include <sluice/operator/pairs.cuh>
#include <sluice/operator/times_plus.h>

namespace sluice::detail {
namespace {

// The rows of a thread of channel_row_partials(), one behind the other: how many, and how many vectors of the array lie
// between two of them, which go towards its front.
struct RowsOfThread {
  int count = 0;
  std::int64_t first, beside, apart;  // a vector; to the next one in a round, and from its last one to the next round

  __device__ RowsOfThread(const ChannelRowsCut& cut, std::int64_t vector, int below) {
    const int rows_beside = k_rows_block / cut.lanes, round = k_rows_under_way * rows_beside;
    const std::int64_t turn = static_cast<std::int64_t>(gridDim.y) * round;
    const std::int64_t from_end = static_cast<std::int64_t>(blockIdx.y) * round + below;
    first = (cut.rows - 1 - from_end) * cut.vectors + vector;
    beside = rows_beside * cut.vectors;
    apart = (turn - round + rows_beside) * cut.vectors;
    const std::int64_t rows = vector < cut.vectors ? cut.rows - from_end : 0;
    const std::int64_t whole = max((rows - (round - rows_beside) + turn - 1) / turn, std::int64_t{0});
    const std::int64_t left = max(rows - whole * turn, std::int64_t{0});
    count = static_cast<int>(whole * k_rows_under_way + (left + rows_beside - 1) / rows_beside);
  }
  __device__ std::int64_t step_behind(int row) const {
    return row % k_rows_under_way == k_rows_under_way - 1 ? apart : beside;
  }
};

// The gradient of an activation, written and added up as it was rounded, in the order in which channel_sum_gpu() adds.
// What a thread reads it fetches some rows ahead, where it needs no registers.
template <Unary row, class T>
__global__ void __launch_bounds__(k_rows_block, 4)
    gradient_and_sum_kernel(ChannelRowsCut cut, const T* dy, const T* x, T* dx, ChannelSum<Compute<T>>* partials) {
  start_early();
  using C = Compute<T>;
  using Gradient = typename math::UnaryRow<row>::Gradient;
  constexpr int V = k_neighbours<T>, k_ahead = k_rows_under_way - 1;
  using Vector = Neighbours<T, V>;
  __shared__ Vector fetched[k_ahead + 1][2][k_rows_block];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % cut.lanes;
  const RowsOfThread rows(cut, static_cast<std::int64_t>(blockIdx.x) * cut.lanes + lane, thread / cut.lanes);
  std::int64_t next = rows.first, at = rows.first;
  const auto fetch = [&](int i) {
    if (i < rows.count) {
      Vector* const to = &fetched[i % (k_ahead + 1)][0][thread];
      fetch_piece(to, reinterpret_cast<const Vector*>(dy) + next, k_piece_bytes);
      fetch_piece(to + k_rows_block, reinterpret_cast<const Vector*>(x) + next, k_piece_bytes);
    }
    end_fetches();
    next -= rows.step_behind(i);
  };
#pragma unroll
  for (int i = 0; i < k_ahead; ++i)
    fetch(i);
  C sums[V] = {};
#pragma unroll 4
  for (int i = 0; i < rows.count; ++i) {
    fetch(i + k_ahead);
    await_fetches<k_ahead>();
    const Vector* const from = &fetched[i % (k_ahead + 1)][0][thread];
    C heads[V], points[V], made[V];
    widen(whole_vector(from), heads);
    widen(whole_vector(from + k_rows_block), points);
#pragma unroll
    for (int j = 0; j < V; ++j)
      made[j] = Gradient::of(heads[j], points[j], C{0});
    Vector rounded;
    narrow(made, rounded);
    reinterpret_cast<Vector*>(dx)[at] = rounded;
    at -= rows.step_behind(i);
    widen(rounded, made);
#pragma unroll
    for (int j = 0; j < V; ++j)
      sums[j] = plus(sums[j], made[j]);  // of floats a product, which stays rounded
  }
  join_row_partials<V>(cut, partials, [&](int j) { return ChannelSum<C>{{sums[j]}}; });
}

template <Unary row, class T>
bool gradient_and_sum(const KernelCall& call) {
  const T *const dy = call.inputs[0].as<const T>(), *const x = call.inputs[1].as<const T>();
  const TensorView& to = call.outputs[0];
  const std::int64_t units = call.outputs[1].size;
  const ChannelView view{units == 0 ? 0 : to.size / units, units, 1, to.dtype};
  constexpr int V = k_neighbours<T>;
  if (!in_channel_rows<V>(view, aligned_for_vectors(dy, x, to.as<T>())))
    return false;
  using Partial = ChannelSum<Compute<T>>;
  const auto launch = [&](const ChannelRowsCut& cut, dim3 grid, Partial* partials) {
    gradient_and_sum_kernel<row, T><<<grid, k_rows_block, 0, stream_of(call.queue)>>>(cut, dy, x, to.as<T>(), partials);
    check_early_launch(call.op.name, stream_of(call.queue));
  };
  channel_reduce_rows<Partial, V>(call.queue, view, call.op.name, launch, WriteChannelSum<T>{call.outputs[1].as<T>()});
  return true;
}

}  // namespace

template <Unary row>
void activation_bias_gpu(const KernelCall& call) {
  bool together = false;
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    if constexpr (sizeof(T) < sizeof(double))
      together = gradient_and_sum<row, T>(call);
  });
  if (!together)
    activation_bias_in_two(row, call);
}

template void activation_bias_gpu<Unary::gelu>(const KernelCall& call);
template void activation_bias_gpu<Unary::gelu_tanh>(const KernelCall& call);
template void activation_bias_gpu<Unary::silu>(const KernelCall& call);

}  // namespace sluice::detail
