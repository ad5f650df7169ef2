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

// A row lies in the registers of its group: one pass over the memory, with P loads of a thread under way.
template <int V, int P, bool log, class T>
__global__ void __launch_bounds__(k_group_block) softmax_kept_kernel(const T* x, T* y, RowShape rows) {
  using C = Compute<T>;
  using Vector = Neighbours<T, V>;
  const Group group(rows.width);
  const auto vectors = static_cast<int>(rows.n / V);
  for (std::int64_t row = group.index; row < rows.count; row += group.count) {
    const auto* from = reinterpret_cast<const Vector*>(x + row * rows.n);
    auto* to = reinterpret_cast<Vector*>(y + row * rows.n);
    Vector kept[P];
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (const int i = group.lane + p * rows.width; i < vectors)
        kept[p] = from[i];
    }
    C largest = negative_infinity<C>();
    C values[P][V];
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const bool there = group.lane + p * rows.width < vectors;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        values[p][j] = there ? static_cast<C>(kept[p].at[j]) : negative_infinity<C>();
        largest = values[p][j] > largest ? values[p][j] : largest;
      }
    }
    largest = join_group(largest, rows.width, [](C a, C b) { return a > b ? a : b; });
    // Nothing but -inf is no distribution: NaN, as of -inf - -inf.
    const bool empty = largest == negative_infinity<C>();
    const C beside = empty ? C{0} : largest;
    C sum = 0;
#pragma unroll
    for (int p = 0; p < P; ++p) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const C power = std::exp(values[p][j] - beside);
        sum += power;
        values[p][j] = log ? values[p][j] - largest : power;
      }
    }
    sum = join_group(sum, rows.width, [](C a, C b) { return a + b; });
    const C last = log ? std::log(sum) : empty ? largest - largest : C{1} / sum;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int i = group.lane + p * rows.width;
      if (i >= vectors)
        continue;
      Vector made;
#pragma unroll
      for (int j = 0; j < V; ++j)
        made.at[j] = static_cast<T>(log ? values[p][j] - last : values[p][j] * last);
      to[i] = made;
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
    const auto kept = [&]<int P>() {
      if (log)
        softmax_kept_kernel<V, P, true><<<rows.blocks(), k_group_block, 0, stream>>>(x, y, rows);
      else
        softmax_kept_kernel<V, P, false><<<rows.blocks(), k_group_block, 0, stream>>>(x, y, rows);
    };
    if (rows.in_vectors(V, x, y)) {
      if (!by_kept_vectors(rows, V, kept))
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
