#include <cstdint>

#include <sluice/ndarray/element_size.h>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/fault.cuh>
#include <sluice/operator/index_value.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/order/places.h>

namespace sluice::detail {

namespace {

/// Where each element of `places` is from, or goes.
struct PlaceWalk {
  const void* places;
  DType dtype;
  std::int64_t size, entries, inner;  // of places; entries along the axis
  std::int64_t n;                     // of the other array's axis
  ErrorWord* errors;

  /// Of element i; -1 where there is none.
  __device__ std::int64_t at(std::int64_t i) const {
    const std::int64_t place = load_index(places, dtype, i);
    if (place < 0 || place >= n) {
      report_index(errors, place, n);
      return -1;
    }
    const std::int64_t slice = i / inner;
    return (slice / entries * n + place) * inner + (i - slice * inner);
  }
};

PlaceWalk walk_of(const KernelCall& call, const TensorView& places, const Shape& x) {
  const int axis = static_cast<int>(call.attributes.as<PlacesAttributes>().axis);
  const AxisLayout at = axis_layout(places.shape, axis);
  return {places.data, places.dtype, places.size, at.n, at.inner, x[axis], call.queue.error_word()};
}

template <class U, bool Puts>
__global__ void __launch_bounds__(k_block) places_kernel(PlaceWalk walk, const U* from, U* to) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < walk.size; i += step) {
    const std::int64_t place = walk.at(i);
    if (place < 0)
      continue;
    if constexpr (Puts)
      to[place] = from[i];
    else
      to[i] = from[place];
  }
}

template <bool Puts>
void move(const KernelCall& call, const PlaceWalk& walk, const TensorView& from) {
  if (walk.size == 0)
    return;
  by_element_size(size_of(from.dtype), [&]<class U>() {
    places_kernel<U, Puts><<<blocks_for(walk.size), k_block, 0, stream_of(call.queue)>>>(
        walk, from.as<const U>(), call.outputs[0].as<U>());
  });
  check_launch(call.op.name);
}

}  // namespace

void take_places_gpu(const KernelCall& call) {
  move<false>(call, walk_of(call, call.inputs[1], call.inputs[0].shape), call.inputs[0]);
}

void put_places_gpu(const KernelCall& call) {
  const TensorView& dx = call.outputs[0];
  if (dx.size == 0)
    return;
  const std::size_t bytes = static_cast<std::size_t>(dx.size) * size_of(dx.dtype);
  cuda::cuda_check(cudaMemsetAsync(dx.data, 0, bytes, stream_of(call.queue)), "cudaMemsetAsync");
  move<true>(call, walk_of(call, call.inputs[0], dx.shape), call.inputs[1]);
}

}  // namespace sluice::detail
