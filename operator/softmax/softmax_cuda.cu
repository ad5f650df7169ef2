#include <cmath>
#include <limits>

#include <sluice/operator/row_in_shared.cuh>
#include <sluice/operator/softmax/max_sum_cuda.cuh>

namespace sluice::detail {

namespace {

template <class C>
struct LargestAndLast {
  C largest, last;  // the logarithm of the sum, or what scales exponentials
};

// The largest first and then the sum: an exponential an element, which give() scales. A logarithm needs none of them
// again: the row stays as it lies in memory, in half as many registers where its type is half as wide.
template <class T, bool Log>
struct SoftmaxInRegisters : RowOperands<T, 1, true> {
  using C = Compute<T>;
  static constexpr bool k_twice = true, k_changes = !Log;
  static constexpr C k_absent = -std::numeric_limits<C>::infinity();
  // More would need more registers than there are.
  static constexpr int blocks_at_least(int kept) { return kept > 16 || sizeof(T) > 4 ? 1 : sizeof(T) == 4 ? 6 : 8; }
  explicit SoftmaxInRegisters(const RowOperands<T, 1, true>& operands) : RowOperands<T, 1, true>(operands) {}

  __device__ C start(std::int64_t) const { return negative_infinity<C>(); }
  template <int V>
  __device__ void take(C& largest, const RowValues<C, 1, V>& values, std::int64_t) const {
#pragma unroll
    for (int j = 0; j < V; ++j)
      largest = std::fmax(largest, values.at[0][j]);  // a NaN is seen in the sum
  }
  __device__ C join(C a, C b) const {
    return std::fmax(a, b);
  }
  __device__ C start_again(C) const {
    return C{0};
  }
  // Nothing but -inf is no distribution: NaN, as of -inf - -inf.
  template <int V>
  __device__ void take_again(C& sum, RowValues<C, 1, V>& values, C largest, std::int64_t) const {
    const C beside = largest == negative_infinity<C>() ? C{0} : largest;
#pragma unroll
    for (C& value : values.at[0]) {
      value = power_of_e<T>(value - beside);
      sum += value;
    }
  }
  template <int V>
  __device__ void take_again(C& sum, RowValues<C, 1, V>&& values, C largest, std::int64_t first) const {
    take_again(sum, values, largest, first);
  }
  __device__ C join_again(C a, C b) const {
    return a + b;
  }
  __device__ LargestAndLast<C> finish(std::int64_t, std::int64_t, C largest, C sum, bool) const {
    if constexpr (Log)
      return {largest, std::log(sum)};
    return {largest, largest == negative_infinity<C>() ? largest - largest : C{1} / sum};
  }
  template <int V>
  __device__ C give(const LargestAndLast<C>& told, const RowValues<C, 1, V>& values, int j, std::int64_t) const {
    const C value = values.at[0][j];
    return Log ? value - told.largest - told.last : value * told.last;
  }
};

template <class T, bool Log>
struct Softmax : MaxSumRow<T, true> {
  using C = Compute<T>;
  using InRegisters = SoftmaxInRegisters<T, Log>;

  __device__ MaxSum<C> finish(std::int64_t, std::int64_t, const MaxSum<C>& total, bool) const {
    return {total.largest, Log ? std::log(total.sum) : C{1} / total.sum};
  }
  template <int V>
  __device__ C give(const MaxSum<C>& last, const RowValues<C, 1, V>& values, int j, std::int64_t) const {
    const C shifted = values.at[0][j] - last.largest;
    return Log ? shifted - last.sum : power_of_e<T>(shifted) * last.sum;
  }
};

template <bool Log>
void softmax_rows(const char* name, const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    Softmax<T, Log> op;
    op.in[0] = call.inputs[0].as<const T>();
    op.out = call.outputs[0].as<T>();
    const Rows rows(softmax_layout(call));
    if (!launch_rows_in_shared(name, op, rows, call.queue.device().index, stream_of(call.queue)))
      launch_rows(name, op, rows, stream_of(call.queue));
  });
}

}  // namespace

void softmax_gpu(const KernelCall& call) {
  softmax_rows<false>("softmax", call);
}

void log_softmax_gpu(const KernelCall& call) {
  softmax_rows<true>("log_softmax", call);
}

}  // namespace sluice::detail
