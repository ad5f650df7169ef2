// Rows without a mean: RMS norm, L2 normalisation.
#include <sluice/operator/norm/layer_norm_cuda.cuh>

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

}  // namespace

void uncentred_rows_gpu(const NormForward& norm, const Queue& queue) {
  const Rows rows(norm.rows.at);
  const cudaStream_t stream = stream_of(queue);
  by_floating(norm.dtype, [&]<class T>() {
    bool launched = false;
    if constexpr (!std::is_same_v<T, double>) {
      by_parameters<T>(norm, [&]<NormParametersAre Are>() {
        launched = launch_rows_in_registers("rms_norm", Uncentred<T, Are>(norm), rows, stream);
      });
    }
    if (!launched)
      launch_rows("rms_norm", Uncentred<T>(norm), rows, stream);
  });
}

}  // namespace sluice::detail
