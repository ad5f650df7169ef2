// Linear recurrences on a GPU, and sums over places that stand side by side.
#include <cstdint>

#include <sluice/operator/fault.cuh>
#include <sluice/operator/reduce/states.h>
#include <sluice/operator/scan/scan_cuda.cuh>
#include <sluice/operator/scan/states.h>

namespace sluice::detail {

namespace {

template <class T>
struct VectorRecurrenceScan : RecurrenceScan<T, Accumulator<T>> {
  using Acc = Affine<Accumulator<T>>;

  template <int V>
  __device__ void lift_all(std::int64_t offset, std::int64_t, Acc (&values)[V]) const {
    const auto factors = *reinterpret_cast<const Neighbours<T, V>*>(this->a + offset);
    const auto terms = *reinterpret_cast<const Neighbours<T, V>*>(this->b + offset);
#pragma unroll
    for (int j = 0; j < V; ++j)
      values[j] = {static_cast<Accumulator<T>>(factors.at[j]), static_cast<Accumulator<T>>(terms.at[j]), 1};
  }
  template <int V>
  __device__ void lower_all(std::int64_t offset, const Acc (&values)[V]) const {
    Neighbours<T, V> made;
#pragma unroll
    for (int j = 0; j < V; ++j)
      made.at[j] = static_cast<T>(values[j].b);
    *reinterpret_cast<Neighbours<T, V>*>(this->y + offset) = made;
  }
};

struct ReportIndex {
  ErrorWord* errors;
  __device__ void operator()(std::int64_t place, std::int64_t n) const { report_index(errors, place, n); }
};

}  // namespace

void linear_recurrence_gpu(const KernelCall& call) {
  const TensorView &a = call.inputs[0], &b = call.inputs[1], &y = call.outputs[0];
  by_floating(a.dtype, [&]<class T>() {
    scan_vectors_on_gpu<T>(call, VectorRecurrenceScan<T>{{a.as<const T>(), b.as<const T>(), y.as<T>()}});
  });
}

void add_runs_gpu(const KernelCall& call) {
  const TensorView &places = call.inputs[0], &dy = call.inputs[1], &dx = call.outputs[0];
  if (dx.size == 0)
    return;
  const AxisLayout at = axis_layout(dx.shape, axis_of<ScanAttributes>(call.attributes));
  const std::size_t bytes = static_cast<std::size_t>(dx.size) * size_of(dx.dtype);
  cuda::cuda_check(cudaMemsetAsync(dx.data, 0, bytes, stream_of(call.queue)), "cudaMemsetAsync");
  const ReportIndex report{call.queue.error_word()};
  by_floating(dx.dtype, [&]<class T>() {
    scan_on_gpu(
        call,
        RunScan<T, Accumulator<T>, ReportIndex>{
            places.data, places.dtype, dy.as<const T>(), dx.as<T>(), at.n, at.inner, report});
  });
}

}  // namespace sluice::detail
