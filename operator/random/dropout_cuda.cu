#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/random/kernels.h>
#include <sluice/operator/random/philox.h>

namespace sluice::detail {

namespace {

/// Where elements of images whose channels are neighbours stand, as they are counted row by row.
struct TurnedImages {
  Divider<std::int64_t> plane, channels;

  __device__ std::int64_t operator()(std::int64_t element) const {
    const std::int64_t planes = plane.divide(element), image = channels.divide(planes);
    const std::int64_t pixel = element - planes * plane.value(), channel = planes - image * channels.value();
    return (image * plane.value() + pixel) * channels.value() + channel;
  }
};
struct AsTheyAre {
  __device__ std::int64_t operator()(std::int64_t element) const { return element; }
};

// A thread handles the four elements of one Philox block. `packed`: addresses allow to move them at once. `used`, if
// not null, is told what the mask was drawn from.
template <class T, class Places>
__global__ void __launch_bounds__(k_group_block) dropout_kernel(
    const T* x,
    T* y,
    std::int64_t size,
    DropoutMask mask,
    Compute<T> scale,
    Places places,
    bool packed,
    RandomBlock* used) {
  start_early();
  using C = Compute<T>;
  using Pack = Neighbours<T, 4>;
  const Group group(1);
  const RandomBlock random = mask.random.read();
  if (used != nullptr && group.index == 0)
    *used = random;
  for (std::int64_t block = group.index; block * 4 < size; block += group.count) {
    const PhiloxBlock words = philox(random, static_cast<std::uint64_t>(block));
    const std::int64_t first = block * 4;
    const auto masked = [&](T value, int i) {
      return static_cast<T>(words.word[i] < mask.threshold ? C{0} : static_cast<C>(value) * scale);
    };
    if (packed && first + 4 <= size) {
      Pack values = reinterpret_cast<const Pack*>(x)[block];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        values.at[i] = masked(values.at[i], i);
      reinterpret_cast<Pack*>(y)[block] = values;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first + i < size)
          y[first + i] = masked(x[places(first + i)], i);
      }
    }
  }
}

void apply_mask(const KernelCall& call, RandomBlock* used) {
  const DropoutMask mask = dropout_mask(call);
  const std::int64_t size = call.outputs[0].size;
  const Shape& shape = call.inputs[0].shape;
  if (size == 0)
    return;
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    const T* x = call.inputs[0].as<const T>();
    T* y = call.outputs[0].as<T>();
    const auto bits = reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(y);
    const bool packed = bits % sizeof(Neighbours<T, 4>) == 0;
    const auto launch = [&](auto places, bool together) {
      dropout_kernel<<<blocks_for_groups((size + 3) / 4, 1), k_group_block, 0, stream_of(call.queue)>>>(
          x, y, size, mask, static_cast<Compute<T>>(mask.scale), places, together, used);
    };
    if (order_of(shape, call.inputs[0].strides) == MemoryOrder::channels_last)
      launch(TurnedImages{Divider<std::int64_t>(shape[2] * shape[3]), Divider<std::int64_t>(shape[1])}, false);
    else
      launch(AsTheyAre{}, packed);
  });
  check_early_launch("dropout", stream_of(call.queue));
}

}  // namespace

void dropout_gpu(const KernelCall& call) {
  apply_mask(call, call.outputs[1].as<RandomBlock>());
}

void dropout_backward_gpu(const KernelCall& call) {
  apply_mask(call, nullptr);
}

}  // namespace sluice::detail
