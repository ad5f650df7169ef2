// Rows with a mean: layer norm, group norm.
#include <sluice/operator/norm/layer_norm_sum_cuda.cuh>

namespace sluice::detail {

namespace {

// The mean first, then the squares around it: both of what lies in registers.
template <class T, NormParametersAre Are>
struct CentredInRegisters : NormRow<T, Are> {
  using C = Compute<T>;
  static constexpr bool k_twice = true;
  static constexpr C k_absent = 0;
  using NormRow<T, Are>::NormRow;

  __device__ C start(std::int64_t) const { return C{0}; }
  template <int V>
  __device__ void take(C& total, const RowValues<C, 1, V>& values, std::int64_t) const {
#pragma unroll
    for (int j = 0; j < V; ++j)
      total += values.at[0][j];
  }
  __device__ C join(C a, C b) const {
    return a + b;
  }
  __device__ C start_again(C) const {
    return C{0};
  }
  template <int V>
  __device__ void take_again(C& squares, const RowValues<C, 1, V>& values, C total, std::int64_t first) const {
    if (static_cast<int>(first) >= static_cast<int>(this->n))
      return;
    const C center = total / this->divisor;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const C distance = values.at[0][j] - center;
      squares += distance * distance;
    }
  }
  __device__ C join_again(C a, C b) const {
    return a + b;
  }
  __device__ NormTold<C> finish(std::int64_t row, std::int64_t, C total, C squares, bool once) const {
    return this->told(row, total / this->divisor, squares, once);
  }
};

// Count, mean and sum of squares around it, joined as in Chan, Golub and LeVeque (1979).
template <class C>
struct RowMoments {
  C count, mean, squares;
};

// Of rows that no registers hold.
template <class T>
struct Centred : NormRow<T> {
  using C = Compute<T>;
  using NormRow<T>::NormRow;

  __device__ RowMoments<C> start(std::int64_t) const { return {}; }
  template <int V>
  __device__ void take(RowMoments<C>& total, const RowValues<C, 1, V>& values, std::int64_t) const {
    C sum = 0, squares = 0;
#pragma unroll
    for (int j = 0; j < V; ++j)
      sum += values.at[0][j];
    const C mean = sum * (C{1} / V);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const C distance = values.at[0][j] - mean;
      squares += distance * distance;
    }
    total = join(total, {C{V}, mean, squares});
  }
  // Both lanes of a pair get the same bits, whichever of them says a.
  __device__ RowMoments<C> join(const RowMoments<C>& a, const RowMoments<C>& b) const {
    if (a.count == C{0} || b.count == C{0})  // the distance from no mean at all has a square that may not fit
      return a.count == C{0} ? b : a;
    const C count = a.count + b.count;
    const C distance = minus(b.mean, a.mean);
    const C from_a = times_plus(distance, b.count / count, a.mean);
    const C from_b = times_plus(-distance, a.count / count, b.mean);
    const C apart = distance * distance * (a.count * b.count / count);
    return {count, plus(from_a, from_b) * C(0.5), plus(plus(a.squares, b.squares), apart)};
  }
  __device__ NormTold<C> finish(std::int64_t row, std::int64_t, const RowMoments<C>& total, bool once) const {
    return this->told(row, total.mean, total.squares, once);
  }
};

}  // namespace

void centred_rows_gpu(const NormForward& norm, const Queue& queue) {
  launch_norm_rows<CentredInRegisters, Centred>("layer_norm", norm, queue);
}

bool centred_sums_gpu(const NormForward& norm, const NormAddends& of, const Queue& queue) {
  return launch_norm_sums<CentredInRegisters>("add_layer_norm", norm, of, queue);
}

}  // namespace sluice::detail
