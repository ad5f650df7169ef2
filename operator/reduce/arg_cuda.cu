// The place of the largest or smallest element: a reduction whose state knows places.
#include <cstdint>
#include <type_traits>

#include <sluice/operator/reduce/kernels.h>
#include <sluice/operator/reduce/place.h>
#include <sluice/operator/reduce/reduce_cuda.cuh>

namespace sluice::detail {

namespace {

void arg_on_gpu(const KernelCall& call, bool largest) {
  by_dtype(call.inputs[0].dtype, [&]<class T>() {
    // A bool is read as the byte that it is.
    using Read = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    const PlaceOf<Read> op{largest};
    ReduceLaunch<PlaceOf<Read>, Read>(call, op, call.attributes.as<ReduceAttributes>().axes).template run<true>();
  });
}

}  // namespace

void argmax_gpu(const KernelCall& call) {
  arg_on_gpu(call, true);
}

void argmin_gpu(const KernelCall& call) {
  arg_on_gpu(call, false);
}

}  // namespace sluice::detail
