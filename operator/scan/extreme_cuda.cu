// The largest or smallest entries so far on a GPU, and where they stand.
#include <cstdint>

#include <sluice/operator/reduce/states.h>
#include <sluice/operator/scan/scan_cuda.cuh>
#include <sluice/operator/scan/states.h>

namespace sluice::detail {

namespace {

void extremes(const KernelCall& call, bool largest) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  auto* const entries = call.outputs[1].as<std::int64_t>();
  if (is_floating(x.dtype)) {
    by_floating(x.dtype, [&]<class T>() {
      scan_on_gpu(call, ExtremeScan<T, Accumulator<T>>{x.as<const T>(), y.as<T>(), entries, largest});
    });
    return;
  }
  const DType dtype = x.dtype == DType::bool_ ? DType::uint8 : x.dtype;
  scan_on_gpu(call, WholeExtremeScan{{nullptr, nullptr, entries, largest}, x.data, y.data, dtype});
}

}  // namespace

void cummax_gpu(const KernelCall& call) {
  extremes(call, true);
}

void cummin_gpu(const KernelCall& call) {
  extremes(call, false);
}

}  // namespace sluice::detail
