#include <sluice/operator/reduce/reduce_cuda.cuh>

namespace sluice::detail {

namespace {

// NaN is passed on: by one instruction, which GPUs have from capability 8.0 on.
__device__ inline float larger(float a, float b) {
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(a) : "f"(a), "f"(b));
  return a;
#else
  return ExtremeOf<float, true>{}.join(a, b);
#endif
}
__device__ inline float smaller(float a, float b) {
#if __CUDA_ARCH__ >= 800
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(a) : "f"(a), "f"(b));
  return a;
#else
  return ExtremeOf<float, false>{}.join(a, b);
#endif
}

// Both directions in one kernel: half as much to compile, and memory sets the pace anyway.
template <class T>
struct AnyExtreme {
  using Acc = Accumulator<T>;
  using Out = T;
  bool largest = true;

  __device__ Acc identity() const { return largest ? ExtremeOf<T, true>::identity() : ExtremeOf<T, false>::identity(); }
  __device__ Acc join(Acc a, Acc b) const {
    if constexpr (std::is_same_v<Acc, float>)
      return largest ? larger(a, b) : smaller(a, b);
    return largest ? ExtremeOf<T, true>{}.join(a, b) : ExtremeOf<T, false>{}.join(a, b);
  }
  __device__ Out finish(Acc a) const { return static_cast<Out>(a); }
};

void extreme(const KernelCall& call, bool largest) {
  by_reduced_type(
      call.inputs[0].dtype, [&]<class T>() { ReduceLaunch<AnyExtreme<T>, T>(call, {largest}).template run<true>(); });
}

}  // namespace

void max_gpu(const KernelCall& call) {
  extreme(call, true);
}

void min_gpu(const KernelCall& call) {
  extreme(call, false);
}

}  // namespace sluice::detail
