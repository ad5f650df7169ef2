#include <sluice/operator/fault.cuh>
#include <sluice/operator/index_value.h>
#include <sluice/operator/row_in_shared.cuh>
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
  IgnoredLabel ignored;
  ErrorWord* errors;

  Labels(const KernelCall& call, const TensorView& labels, std::int64_t n)
      : data(labels.data),
        dtype(labels.dtype),
        classes(n),
        ignored(call.attributes.as<CrossEntropyAttributes>().ignored()),
        errors(call.queue.error_word()) {}

  /// The label of a row, or -1 of one that does not count; `reports` is true for one thread of the row.
  __device__ std::int64_t at(std::int64_t row, bool reports) const {
    const std::int64_t label = load_index(data, dtype, row);
    if (ignored.is(label))
      return -1;
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

// What is known of a row before its elements are: the label's logit to one thread alone.
template <class C>
struct KnownOfRow {
  std::int64_t label;
  C chosen, dy;
};

// Where losses go, and what their gradients need of each row.
template <class T>
struct LossesOfRows {
  using C = Compute<T>;
  LossValues<T> losses;
  C* log_sum;  // the largest element of each row, then the logarithms of the sums
  std::int64_t count, step;

  LossesOfRows(const KernelCall& call, const Rows& rows)
      : losses(call.outputs[0]), log_sum(call.outputs[1].as<C>()), count(rows.count), step(rows.step) {}

  __device__ C chosen(const T* logits, std::int64_t offset, std::int64_t label, bool once) const {
    return once && label >= 0 ? static_cast<C>(logits[offset + label * step]) : C{0};
  }
  __device__ void put(std::int64_t row, const KnownOfRow<C>& known, C largest, C log_of_sum) const {
    const bool counts = known.label >= 0;  // what is kept of other rows nobody reads
    log_sum[row] = counts ? largest : C{0};
    log_sum[count + row] = counts ? log_of_sum : C{0};
    losses.put(row, counts ? minus(log_of_sum, known.chosen - largest) : C{0});
  }
};

template <class T>
struct CrossEntropy : Labelled<MaxSumRow<T, false>> {
  using C = Compute<T>;
  LossesOfRows<T> to;

  CrossEntropy(const KernelCall& call, const Labels& of_rows, const Rows& rows)
      : Labelled<MaxSumRow<T, false>>(of_rows), to(call, rows) {
    this->in[0] = call.inputs[0].as<const T>();
  }
  __device__ KnownOfRow<C> known(std::int64_t row, std::int64_t offset, bool once) const {
    if (!once)
      return {};
    const std::int64_t label = this->labels.at(row, true);
    return {label, to.chosen(this->in[0], offset, label, true), C{0}};
  }
  __device__ int finish_known(const KnownOfRow<C>& known, std::int64_t row, const MaxSum<C>& total, bool once) const {
    if (once)
      to.put(row, known, total.largest, std::log(total.sum));
    return 0;
  }
  __device__ int finish(std::int64_t row, std::int64_t offset, const MaxSum<C>& total, bool once) const {
    return finish_known(known(row, offset, once), row, total, once);
  }
};

// What a row's gradient is made of, its losses' gradient being `scale`.
template <class T>
struct RowGradient {
  using C = Compute<T>;
  std::int64_t label;
  C scale, largest, log_of_sum;

  __device__ C probability(C logit) const { return power_of_e<T>(minus(logit - largest, log_of_sum)); }
  // Elements `first`, .. of it. A row without a label has none, whatever its logits are.
  template <int V>
  __device__ void give(const RowValues<C, 1, V>& logits, std::int64_t first, Neighbours<T, V>& made) const {
    if (label < 0) {
      made = {};
      return;
    }
    C values[V];
#pragma unroll
    for (int j = 0; j < V; ++j)
      values[j] = probability(logits.at[0][j]);
    if (const auto at = static_cast<std::uint64_t>(label - first); at < V) {
#pragma unroll
      for (int j = 0; j < V; ++j)
        values[j] = minus(values[j], j == static_cast<int>(at) ? C{1} : C{0});
    }
#pragma unroll
    for (C& value : values)
      value *= scale;
    narrow(values, made);
  }
};

template <class T>
struct CrossEntropyBackward : Labelled<RowOperands<T, 1, true>> {
  static constexpr bool k_joined = false;  // nothing is summed
  using C = Compute<T>;
  using Told = RowGradient<T>;
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
  __device__ void give_vector(
      const Told& told, const RowValues<C, 1, V>& logits, std::int64_t first, Neighbours<T, V>& made) const {
    told.give(logits, first, made);
  }
};

// Both at once: memory is read once where a row fits shared memory, and what belongs to it stays in registers. The
// gradient may lie where the logits do: nobody writes before the label's one is read.
template <class T>
struct CrossEntropyBoth : Labelled<MaxSumRow<T, true>> {
  using C = Compute<T>;
  using Told = RowGradient<T>;
  LossValues<T> dy;
  LossesOfRows<T> to;
  int width;

  CrossEntropyBoth(const KernelCall& call, const Labels& of_rows, const Rows& rows)
      : Labelled<MaxSumRow<T, true>>(of_rows), dy(call.inputs[2]), to(call, rows), width(rows.width) {
    this->in[0] = call.inputs[0].as<const T>();
    this->out = call.outputs[2].as<T>();
  }
  __device__ KnownOfRow<C> known(std::int64_t row, std::int64_t offset, bool once) const {
    const std::int64_t label = this->labels.at(row, once);
    return {label, to.chosen(this->in[0], offset, label, once), dy.get(row)};
  }
  __device__ Told finish_known(const KnownOfRow<C>& known, std::int64_t row, const MaxSum<C>& total, bool once) const {
    const C log_of_sum = std::log(total.sum);
    if (once)
      to.put(row, known, total.largest, log_of_sum);
    return {known.label, known.dy, total.largest, log_of_sum};
  }
  __device__ Told finish(std::int64_t row, std::int64_t offset, const MaxSum<C>& total, bool once) const {
    const KnownOfRow<C> read = known(row, offset, once);
    sync_group(width);
    return finish_known(read, row, total, once);
  }
  template <int V>
  __device__ void give_vector(
      const Told& told, const RowValues<C, 1, V>& logits, std::int64_t first, Neighbours<T, V>& made) const {
    told.give(logits, first, made);
  }
};

// Forward alone and with the gradient add up in the same order.
template <class R>
void launch_long_rows(const char* name, const R& op, const Rows& rows, const Queue& queue) {
  if (!launch_rows_in_shared(name, op, rows, queue.device().index, stream_of(queue)))
    launch_rows(name, op, rows, stream_of(queue));
}

}  // namespace

void softmax_cross_entropy_gpu(const KernelCall& call) {
  const Rows rows(cross_entropy_layout(call));
  if (rows.count == 0)
    return;
  const Labels labels(call, call.inputs[1], rows.n);
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    launch_long_rows("softmax_cross_entropy", CrossEntropy<T>(call, labels, rows), rows, call.queue);
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
    launch_long_rows("softmax_cross_entropy_both", op, rows, call.queue);
  });
}

}  // namespace sluice::detail
