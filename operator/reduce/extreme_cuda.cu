#include <sluice/operator/reduce/reduce_cuda.cuh>

namespace sluice::detail {

namespace {

// Both directions in one kernel: half as much to compile, and memory sets the pace anyway.
template <class T>
struct AnyExtreme {
  using Acc = Accumulator<T>;
  using Out = T;
  bool largest = true;

  __device__ Acc identity() const { return largest ? ExtremeOf<T, true>::identity() : ExtremeOf<T, false>::identity(); }
  __device__ Acc join(Acc a, Acc b) const {
    if constexpr (std::is_same_v<Acc, float>) {
      // One instruction each that passes NaN on.
      float most, least;
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
      asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
      return largest ? most : least;
    }
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
