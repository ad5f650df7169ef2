#include <cmath>

#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/row_kernel.cuh>
#include <sluice/operator/softmax/kernels.h>

namespace sluice::detail {

namespace {

// y * (dy - sum(y * dy)), or dy - exp(y) * sum(dy) for the logarithm.
template <class T, bool Log>
struct SoftmaxBackward : RowOperands<T, 2, true> {
  using C = Compute<T>;
  using InRegisters = SoftmaxBackward;
  static constexpr C k_absent = 0;

  __device__ C start(std::int64_t) const { return C{0}; }
  template <int V>
  __device__ void take(C& total, const RowValues<C, 2, V>& values, std::int64_t) const {
#pragma unroll
    for (int j = 0; j < V; ++j)
      total += values.at[1][j] * (Log ? C{1} : values.at[0][j]);
  }
  __device__ C join(C a, C b) const {
    return a + b;
  }
  __device__ C finish(std::int64_t, std::int64_t, C total, bool) const {
    return total;
  }
  template <int V>
  __device__ C give(C total, const RowValues<C, 2, V>& values, int j, std::int64_t) const {
    const C y = values.at[0][j], dy = values.at[1][j];
    return Log ? dy - std::exp(y) * total : y * (dy - total);
  }
};

template <bool Log>
void softmax_backward_rows(const char* name, const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    SoftmaxBackward<T, Log> op;
    for (int k = 0; k < 2; ++k)
      op.in[k] = call.inputs[static_cast<std::size_t>(k)].as<const T>();
    op.out = call.outputs[0].as<T>();
    launch_rows(name, op, Rows(softmax_layout(call)), stream_of(call.queue));
  });
}

}  // namespace

void softmax_backward_gpu(const KernelCall& call) {
  softmax_backward_rows<false>("softmax_backward", call);
}

void log_softmax_backward_gpu(const KernelCall& call) {
  softmax_backward_rows<true>("log_softmax_backward", call);
}

}  // namespace sluice::detail
