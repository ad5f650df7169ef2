#include <sluice/operator/fault.cuh>
#include <sluice/operator/index_value.h>
#include <sluice/operator/softmax/loss_values.h>
#include <sluice/operator/softmax/max_sum_cuda.cuh>
#include <sluice/operator/times_plus.h>

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

// What every loss has: a label a row.
template <class Base>
struct Labelled : Base {
  Labels labels;
  explicit Labelled(const Labels& of_rows) : labels(of_rows) {}
};
template <class T>
struct CrossEntropy : Labelled<MaxSumRow<T, false>> {
  using C = Compute<T>;
  LossValues<T> losses;
  C* log_sum;  // the largest element of each row, then the logarithms of the sums
  std::int64_t count, step;

  CrossEntropy(const KernelCall& call, const Labels& of_rows, const Rows& rows)
      : Labelled<MaxSumRow<T, false>>(of_rows),
        losses(call.outputs[0]),
        log_sum(call.outputs[1].as<C>()),
        count(rows.count),
        step(rows.step) {
    this->in[0] = call.inputs[0].as<const T>();
  }
  __device__ int finish(std::int64_t row, std::int64_t offset, const MaxSum<C>& total, bool once) const {
    if (!once)
      return 0;
    const std::int64_t label = this->labels.at(row, true);
    const C log_of_sum = std::log(total.sum);
    log_sum[row] = total.largest;
    log_sum[count + row] = log_of_sum;
    const C chosen = label < 0 ? C{0} : static_cast<C>(this->in[0][offset + label * step]) - total.largest;
    losses.put(row, label < 0 ? C{0} : minus(log_of_sum, chosen));
    return 0;
  }
};

template <class T>
struct CrossEntropyBackward : Labelled<RowOperands<T, 1, true>> {
  static constexpr bool k_joined = false;  // nothing is summed
  using C = Compute<T>;
  struct Told {
    std::int64_t label;
    C scale, largest, log_of_sum;
  };
  const C* log_sum;
  LossValues<T> dy;
  std::int64_t count;

  CrossEntropyBackward(const KernelCall& call, const Labels& of_rows, const Rows& rows)
      : Labelled<RowOperands<T, 1, true>>(of_rows),
        log_sum(call.inputs[2].as<const C>()),
        dy(call.inputs[3]),
        count(rows.count) {
    this->in[0] = call.inputs[0].as<const T>();
    this->out = call.outputs[0].as<T>();
  }
  __device__ int start(std::int64_t) const { return 0; }
  __device__ Told finish(std::int64_t row, std::int64_t, int, bool once) const {
    return {this->labels.at(row, once), dy.get(row), log_sum[row], log_sum[count + row]};
  }
  template <int V>
  __device__ C give(const Told& told, const RowValues<C, 1, V>& values, int j, std::int64_t i) const {
    const C probability = std::exp(minus(values.at[0][j] - told.largest, told.log_of_sum));
    return told.label < 0 ? C{0} : minus(probability, i == told.label ? C{1} : C{0}) * told.scale;
  }
};

// Both at once: a row is read again while it lies in a cache, and what belongs to it stays in registers. The gradient
// may lie where the logits do: nobody writes before the label's one is read.
template <class T>
struct CrossEntropyBoth : Labelled<MaxSumRow<T, true>> {
  using C = Compute<T>;
  using Told = typename CrossEntropyBackward<T>::Told;
  LossValues<T> dy;
  LossValues<T> losses;
  C* log_sum;
  std::int64_t count, step;
  int width;

  CrossEntropyBoth(const KernelCall& call, const Labels& of_rows, const Rows& rows)
      : Labelled<MaxSumRow<T, true>>(of_rows),
        dy(call.inputs[2]),
        losses(call.outputs[0]),
        log_sum(call.outputs[1].as<C>()),
        count(rows.count),
        step(rows.step),
        width(rows.width) {
    this->in[0] = call.inputs[0].as<const T>();
    this->out = call.outputs[2].as<T>();
  }
  __device__ Told finish(std::int64_t row, std::int64_t offset, const MaxSum<C>& total, bool once) const {
    const std::int64_t label = this->labels.at(row, once);
    const C log_of_sum = std::log(total.sum);
    if (once) {
      log_sum[row] = total.largest;
      log_sum[count + row] = log_of_sum;
      const C chosen = label < 0 ? C{0} : static_cast<C>(this->in[0][offset + label * step]) - total.largest;
      losses.put(row, label < 0 ? C{0} : minus(log_of_sum, chosen));
    }
    sync_group(width);
    return {label, dy.get(row), total.largest, log_of_sum};
  }
  template <int V>
  __device__ C give(const Told& told, const RowValues<C, 1, V>& values, int j, std::int64_t i) const {
    const C probability = std::exp(minus(values.at[0][j] - told.largest, told.log_of_sum));
    return told.label < 0 ? C{0} : minus(probability, i == told.label ? C{1} : C{0}) * told.scale;
  }
};

}  // namespace

void softmax_cross_entropy_gpu(const KernelCall& call) {
  const Rows rows(cross_entropy_layout(call));
  if (rows.count == 0)
    return;
  const Labels labels(call, call.inputs[1], rows.n);
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    launch_rows("softmax_cross_entropy", CrossEntropy<T>(call, labels, rows), rows, stream_of(call.queue));
  });
}

void softmax_cross_entropy_backward_gpu(const KernelCall& call) {
  const Rows rows(cross_entropy_layout(call));
  if (rows.count == 0)
    return;
  const Labels labels(call, call.inputs[1], rows.n);
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    const CrossEntropyBackward<T> op(call, labels, rows);
    launch_rows("softmax_cross_entropy_backward", op, rows, stream_of(call.queue));
  });
}

void softmax_cross_entropy_both_gpu(const KernelCall& call) {
  const Rows rows(cross_entropy_layout(call));
  if (rows.count == 0)
    return;
  // Where the gradient lies off the others' alignment, forward alone would add up in vectors: the same bits by two.
  // Of no classes there is no gradient to launch for, but labels that name none.
  if (rows.n == 0 || reinterpret_cast<std::uintptr_t>(call.outputs[2].data) % 16 != 0)
    return cross_entropy_in_two(call, softmax_cross_entropy_gpu, softmax_cross_entropy_backward_gpu);
  const Labels labels(call, call.inputs[1], rows.n);
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    const CrossEntropyBoth<T> op(call, labels, rows);
    launch_rows("softmax_cross_entropy_both", op, rows, stream_of(call.queue));
  });
}

}  // namespace sluice::detail
