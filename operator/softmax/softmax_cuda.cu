#include <sluice/operator/softmax/rows_cuda.cuh>

namespace sluice::detail {

namespace {

// The second pass over a row finds it in the cache.
template <int V, class T>
__global__ void __launch_bounds__(k_group_block) softmax_kernel(const T* x, T* y, RowShape rows, bool log) {
  using C = Compute<T>;
  const Group group(rows.width);
  for (std::int64_t row = group.index; row < rows.count; row += group.count) {
    const std::int64_t offset = rows.offset(row);
    const T* from = x + offset;
    T* to = y + offset;
    const MaxSum<C> total = row_max_sum<V>(from, rows.n, rows.step, group.lane, rows.width);
    const C last = log ? std::log(total.sum) : C{1} / total.sum;
    const auto value = [&](T element) {
      const C shifted = static_cast<C>(element) - total.largest;
      return static_cast<T>(log ? shifted - last : std::exp(shifted) * last);
    };
    for (std::int64_t i = group.lane; i < rows.n / V; i += rows.width) {
      if constexpr (V == 1) {
        to[i * rows.step] = value(from[i * rows.step]);
      } else {
        Neighbours<T, V> values = reinterpret_cast<const Neighbours<T, V>*>(from)[i];
#pragma unroll
        for (int j = 0; j < V; ++j)
          values.at[j] = value(values.at[j]);
        reinterpret_cast<Neighbours<T, V>*>(to)[i] = values;
      }
    }
  }
}

void softmax_rows(const KernelCall& call, bool log) {
  const RowShape rows(softmax_layout(call));
  if (call.inputs[0].size == 0)
    return;
  const auto stream = static_cast<cudaStream_t>(call.queue.stream());
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    const T* x = call.inputs[0].as<const T>();
    T* y = call.outputs[0].as<T>();
    constexpr int V = k_neighbours<T>;
    if (rows.in_vectors(V, x, y)) {
      softmax_kernel<V><<<rows.blocks(), k_group_block, 0, stream>>>(x, y, rows, log);
    } else {
      softmax_kernel<1><<<rows.blocks(), k_group_block, 0, stream>>>(x, y, rows, log);
    }
  });
  cuda::cuda_check(cudaGetLastError(), "softmax");
}

}  // namespace

void softmax_gpu(const KernelCall& call) {
  softmax_rows(call, false);
}

void log_softmax_gpu(const KernelCall& call) {
  softmax_rows(call, true);
}

}  // namespace sluice::detail
