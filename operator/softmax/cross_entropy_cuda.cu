#include <sluice/operator/fault.cuh>
#include <sluice/operator/index_value.h>
#include <sluice/operator/softmax/rows_cuda.cuh>

namespace sluice::detail {

namespace {

/// Class indices of any integer type, and where to report one that is none.
struct Labels {
  const void* data;
  DType dtype;
  std::int64_t classes;
  ErrorWord* errors;

  Labels(const KernelCall& call, const TensorView& labels, std::int64_t n)
      : data(labels.data), dtype(labels.dtype), classes(n), errors(call.queue.error_word()) {}

  /// The label of a row, or -1; `reports` is true for one thread of the row.
  __device__ std::int64_t at(std::int64_t row, bool reports) const {
    const std::int64_t label = load_index(data, dtype, row);
    if (label >= 0 && label < classes)
      return label;
    if (reports)
      report_index(errors, label, classes);
    return -1;
  }
};

template <class T>
__global__ void __launch_bounds__(k_group_block)
    cross_entropy_kernel(const T* logits, Labels labels, T* loss, Compute<T>* log_sum, RowShape rows) {
  using C = Compute<T>;
  const Group group(rows.width);
  for (std::int64_t row = group.index; row < rows.count; row += group.count) {
    const T* x = logits + rows.offset(row);
    const MaxSum<C> total = row_max_sum<1>(x, rows.n, rows.step, group.lane, rows.width);
    if (group.lane != 0)
      continue;
    const std::int64_t label = labels.at(row, true);
    const C log_of_sum = std::log(total.sum);
    log_sum[row] = total.largest;
    log_sum[rows.count + row] = log_of_sum;
    loss[row] = static_cast<T>(label < 0 ? C{0} : log_of_sum - (static_cast<C>(x[label * rows.step]) - total.largest));
  }
}

template <class T>
__global__ void __launch_bounds__(k_group_block) cross_entropy_backward_kernel(
    const T* logits, Labels labels, const Compute<T>* log_sum, const T* dy, T* dx, RowShape rows) {
  using C = Compute<T>;
  const Group group(rows.width);
  for (std::int64_t row = group.index; row < rows.count; row += group.count) {
    const std::int64_t offset = rows.offset(row);
    const std::int64_t label = labels.at(row, group.lane == 0);
    const C scale = static_cast<C>(dy[row]), largest = log_sum[row], log_of_sum = log_sum[rows.count + row];
    for (std::int64_t i = group.lane; i < rows.n; i += rows.width) {
      const std::int64_t element = offset + i * rows.step;
      const C probability = std::exp((static_cast<C>(logits[element]) - largest) - log_of_sum);
      dx[element] = static_cast<T>(label < 0 ? C{0} : (probability - (i == label ? C{1} : C{0})) * scale);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(k_group_block)
    likelihood_kernel(const T* log_probs, Labels labels, T* loss, RowShape rows) {
  const Group group(1);
  for (std::int64_t row = group.index; row < rows.count; row += group.count) {
    const std::int64_t label = labels.at(row, true);
    using C = Compute<T>;
    loss[row] = static_cast<T>(label < 0 ? C{0} : -static_cast<C>(log_probs[rows.offset(row) + label * rows.step]));
  }
}

template <class T>
__global__ void __launch_bounds__(k_group_block)
    likelihood_backward_kernel(Labels labels, const T* dy, T* dx, RowShape rows) {
  using C = Compute<T>;
  const Group group(rows.width);
  for (std::int64_t row = group.index; row < rows.count; row += group.count) {
    const std::int64_t offset = rows.offset(row);
    const std::int64_t label = labels.at(row, group.lane == 0);
    for (std::int64_t i = group.lane; i < rows.n; i += rows.width)
      dx[offset + i * rows.step] = static_cast<T>(i == label ? -static_cast<C>(dy[row]) : C{0});
  }
}

cudaStream_t stream_of(const KernelCall& call) {
  return static_cast<cudaStream_t>(call.queue.stream());
}

}  // namespace

void softmax_cross_entropy_gpu(const KernelCall& call) {
  const RowShape rows(softmax_layout(call));
  if (rows.count == 0)
    return;
  const Labels labels(call, call.inputs[1], rows.n);
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    cross_entropy_kernel<<<rows.blocks(), k_group_block, 0, stream_of(call)>>>(
        call.inputs[0].as<const T>(), labels, call.outputs[0].as<T>(), call.outputs[1].as<Compute<T>>(), rows);
  });
  cuda::cuda_check(cudaGetLastError(), "softmax_cross_entropy");
}

void softmax_cross_entropy_backward_gpu(const KernelCall& call) {
  const RowShape rows(softmax_layout(call));
  if (call.outputs[0].size == 0)
    return;
  const Labels labels(call, call.inputs[1], rows.n);
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    cross_entropy_backward_kernel<<<rows.blocks(), k_group_block, 0, stream_of(call)>>>(
        call.inputs[0].as<const T>(),
        labels,
        call.inputs[2].as<const Compute<T>>(),
        call.inputs[3].as<const T>(),
        call.outputs[0].as<T>(),
        rows);
  });
  cuda::cuda_check(cudaGetLastError(), "softmax_cross_entropy_backward");
}

void negative_log_likelihood_gpu(const KernelCall& call) {
  const RowShape rows(softmax_layout(call));
  if (rows.count == 0)
    return;
  const Labels labels(call, call.inputs[1], rows.n);
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    likelihood_kernel<<<blocks_for_groups(rows.count, 1), k_group_block, 0, stream_of(call)>>>(
        call.inputs[0].as<const T>(), labels, call.outputs[0].as<T>(), rows);
  });
  cuda::cuda_check(cudaGetLastError(), "negative_log_likelihood");
}

void negative_log_likelihood_backward_gpu(const KernelCall& call) {
  const auto& a = call.attributes.as<SoftmaxAttributes>();
  const RowShape rows(axis_layout(call.outputs[0].shape, static_cast<int>(a.axis)));
  if (call.outputs[0].size == 0)
    return;
  const Labels labels(call, call.inputs[0], rows.n);
  by_floating(call.outputs[0].dtype, [&]<class T>() {
    likelihood_backward_kernel<<<rows.blocks(), k_group_block, 0, stream_of(call)>>>(
        labels, call.inputs[1].as<const T>(), call.outputs[0].as<T>(), rows);
  });
  cuda::cuda_check(cudaGetLastError(), "negative_log_likelihood_backward");
}

}  // namespace sluice::detail
