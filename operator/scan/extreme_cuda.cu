// The largest or smallest entries so far on a GPU, and where they stand.
#include <cstdint>
#include <limits>

#include <sluice/operator/reduce/states.h>
#include <sluice/operator/scan/scan_cuda.cuh>
#include <sluice/operator/scan/states.h>

namespace sluice::detail {

namespace {

// Entries of 32 bits, as rows have that are not longer than that.
template <class T>
struct VectorExtremeScan : ExtremeScan<T, Accumulator<T>, std::int32_t> {
  using Acc = Extreme<Accumulator<T>, std::int32_t>;

  template <int V>
  __device__ void lift_all(std::int64_t offset, std::int64_t entry, Acc (&values)[V]) const {
    const auto loaded = *reinterpret_cast<const Neighbours<T, V>*>(this->x + offset);
#pragma unroll
    for (int j = 0; j < V; ++j)
      values[j] = {static_cast<Accumulator<T>>(loaded.at[j]), static_cast<std::int32_t>(entry) + j};
  }
  template <int V>
  __device__ void lower_all(std::int64_t offset, const Acc (&values)[V]) const {
    using Pair = Neighbours<std::int64_t, 2>;
    Neighbours<T, V> made;
#pragma unroll
    for (int j = 0; j < V; ++j)
      made.at[j] = static_cast<T>(values[j].value);
    *reinterpret_cast<Neighbours<T, V>*>(this->y + offset) = made;
#pragma unroll
    for (int j = 0; j < V; j += 2)
      *reinterpret_cast<Pair*>(this->entries + offset + j) = Pair{{values[j].entry, values[j + 1].entry}};
  }
};

void extremes(const KernelCall& call, bool largest) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  auto* const entries = call.outputs[1].as<std::int64_t>();
  if (is_floating(x.dtype)) {
    by_floating(x.dtype, [&]<class T>() {
      if (x.shape[axis_of<ScanAttributes>(call.attributes)] <= std::numeric_limits<std::int32_t>::max())
        scan_vectors_on_gpu<T>(call, VectorExtremeScan<T>{{x.as<const T>(), y.as<T>(), entries, largest}});
      else
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
