#pragma once

// Convolutions as in tensor_tiles.cuh, on sm_90a: one thread of a block has whole boxes of terms copied by the unit for
// that, some stages ahead and on to the next tile, while two warpgroups multiply, 64 pixels each, and finish from
// registers. There are as many blocks as find room; each takes tile after tile.
#include <cstdint>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/library/box_copies.cuh>
#include <sluice/operator/library/tensor_core.cuh>
#include <sluice/operator/library/warpgroup.cuh>

namespace sluice::detail {

inline constexpr int k_box_rows = 128;         // pixels of a tile
inline constexpr int k_box_multipliers = 256;  // threads
inline constexpr int k_box_threads = k_box_multipliers + 32;

template <class T>
struct BoxConvolution {
  const T *weight, *residual, *bias;
  T* y;
  const float *scale, *shift;
  bool relu;
  std::int32_t pixels, outputs, tiles;
  std::int32_t kernel[2], stride[2], dilation[2], pad[2];
  std::int32_t inputs, lines;  // channels, and lines of a pixel's
  Divider<std::int32_t> out_plane, out_width, tiles_across;
};

/// The stages of a block.
template <int Columns>
struct BoxStages {
  static constexpr int k_rows = k_box_rows * k_box_line, k_columns = Columns * k_box_line;
  static constexpr int k_stage = k_rows + k_columns;
  static constexpr int k_blocks = Columns <= 64 ? 2 : 1;  // of a multiprocessor
  static constexpr int k_stages = 192 * 1024 / k_blocks / k_stage;
  static constexpr int k_room = k_stages * (k_stage + 2 * 8);
  static_assert(k_stage % 1024 == 0);
};

#if SLUICE_WARPGROUPS
template <int Columns>
struct BoxRing {
  using Stages = BoxStages<Columns>;
  unsigned char* room;

  __device__ unsigned char* rows(int stage) const { return room + stage * Stages::k_stage; }
  __device__ unsigned char* columns(int stage) const { return rows(stage) + Stages::k_rows; }
  __device__ std::uint64_t* full(int stage) const {
    return reinterpret_cast<std::uint64_t*>(room + Stages::k_stages * Stages::k_stage) + stage;
  }
  __device__ std::uint64_t* read(int stage) const { return full(stage) + Stages::k_stages; }

  __device__ void make() const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < Stages::k_stages; ++i) {
        make_barrier(full(i), 1);
        make_barrier(read(i), k_box_multipliers / 32);
      }
      show_barriers();
    }
    __syncthreads();
  }
  /// A warp has read a stage.
  __device__ void let_go(int stage) const {
    if (threadIdx.x % 32 == 0)
      arrive(read(stage));
  }
};

/// Where a tile begins. Those of neighbouring channels come one after the other: they read the same pixels.
template <int Columns>
struct BoxTile {
  std::int32_t first_pixel, first_output;

  template <class T>
  __device__ BoxTile(const BoxConvolution<T>& p, std::int32_t tile) {
    const std::int32_t down = p.tiles_across.divide(tile);
    first_pixel = down * k_box_rows;
    first_output = (tile - down * p.tiles_across.value()) * Columns;
  }
};

/// Begins to bring a tile's terms that are a weight's nearer, as fetch_weight() does.
template <int Columns, class T>
__device__ void fetch_columns(const BoxConvolution<T>& p, const BoxTile<Columns>& tile) {
  constexpr int k_of_line = k_box_line / static_cast<int>(sizeof(T));
  const int taps = p.kernel[0] * p.kernel[1], all = Columns * ((taps * p.inputs + k_of_line - 1) / k_of_line);
  if (tile.first_pixel != 0)  // others of these channels read the same
    return;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += k_box_threads) {
    const std::int32_t output = tile.first_output + i % Columns;
    if (output < p.outputs)
      fetch_line(p.weight + static_cast<std::int64_t>(output) * taps * p.inputs + i / Columns * k_of_line);
  }
}

/// Has terms copied into stage after stage, as they are read. One thread.
template <class T, int Columns, bool Pointwise>
struct BoxCopies {
  const BoxRing<Columns>& ring;
  const CUtensorMap &x, &weight;
  const BoxConvolution<T>& p;
  RingPlace place = {};

  /// Those of a tile.
  __device__ void copy(const BoxTile<Columns>& tile) {
    const std::int32_t image = p.out_plane.divide(tile.first_pixel);
    const std::int32_t in_plane = tile.first_pixel - image * p.out_plane.value();
    const std::int32_t down = p.out_width.divide(in_plane), across = in_plane - down * p.out_width.value();
    const int row = down * p.stride[0] - p.pad[0], column = across * p.stride[1] - p.pad[1];
    for (int below = 0, tap = 0; below < p.kernel[0]; ++below) {
      for (int beside = 0; beside < p.kernel[1]; ++beside, ++tap) {
        for (int line = 0; line < p.lines; ++line) {
          const int channel = line * (k_box_line / static_cast<int>(sizeof(T)));
          std::uint64_t* const full = begin();
          if constexpr (Pointwise)
            copy_lines(ring.rows(place.stage), x, full, channel, 0, tile.first_pixel);
          else
            copy_pixels(
                ring.rows(place.stage),
                x,
                full,
                {channel, column, row, image},
                below * p.dilation[0],
                beside * p.dilation[1]);
          copy_lines(ring.columns(place.stage), weight, full, channel, tap, tile.first_output);
          place.go_on(BoxStages<Columns>::k_stages);
        }
      }
    }
  }

 private:
  /// Waits until the stage is read; what tells that it is full.
  __device__ std::uint64_t* begin() const {
    await_phase(ring.read(place.stage), place.turn ^ 1);
    arrive_before(ring.full(place.stage), BoxStages<Columns>::k_stage);
    return ring.full(place.stage);
  }
};

/// Of four products of eight columns, which a lane has two neighbours of, lane i of four gets the i-th whole, of its
/// row or, with `Below`, of the one eight below.
template <bool Below>
__device__ void whole_product(const float* four_products, float (&whole)[8]) {
  constexpr int k_first = Below ? 2 : 0;
  const unsigned lane = threadIdx.x;
  const bool odd = (lane & 1) != 0, high = (lane & 2) != 0;
  float pair[2][4];  // of products 0 or 1, and of 2 or 3: columns of lanes that differ in the lowest bit
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float even_one = four_products[8 * m + k_first + i], odd_one = four_products[8 * m + 4 + k_first + i];
      const float got = __shfl_xor_sync(k_whole_warp, odd ? even_one : odd_one, 1);
      pair[m][i] = odd ? got : even_one;
      pair[m][2 + i] = odd ? odd_one : got;
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float got = __shfl_xor_sync(k_whole_warp, high ? pair[0][i] : pair[1][i], 2);
    whole[i] = high ? got : pair[0][i];
    whole[4 + i] = high ? pair[1][i] : got;
  }
}

template <class Some>
__device__ Some read_once(const void* from) {
  const int4 words = __ldg(static_cast<const int4*>(from));
  Some some;
  static_assert(sizeof(some) == sizeof(words));
  memcpy(&some, &words, sizeof(some));
  return some;
}

/// What a lane finishes of a tile: of each 32 columns 8, of two rows.
template <class T, int Columns>
struct BoxFinish {
  using Eight = Neighbours<T, 8>;
  static constexpr int k_groups = 2;  // that are finished together
  const BoxConvolution<T>& p;
  std::int32_t pixel, output;
  Eight beside[k_groups][2];

  __device__ BoxFinish(const BoxConvolution<T>& all, const BoxTile<Columns>& tile) : p(all) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    pixel = tile.first_pixel + static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
    output = tile.first_output + lane % 4 * 8;
  }
  __device__ bool has(int group, int below) const {
    return pixel + 8 * below < p.pixels && output + 32 * group < p.outputs;
  }
  __device__ std::int64_t place(int group, int below) const {
    return static_cast<std::int64_t>(pixel + 8 * below) * p.outputs + output + 32 * group;
  }

  /// Reads what is added at the end to the groups from `first` on, all at once.
  __device__ void read(int first) {
    if (p.residual == nullptr)
      return;
#pragma unroll
    for (int i = 0; i < k_groups; ++i) {
#pragma unroll
      for (int below = 0; below < 2; ++below) {
        if (has(first + i, below))
          beside[i][below] = read_once<Eight>(p.residual + place(first + i, below));
      }
    }
  }

  /// After read(0).
  __device__ void write(const float (&sums)[Columns / 2]) {
#pragma unroll
    for (int i = 0; i < Columns / 32; ++i) {
      if (i > 0 && i % k_groups == 0)
        read(i);
      float scale[8], shift[8];
      get(scale, p.scale, 1.0F, i);
      get(shift, p.shift, -0.0F, i);  // what adds nothing to any number
      get_bias(shift, i);
      float whole[8];
      whole_product<false>(sums + 16 * i, whole);
      write(whole, scale, shift, i, 0);
      whole_product<true>(sums + 16 * i, whole);
      write(whole, scale, shift, i, 1);
    }
  }

 private:
  __device__ void get(float (&eight)[8], const float* from, float none, int group) const {
    const bool some = from != nullptr && output + 32 * group < p.outputs;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 four = some ? __ldg(reinterpret_cast<const float4*>(from + output + 32 * group + 4 * half))
                               : make_float4(none, none, none, none);
      eight[4 * half] = four.x;
      eight[4 * half + 1] = four.y;
      eight[4 * half + 2] = four.z;
      eight[4 * half + 3] = four.w;
    }
  }

  __device__ void get_bias(float (&eight)[8], int group) const {
    if (p.bias == nullptr || output + 32 * group >= p.outputs)
      return;
    const Eight narrow = *reinterpret_cast<const Eight*>(p.bias + output + 32 * group);
#pragma unroll
    for (int j = 0; j < 8; ++j)
      eight[j] = static_cast<float>(narrow.at[j]);
  }

  __device__ void write(
      const float (&sums)[8], const float (&scale)[8], const float (&shift)[8], int group, int below) const {
    if (!has(group, below))
      return;
    Eight made;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float value = sums[j] * scale[j] + shift[j];
      if (p.residual != nullptr)
        value += static_cast<float>(beside[group % k_groups][below].at[j]);
      made.at[j] = T(p.relu && value <= 0.0F ? 0.0F : value);  // NaN stays
    }
    *reinterpret_cast<Eight*>(p.y + place(group, below)) = made;
  }
};

/// Multiplies what is copied.
template <class T, int Columns>
struct BoxProducts {
  const BoxRing<Columns>& ring;
  int steps;
  RingPlace place = {};
  float sums[Columns / 2] = {};

  /// The sums of a tile.
  __device__ void add_up() {
#pragma unroll
    for (float& sum : sums)
      sum = 0.0F;
    int before = 0;
    for (int step = 0; step < steps; ++step) {
      await_phase(ring.full(place.stage), place.turn);
      multiply(place.stage);
      if (step > 0) {
        await_products<1>(sums);
        ring.let_go(before);
      }
      before = place.stage;
      place.go_on(BoxStages<Columns>::k_stages);
    }
    await_products<0>(sums);
    ring.let_go(before);
  }

 private:
  __device__ void multiply(int stage) {
    const std::uint64_t rows = lines_at(ring.rows(stage) + threadIdx.x / 128 * 64 * k_box_line);
    const std::uint64_t columns = lines_at(ring.columns(stage));
    begin_products();
#pragma unroll
    for (std::uint64_t k = 0; k < k_box_line / 16; k += 2)  // in pieces, which is what addresses are told in
      multiply_lines<T>(sums, rows + k, columns + k);
    end_products();
  }
};
#endif

template <class T, int Columns, bool Pointwise>
__global__ void __launch_bounds__(k_box_threads, BoxStages<Columns>::k_blocks) convolve_boxes_kernel(
    [[maybe_unused]] const __grid_constant__ CUtensorMap x,
    [[maybe_unused]] const __grid_constant__ CUtensorMap weight,
    [[maybe_unused]] const __grid_constant__ BoxConvolution<T> p) {
#if SLUICE_WARPGROUPS
  const BoxRing<Columns> ring{shared_room<BoxStages<Columns>::k_room>()};
  const auto first = static_cast<std::int32_t>(blockIdx.x), blocks = static_cast<std::int32_t>(gridDim.x);
  fetch_columns<Columns>(p, BoxTile<Columns>(p, first));
  ring.make();
#endif
  start_early();
#if SLUICE_WARPGROUPS
  if (threadIdx.x == k_box_multipliers) {
    BoxCopies<T, Columns, Pointwise> copies{ring, x, weight, p};
    for (std::int32_t tile = first; tile < p.tiles; tile += blocks)
      copies.copy(BoxTile<Columns>(p, tile));
  }
  if (threadIdx.x >= k_box_multipliers)
    return;
  BoxProducts<T, Columns> products{ring, p.kernel[0] * p.kernel[1] * p.lines};
  for (std::int32_t tile = first; tile < p.tiles; tile += blocks) {
    BoxFinish<T, Columns> finish(p, BoxTile<Columns>(p, tile));
    finish.read(0);
    products.add_up();
    finish.write(products.sums);
  }
#endif
}

}  // namespace sluice::detail
