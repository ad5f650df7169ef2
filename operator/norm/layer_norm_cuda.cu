// What runs where: a row operator forward; backward rows in registers that sum up the parameters' gradients on their
// way, or otherwise the two apart.
#include <algorithm>

#include <sluice/operator/norm/layer_norm_backward_cuda.cuh>

namespace sluice::detail {

namespace {

// The gradient of any rows, V elements a load; what is written looks at the row again, which then lies in a cache.
template <int V, class T>
__global__ void __launch_bounds__(k_group_block) norm_backward_kernel(NormBackwardRow<T> of, Rows rows) {
  using C = Compute<T>;
  const Group group(rows.width);
  const std::int64_t vectors = rows.n / V;
  for (std::int64_t row = group.index; row < rows.count; row += group.count) {
    const std::int64_t offset = rows.offset(row);
    const NormRowAt<C> at = of.at(row);
    NormSums<C> sums{};
    NormValues<T, V> values;
    for (std::int64_t i = group.lane; i < vectors; i += rows.width) {
      of.load(values, offset, rows.step, i);
      of.widen(values);
      of.add(sums, values, at, i);
    }
    sums = of.means(join_group(sums, rows.width, [](const auto& a, const auto& b) { return joined(a, b); }));
    for (std::int64_t i = group.lane; i < vectors; i += rows.width) {
      of.load(values, offset, rows.step, i);
      of.widen(values);
      of.store(values, at, sums, offset, rows.step, i);
    }
  }
}

template <class T>
void launch_any(const NormBackward& norm, const Queue& queue) {
  constexpr int V = k_neighbours<T>;
  const NormBackwardRow<T> of(norm);
  const Rows rows(norm.rows.at);
  const cudaStream_t stream = stream_of(queue);
  if (of.in_vectors(norm.rows.at))
    norm_backward_kernel<V><<<rows.blocks(), k_group_block, 0, stream>>>(of, rows);
  else
    norm_backward_kernel<1><<<rows.blocks(), k_group_block, 0, stream>>>(of, rows);
  check_launch("layer_norm_backward");
}

}  // namespace

void row_norm_gpu(const KernelCall& call) {
  const NormForward norm(call);
  norm.rows.centred ? centred_rows_gpu(norm, call.queue) : uncentred_rows_gpu(norm, call.queue);
}

void row_norm_backward_gpu(const KernelCall& call) {
  const NormBackward norm(call);
  if (norm_backward_in_registers_gpu(norm, call.queue))
    return;
  if (call.inputs[0].size != 0)
    by_floating(norm.dtype, [&]<class T>() { launch_any<T>(norm, call.queue); });
  if (norm.gamma_grad.data != nullptr)
    norm_parameters_backward_gpu(norm, call.queue);
}

}  // namespace sluice::detail
