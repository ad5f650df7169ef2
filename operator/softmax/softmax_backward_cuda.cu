#include <sluice/operator/softmax/rows_cuda.cuh>

namespace sluice::detail {

namespace {

// y * (dy - sum(y * dy)), or dy - exp(y) * sum(dy) for the logarithm.
template <int V, class T>
__global__ void __launch_bounds__(k_group_block)
    softmax_backward_kernel(const T* y, const T* dy, T* dx, RowShape rows, bool log) {
  using C = Compute<T>;
  using Pack = Neighbours<T, V>;
  const Group group(rows.width);
  for (std::int64_t row = group.index; row < rows.count; row += group.count) {
    const std::int64_t offset = rows.offset(row);
    // In units of packs; with V > 1 rows are neighbours and the step is 1.
    const auto* results = reinterpret_cast<const Pack*>(y + offset);
    const auto* grads = reinterpret_cast<const Pack*>(dy + offset);
    auto* to = reinterpret_cast<Pack*>(dx + offset);
    C total = 0;
    for (std::int64_t i = group.lane; i < rows.n / V; i += rows.width) {
      const Pack result = results[i * rows.step], grad = grads[i * rows.step];
#pragma unroll
      for (int j = 0; j < V; ++j)
        total += static_cast<C>(grad.at[j]) * (log ? C{1} : static_cast<C>(result.at[j]));
    }
    total = join_group(total, rows.width, [](C a, C b) { return a + b; });
    for (std::int64_t i = group.lane; i < rows.n / V; i += rows.width) {
      const Pack result = results[i * rows.step], grad = grads[i * rows.step];
      Pack made;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const C value = static_cast<C>(result.at[j]), g = static_cast<C>(grad.at[j]);
        made.at[j] = static_cast<T>(log ? g - std::exp(value) * total : value * (g - total));
      }
      to[i * rows.step] = made;
    }
  }
}

void softmax_backward_rows(const KernelCall& call, bool log) {
  const RowShape rows(softmax_layout(call));
  if (call.inputs[0].size == 0)
    return;
  const auto stream = static_cast<cudaStream_t>(call.queue.stream());
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    const T* y = call.inputs[0].as<const T>();
    const T* dy = call.inputs[1].as<const T>();
    T* dx = call.outputs[0].as<T>();
    constexpr int V = k_neighbours<T>;
    if (rows.in_vectors(V, y, dy, dx)) {
      softmax_backward_kernel<V><<<rows.blocks(), k_group_block, 0, stream>>>(y, dy, dx, rows, log);
    } else {
      softmax_backward_kernel<1><<<rows.blocks(), k_group_block, 0, stream>>>(y, dy, dx, rows, log);
    }
  });
  cuda::cuda_check(cudaGetLastError(), "softmax_backward");
}

}  // namespace

void softmax_backward_gpu(const KernelCall& call) {
  softmax_backward_rows(call, false);
}

void log_softmax_backward_gpu(const KernelCall& call) {
  softmax_backward_rows(call, true);
}

}  // namespace sluice::detail
