// Rows without a mean: RMS norm, L2 normalisation.
#include <sluice/operator/norm/layer_norm_cuda.cuh>

namespace sluice::detail {

namespace {

template <class T>
struct Uncentred : NormRow<T> {
  using C = Compute<T>;
  using InRegisters = std::conditional_t<std::is_same_v<T, double>, void, Uncentred>;
  static constexpr C k_absent = 0;
  using NormRow<T>::NormRow;

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

}  // namespace

void uncentred_rows_gpu(const NormForward& norm, const Queue& queue) {
  by_floating(norm.dtype, [&]<class T>() {
    launch_rows("rms_norm", Uncentred<T>(norm), Rows(norm.rows.at), stream_of(queue));
  });
}

}  // namespace sluice::detail
