#include <algorithm>
#include <bit>
#include <cstdint>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/floating_array.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/order/order_cuda.cuh>
#include <sluice/operator/vision/sample_cut.cuh>
#include <sluice/operator/vision/sample_walk.h>
#include <sluice/operator/workspace.h>

// What samples give to pixels adds up without atomics: a stable sort brings together the points between the same four
// pixels, and each pixel adds what lies in the four squares around it, in the order of points.
namespace sluice::detail {

namespace {

/// Squares between the pixels of some images, and the points in each: those of square i are [begin[i], begin[i + 1]).
template <class C>
struct Squares {
  std::int64_t first_image = 0, images = 0;
  std::int32_t across = 0, of_image = 0;                // squares of a row, and of an image
  std::uint32_t *squares = nullptr, *sorted = nullptr;  // of points, as they come and in order
  std::uint32_t *numbers = nullptr, *moved = nullptr;   // those points
  std::uint32_t* begin = nullptr;
  std::int32_t* point = nullptr;  // in its image
  C *down = nullptr, *right = nullptr;

  SLUICE_HD std::int64_t count() const { return images * of_image; }
};

// Points that lie in no square come behind the last.
template <class C>
__global__ void __launch_bounds__(k_group_block) number_points_kernel(SampleWalk<C> walk, Squares<C> squares) {
  start_early();
  const Group group(1);
  for (std::int64_t i = group.index; i < squares.images * walk.points; i += group.count) {
    const SamplePlace<C> at = walk.place(squares.first_image * walk.points + i);
    const std::int64_t square = i / walk.points * squares.of_image + (at.row + 1) * squares.across + at.column + 1;
    squares.squares[i] = static_cast<std::uint32_t>(at.is_anywhere() ? square : squares.count());
    squares.numbers[i] = static_cast<std::uint32_t>(i);
  }
}

// What a pixel asks of a point, in the order of squares; and where the points of each square begin.
template <class C>
__global__ void __launch_bounds__(k_group_block) fill_squares_kernel(SampleWalk<C> walk, Squares<C> squares) {
  start_early();
  const Group group(1);
  const std::int64_t points = squares.images * walk.points, starts = squares.count() + 1;
  for (std::int64_t i = group.index; i < points + starts; i += group.count) {
    if (i < points) {
      const std::int64_t number = squares.moved[i];
      const SamplePlace<C> at = walk.place(squares.first_image * walk.points + number);
      squares.point[i] = static_cast<std::int32_t>(number % walk.points);
      squares.down[i] = at.down;
      squares.right[i] = at.across;
      continue;
    }
    const std::int64_t square = i - points;
    std::int64_t low = 0, high = points;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (squares.sorted[middle] >= square)
        high = middle;
      else
        low = middle + 1;
    }
    squares.begin[square] = static_cast<std::uint32_t>(low);
  }
}

template <bool Staged, class C>
__global__ void __launch_bounds__(k_sample_block)
    add_samples_kernel(SampleWalk<C> walk, SampleCut cut, Squares<C> squares, const C* dy, C* dx) {
  start_early();
  alignas(16) __shared__ C copy[Staged ? k_sample_room : 1];
  for (std::int64_t unit = blockIdx.x; unit < cut.units; unit += gridDim.x) {
    const auto at = cut.unit(unit);
    const C* const planes = planes_of<Staged>(cut, at, dy, copy);
    for (std::int32_t i = at.begin + static_cast<std::int32_t>(threadIdx.x); i < at.end; i += k_sample_block) {
      const std::int32_t row = i / walk.width, column = i - row * walk.width;
      C sums[k_sample_channels] = {};
      // The squares above and below, left and right of the pixel; of nearest ones that in which the points at it are.
      for (int square = walk.nearest ? 3 : 0; square < 4; ++square) {
        const bool is_below = square >= 2, is_right = square % 2 == 1;
        const std::int64_t number = at.image * squares.of_image + (row + is_below) * squares.across + column + is_right;
        const std::uint32_t end = squares.begin[number + 1];
        for (std::uint32_t entry = squares.begin[number]; entry < end; ++entry) {
          const C down = squares.down[entry], right = squares.right[entry];
          const C by = (is_below ? 1 - down : down) * (is_right ? 1 - right : right);
          const C* const from = planes + squares.point[entry];
#pragma unroll
          for (int c = 0; c < k_sample_channels; ++c) {
            if (c < at.channels)
              sums[c] += by * from[static_cast<std::int64_t>(c) * cut.read];
          }
        }
      }
      C* const to = dx + at.plane * cut.results + i;
#pragma unroll
      for (int c = 0; c < k_sample_channels; ++c) {
        if (c < at.channels)
          to[static_cast<std::int64_t>(c) * cut.results] = sums[c];
      }
    }
  }
}

/// Some images at once, as many as 32 bits number the points and squares of.
template <class C>
void add_samples(const KernelCall& call, const SampleWalk<C>& walk, std::int64_t first, std::int64_t images) {
  const cudaStream_t stream = stream_of(call.queue);
  const std::int64_t points = images * walk.points;
  Squares<C> squares;
  squares.first_image = first;
  squares.images = images;
  squares.across = walk.width + 1;
  squares.of_image = (walk.height + 1) * squares.across;
  const auto all = static_cast<std::size_t>(points), starts = static_cast<std::size_t>(squares.count() + 1);
  const Workspace scratch(
      call.queue, all * (2 * sizeof(C) + 5 * sizeof(std::uint32_t)) + starts * sizeof(std::uint32_t));
  squares.down = scratch.as<C>();
  squares.right = squares.down + points;
  squares.point = reinterpret_cast<std::int32_t*>(squares.right + points);
  auto* const numbers = reinterpret_cast<std::uint32_t*>(squares.point + points);
  squares.squares = numbers;
  squares.sorted = numbers + points;
  squares.numbers = numbers + 2 * points;
  squares.moved = numbers + 3 * points;
  squares.begin = numbers + 4 * points;
  number_points_kernel<<<blocks_for_groups(points, 1), k_group_block, 0, stream>>>(walk, squares);
  check_early_launch(call.op.name, stream);
  const int bits = std::bit_width(static_cast<std::uint64_t>(squares.count()));
  radix_sort(
      call, RadixSort<std::uint32_t>{squares.squares, squares.sorted, squares.numbers, squares.moved, points, bits});
  fill_squares_kernel<<<blocks_for_groups(points + squares.count() + 1, 1), k_group_block, 0, stream>>>(walk, squares);
  check_early_launch(call.op.name, stream);
  const SampleCut cut(images, walk.channels, walk.points, walk.plane(), sizeof(C) == sizeof(float));
  const C* const dy = call.inputs[0].as<const C>() + first * walk.channels * walk.points;
  C* const dx = call.outputs[0].as<C>() + first * walk.channels * walk.plane();
  if constexpr (sizeof(C) == sizeof(float)) {
    if (cut.is_staged) {
      add_samples_kernel<true><<<cut.blocks(), k_sample_block, 0, stream>>>(walk, cut, squares, dy, dx);
      check_early_launch(call.op.name, stream);
      return;
    }
  }
  add_samples_kernel<false><<<cut.blocks(), k_sample_block, 0, stream>>>(walk, cut, squares, dy, dx);
  check_early_launch(call.op.name, stream);
}

}  // namespace

void plane_samples_backward_gpu(const KernelCall& call) {
  const TensorView &dy = call.inputs[0], &dx = call.outputs[0];
  if (dx.size == 0)
    return;
  if (dy.size == 0) {
    const std::size_t bytes = static_cast<std::size_t>(dx.size) * size_of(dx.dtype);
    cuda::cuda_check(cudaMemsetAsync(dx.data, 0, bytes, stream_of(call.queue)), "cudaMemsetAsync");
    return;
  }
  by_computing_type(dx.dtype, [&]<class C>() {
    const auto walk = sample_walk<C>(call, dx.shape, call.inputs[1], call.inputs[2]);
    constexpr std::int64_t k_numbers = std::int64_t{1} << 26;  // of images together: 2 GB of scratch
    const std::int64_t squares = static_cast<std::int64_t>(walk.height + 1) * (walk.width + 1);
    const std::int64_t together = std::max<std::int64_t>(1, k_numbers / std::max<std::int64_t>(squares, walk.points));
    for (std::int64_t first = 0; first < walk.images; first += together)
      add_samples(call, walk, first, std::min(together, walk.images - first));
  });
}

}  // namespace sluice::detail
