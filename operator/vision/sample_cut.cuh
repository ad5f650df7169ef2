#pragma once

// How the blocks of kernels of samples lie over images.
#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

#include <sluice/ndarray/neighbours.cuh>

namespace sluice::detail {

inline constexpr int k_sample_block = 512;
inline constexpr int k_sample_channels = 8;  // of an image, at most, that a thread has: what it knows serves all
inline constexpr std::int64_t k_sample_room =
    12 * 1024;  // floats that a block holds: all that CUDA gives without asking

/// A block has some channels of an image, and of their results a piece. Places are anywhere: where the planes that are
/// read are small, a block copies them first, and reads its copy.
struct SampleCut {
  std::int64_t channels, chunks, pieces, units;
  std::int32_t read, results, piece;  // elements of a plane
  int held = k_sample_channels;
  bool is_staged = false;

  SampleCut(std::int64_t images, std::int64_t all, std::int64_t of_read, std::int64_t of_results, bool may_stage)
      : channels(all), read(static_cast<std::int32_t>(of_read)), results(static_cast<std::int32_t>(of_results)) {
    constexpr std::int64_t blocks_wanted = 512, k_direct = 4 * k_sample_block;
    const std::int64_t room =
        std::min<std::int64_t>(k_sample_channels, k_sample_room / std::max<std::int64_t>(1, read));
    if (may_stage && room > 0) {
      spread(room);
      pieces = std::max<std::int64_t>(1, blocks_wanted / std::max<std::int64_t>(1, images * chunks));
      is_staged = pieces * of_read <= 4 * of_results;  // otherwise copying is most of the work
    }
    if (!is_staged) {
      spread(k_sample_channels);
      pieces = (of_results + k_direct - 1) / k_direct;
    }
    pieces = std::max<std::int64_t>(1, pieces);
    piece = static_cast<std::int32_t>((of_results + pieces - 1) / pieces);
    units = images * chunks * pieces;
  }
  unsigned blocks() const { return static_cast<unsigned>(std::min<std::int64_t>(units, 1 << 20)); }

  struct Unit {
    std::int64_t image, chunk, plane;  // the first plane of all images
    std::int32_t begin, end;           // of the results
    int channels;
  };
  __device__ Unit unit(std::int64_t number) const {
    Unit at;
    const std::int64_t of_image = number / pieces, first = number % pieces * piece;
    at.image = of_image / chunks;
    at.chunk = of_image % chunks;
    at.plane = at.image * channels + at.chunk * held;
    at.channels = static_cast<int>(min(static_cast<std::int64_t>(held), channels - at.chunk * held));
    at.begin = static_cast<std::int32_t>(min(first, static_cast<std::int64_t>(results)));
    at.end = static_cast<std::int32_t>(min(first + piece, static_cast<std::int64_t>(results)));
    return at;
  }

 private:
  void spread(std::int64_t most) {
    chunks = (channels + most - 1) / most;
    held = static_cast<int>(chunks == 0 ? 1 : (channels + chunks - 1) / chunks);
  }
};

/// The planes of a unit where its threads read them. All threads of the block call; the copy stays to the next call.
template <bool Staged, class C>
__device__ const C* planes_of(const SampleCut& cut, const SampleCut::Unit& at, const C* all, C* copy) {
  const C* const from = all + at.plane * cut.read;
  if constexpr (Staged) {
    using Four = Neighbours<C, 4>;
    const int size = at.channels * cut.read;
    // 16 bytes a load: planes are copied whole, so that the rest of a few elements is their last.
    const int fours = reinterpret_cast<std::uintptr_t>(from) % sizeof(Four) == 0 ? size / 4 : 0;
    __syncthreads();  // the copy before may still be read
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < fours; i += k_sample_block)
      reinterpret_cast<Four*>(copy)[i] = reinterpret_cast<const Four*>(from)[i];
    for (int i = 4 * fours + static_cast<int>(threadIdx.x); i < size; i += k_sample_block)
      copy[i] = from[i];
    __syncthreads();
    return copy;
  } else {
    return from;
  }
}

}  // namespace sluice::detail
