#pragma once

#include <sluice/operator/reduce/states.h>
#include <sluice/operator/scan/scan_cuda.cuh>
#include <sluice/operator/scan/states.h>

// Sums and products so far on a GPU: in vectors for floating types, one kernel for all integers.
namespace sluice::detail {

template <class T, bool Product>
struct VectorTotalScan : TotalScan<T, Accumulator<T>, Product> {
  using Acc = Accumulator<T>;

  template <int V>
  __device__ void lift_all(std::int64_t offset, std::int64_t, Acc (&values)[V]) const {
    const auto loaded = *reinterpret_cast<const Neighbours<T, V>*>(this->x + offset);
#pragma unroll
    for (int j = 0; j < V; ++j)
      values[j] = static_cast<Acc>(loaded.at[j]);
  }
  template <int V>
  __device__ void lower_all(std::int64_t offset, const Acc (&values)[V]) const {
    Neighbours<T, V> made;
#pragma unroll
    for (int j = 0; j < V; ++j)
      made.at[j] = static_cast<T>(values[j]);
    *reinterpret_cast<Neighbours<T, V>*>(this->y + offset) = made;
  }
};

template <bool Product>
void totals_on_gpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (is_floating(x.dtype)) {
    by_floating(x.dtype, [&]<class T>() {
      scan_vectors_on_gpu<T>(call, VectorTotalScan<T, Product>{{x.as<const T>(), y.as<T>()}});
    });
    return;
  }
  // A bool is read as the byte that it is.
  const DType dtype = x.dtype == DType::bool_ ? DType::uint8 : x.dtype;
  scan_on_gpu(call, WholeScan<Product>{{nullptr, y.as<std::int64_t>()}, x.data, dtype});
}

}  // namespace sluice::detail
