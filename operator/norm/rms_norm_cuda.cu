// Rows without a mean: RMS norm, L2 normalisation.
#include <sluice/operator/norm/layer_norm_sum_cuda.cuh>

namespace sluice::detail {

namespace {

template <class T, NormParametersAre Are = NormParametersAre::any>
struct Uncentred : NormRow<T, Are> {
  using C = Compute<T>;
  static constexpr C k_absent = 0;
  using NormRow<T, Are>::NormRow;

  __device__ C start(std::int64_t) const { return C{0}; }
  template <int V>
  __device__ void take(C& squares, const RowValues<C, 1, V>& values, std::int64_t) const {
#pragma unroll
    for (int j = 0; j < V; ++j)
      squares += values.at[0][j] * values.at[0][j];
  }
  __device__ C join(C a, C b) const {
    return a + b;
  }
  __device__ NormTold<C> finish(std::int64_t row, std::int64_t, C squares, bool once) const {
    return this->told(row, C{0}, squares, once);
  }
};

template <class T>
using UncentredOfAny = Uncentred<T>;

}  // namespace

void uncentred_rows_gpu(const NormForward& norm, const Queue& queue) {
  launch_norm_rows<Uncentred, UncentredOfAny>("rms_norm", norm, queue);
}

bool uncentred_sums_gpu(const NormForward& norm, const NormAddends& of, const Queue& queue) {
  return launch_norm_sums<Uncentred>("add_rms_norm", norm, of, queue);
}

}  // namespace sluice::detail
