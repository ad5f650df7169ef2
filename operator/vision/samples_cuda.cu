#include <cstdint>

#include <cuda_runtime.h>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/floating_array.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/vision/sample_cut.cuh>
#include <sluice/operator/vision/sample_walk.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

template <bool Staged, class C>
__global__ void __launch_bounds__(k_sample_block) samples_kernel(SampleWalk<C> walk, SampleCut cut, const C* x, C* y) {
  start_early();
  alignas(16) __shared__ C copy[Staged ? k_sample_room : 1];
  for (std::int64_t unit = blockIdx.x; unit < cut.units; unit += gridDim.x) {
    const auto at = cut.unit(unit);
    const C* const planes = planes_of<Staged>(cut, at, x, copy);
    for (std::int32_t i = at.begin + static_cast<std::int32_t>(threadIdx.x); i < at.end; i += k_sample_block) {
      const SamplePlace<C> place = walk.place(at.image * walk.points + i);
      C made[k_sample_channels];
#pragma unroll
      for (int c = 0; c < k_sample_channels; ++c) {
        if (c < at.channels)
          made[c] = sample_of(planes + static_cast<std::int64_t>(c) * cut.read, place, walk.width);
      }
      C* const to = y + at.plane * walk.points + i;
#pragma unroll
      for (int c = 0; c < k_sample_channels; ++c) {
        if (c < at.channels)
          to[static_cast<std::int64_t>(c) * walk.points] = made[c];
      }
    }
  }
}

/// Of the channels of each chunk alone: sums[chunk, points of all images].
template <bool Staged, class C>
__global__ void __launch_bounds__(k_sample_block)
    slopes_kernel(SampleWalk<C> walk, SampleCut cut, const C* dy, const C* x, C* down, C* across) {
  start_early();
  alignas(16) __shared__ C copy[Staged ? k_sample_room : 1];
  for (std::int64_t unit = blockIdx.x; unit < cut.units; unit += gridDim.x) {
    const auto at = cut.unit(unit);
    const C* const planes = planes_of<Staged>(cut, at, x, copy);
    for (std::int32_t i = at.begin + static_cast<std::int32_t>(threadIdx.x); i < at.end; i += k_sample_block) {
      const std::int64_t point = at.image * walk.points + i;
      const SamplePlace<C> place = walk.place(point);
      const C* const head = dy + at.plane * walk.points + i;
      Slopes<C> slopes;
#pragma unroll
      for (int c = 0; c < k_sample_channels; ++c) {
        if (c < at.channels) {
          const C by = head[static_cast<std::int64_t>(c) * walk.points];
          slopes.add(by, planes + static_cast<std::int64_t>(c) * cut.read, place, walk.width);
        }
      }
      const std::int64_t to = at.chunk * walk.images * walk.points + point;
      down[to] = slopes.down;
      across[to] = slopes.across;
    }
  }
}

template <class C>
__global__ void __launch_bounds__(k_group_block)
    join_slopes_kernel(std::int64_t size, std::int64_t chunks, const C* downs, const C* acrosses, C* down, C* across) {
  start_early();
  const Group group(1);
  for (std::int64_t i = group.index; i < size; i += group.count) {
    C sums[2] = {0, 0};
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      sums[0] += downs[chunk * size + i];
      sums[1] += acrosses[chunk * size + i];
    }
    down[i] = sums[0];
    across[i] = sums[1];
  }
}

}  // namespace

void plane_samples_gpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (y.size == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  by_computing_type(y.dtype, [&]<class C>() {
    const auto walk = sample_walk<C>(call, x.shape, call.inputs[1], call.inputs[2]);
    const SampleCut cut(walk.images, walk.channels, walk.plane(), walk.points, sizeof(C) == sizeof(float));
    if constexpr (sizeof(C) == sizeof(float)) {
      if (cut.is_staged) {
        samples_kernel<true><<<cut.blocks(), k_sample_block, 0, stream>>>(walk, cut, x.as<const C>(), y.as<C>());
        return;
      }
    }
    samples_kernel<false><<<cut.blocks(), k_sample_block, 0, stream>>>(walk, cut, x.as<const C>(), y.as<C>());
  });
  check_early_launch(call.op.name, stream);
}

void plane_slopes_gpu(const KernelCall& call) {
  const TensorView &dy = call.inputs[0], &x = call.inputs[1], &down = call.outputs[0], &across = call.outputs[1];
  if (down.size == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  by_computing_type(x.dtype, [&]<class C>() {
    const auto walk = sample_walk<C>(call, x.shape, call.inputs[2], call.inputs[3]);
    const SampleCut cut(walk.images, walk.channels, walk.plane(), walk.points, sizeof(C) == sizeof(float));
    const bool is_one = cut.chunks == 1;
    const Workspace scratch(call.queue, is_one ? 0 : static_cast<std::size_t>(2 * cut.chunks * down.size) * sizeof(C));
    C* const downs = is_one ? down.as<C>() : scratch.as<C>();
    C* const acrosses = is_one ? across.as<C>() : downs + cut.chunks * down.size;
    const auto launch = [&](const auto& kernel) {
      kernel(walk, cut, dy.as<const C>(), x.as<const C>(), downs, acrosses);
      check_early_launch(call.op.name, stream);
    };
    const auto direct = [&](const auto&... all) {
      slopes_kernel<false><<<cut.blocks(), k_sample_block, 0, stream>>>(all...);
    };
    const auto staged = [&](const auto&... all) {
      if constexpr (sizeof(C) == sizeof(float))
        slopes_kernel<true><<<cut.blocks(), k_sample_block, 0, stream>>>(all...);
    };
    if (cut.units > 0)
      cut.is_staged ? launch(staged) : launch(direct);
    if (is_one)
      return;
    join_slopes_kernel<<<blocks_for_groups(down.size, 1), k_group_block, 0, stream>>>(
        down.size, cut.chunks, downs, acrosses, down.as<C>(), across.as<C>());
    check_early_launch(call.op.name, stream);
  });
}

}  // namespace sluice::detail
