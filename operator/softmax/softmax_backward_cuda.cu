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

// The same where rows lie in the registers of their groups: one pass over the memory.
template <int V, int P, class T>
__global__ void __launch_bounds__(k_group_block)
    softmax_backward_kept_kernel(const T* y, const T* dy, T* dx, RowShape rows, bool log) {
  using C = Compute<T>;
  using Vector = Neighbours<T, V>;
  const Group group(rows.width);
  const auto vectors = static_cast<int>(rows.n / V);
  for (std::int64_t row = group.index; row < rows.count; row += group.count) {
    const auto* results = reinterpret_cast<const Vector*>(y + row * rows.n);
    const auto* grads = reinterpret_cast<const Vector*>(dy + row * rows.n);
    auto* to = reinterpret_cast<Vector*>(dx + row * rows.n);
    Vector result[P], grad[P];
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (const int i = group.lane + p * rows.width; i < vectors) {
        result[p] = results[i];
        grad[p] = grads[i];
      }
    }
    C total = 0;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (group.lane + p * rows.width >= vectors)
        continue;
#pragma unroll
      for (int j = 0; j < V; ++j)
        total += static_cast<C>(grad[p].at[j]) * (log ? C{1} : static_cast<C>(result[p].at[j]));
    }
    total = join_group(total, rows.width, [](C a, C b) { return a + b; });
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int i = group.lane + p * rows.width;
      if (i >= vectors)
        continue;
      Vector made;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const C value = static_cast<C>(result[p].at[j]), g = static_cast<C>(grad[p].at[j]);
        made.at[j] = static_cast<T>(log ? g - std::exp(value) * total : value * (g - total));
      }
      to[i] = made;
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
    const auto kept = [&]<int P>() {
      softmax_backward_kept_kernel<V, P><<<rows.blocks(), k_group_block, 0, stream>>>(y, dy, dx, rows, log);
    };
    if (rows.in_vectors(V, y, dy, dx)) {
      if (!by_kept_vectors(rows, V, kept))
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
