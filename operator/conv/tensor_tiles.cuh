#pragma once

// Convolutions of two-byte types on tensor cores, with what follows them, by tiles of the result: rows are pixels of
// all images, columns output channels, terms (kernel row, kernel column, input channel) as they lie in a weight whose
// channels are last. A block fetches the pieces of some terms while it multiplies those before, and rounds once, at the
// end.
#include <cstdint>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/library/partners.cuh>
#include <sluice/operator/library/tensor_core.cuh>
#include <sluice/operator/library/warpgroup.cuh>

namespace sluice::detail {

/// A convolution in whole pieces of 16 bytes: channels are last everywhere, their number is one of whole pieces.
template <class T>
struct TiledConvolution {
  const T *x, *weight, *residual, *bias;
  T* y;
  const float *scale, *shift;
  bool relu;
  std::int32_t pixels, outputs, depth;  // of the result; depth: pieces of terms of a result
  std::int32_t height, width;           // of an image of x
  std::int32_t stride[2], dilation[2], pad[2];
  std::int32_t row_end;  // bytes of the last piece of a kernel's row that are terms
  Divider<std::int32_t> out_plane, out_width, pieces, kernel_width;  // pieces: of a pixel's channels
};

/// Rows x Columns results a block, of WarpRows x WarpColumns a warp; Stages: steps whose terms are there or on their
/// way.
template <int Rows, int Columns, int WarpRows, int WarpColumns, int Stages = 3>
struct TileShape {
  static constexpr int k_rows = Rows, k_columns = Columns;
  static constexpr int k_warp_rows = WarpRows, k_warp_columns = WarpColumns;
  static constexpr int k_warps_across = Columns / WarpColumns;
  static constexpr int k_threads = 32 * k_warps_across * (Rows / WarpRows);
  static constexpr int k_pieces = 8;  // of terms fetched together, of each row and column
  static constexpr int k_line = k_pieces * k_piece_bytes;
  static constexpr int k_stages = Stages;
  static constexpr int k_stage = (Rows + Columns) * k_line;
  // Sums lie in the same room later, a few columns more a row so that rows begin in different banks.
  static constexpr int k_sums_pitch = Columns + 8;
  static constexpr int k_sums = Rows * k_sums_pitch * 4;
  static constexpr int room(std::int64_t steps) {
    const int stages = (steps < k_stages ? static_cast<int>(steps) : k_stages) * k_stage;
    return stages > k_sums ? stages : k_sums;
  }
  static constexpr int k_room = room(k_stages);
  // So many blocks of a multiprocessor that 512 threads work there, if there is room.
  static constexpr int k_blocks = 512 / k_threads;
  static_assert(WarpRows % 16 == 0 && WarpColumns % 16 == 0);
};

/// Where piece `piece` of a line stands: other lines have it elsewhere, so that eight of them lie in all banks.
__device__ inline int place_in_tile(int line, int piece) {
  return line * (8 * k_piece_bytes) + ((piece ^ (line & 7)) * k_piece_bytes);
}

/// Fetches the terms of a tile. A thread has the same piece of some rows and some columns.
template <class T, class Shape, bool Pointwise>
class TileFetcher {
 public:
  __device__ TileFetcher(const TiledConvolution<T>& p, std::int32_t first_pixel, std::int32_t first_output) : p_(p) {
#pragma unroll
    for (int i = 0; i < k_own_rows; ++i) {
      const bool inside = first_pixel + line(i) < p.pixels;
      const std::int32_t pixel = inside ? first_pixel + line(i) : 0;
      rows_ |= (inside ? 1u : 0u) << i;
      if constexpr (Pointwise) {
        of_row_[i] = pixel * p.depth;
      } else {
        const std::int32_t image = p.out_plane.divide(pixel), in_plane = pixel - image * p.out_plane.value();
        const std::int32_t down = p.out_width.divide(in_plane);
        row_[i] = down * p.stride[0] - p.pad[0];
        column_[i] = (in_plane - down * p.out_width.value()) * p.stride[1] - p.pad[1];
        of_row_[i] = (image * p.height * p.width + row_[i] * p.width + column_[i]) * p.pieces.value();
      }
    }
    of_column_ = (first_output + line(0)) * p.depth;
#pragma unroll
    for (int i = 0; i < k_own_columns; ++i)
      columns_ |= (first_output + line(i) < p.outputs ? 1u : 0u) << i;
  }

  /// Step `step` of all terms, to `stage`.
  __device__ void fetch(unsigned char* stage, std::int32_t step) const {
    const std::int32_t piece = step * Shape::k_pieces + own_piece();
    const bool some = piece < p_.depth;
    fetch_rows(stage + place_in_tile(line(0), own_piece()), piece, some);
    unsigned char* const to = stage + Shape::k_rows * Shape::k_line + place_in_tile(line(0), own_piece());
#pragma unroll
    for (int i = 0; i < k_own_columns; ++i) {
      const std::int32_t at = of_column_ + i * k_lines_at_once * p_.depth + piece;
      const bool there = some && (columns_ >> i & 1) != 0;
      fetch_piece(to + i * k_lines_at_once * Shape::k_line, piece_of(p_.weight, at), there ? k_piece_bytes : 0);
    }
  }

 private:
  static constexpr int k_lines_at_once = Shape::k_threads / Shape::k_pieces;
  static_assert(k_lines_at_once % 8 == 0, "a thread's lines have a piece at the same place");
  static constexpr int k_own_rows = Shape::k_rows / k_lines_at_once;
  static constexpr int k_own_columns = Shape::k_columns / k_lines_at_once;

  __device__ static int own_piece() {
    return static_cast<int>(threadIdx.x) % Shape::k_pieces;
  }
  __device__ static int line(int i) {
    return static_cast<int>(threadIdx.x) / Shape::k_pieces + i * k_lines_at_once;
  }
  __device__ static const unsigned char* piece_of(const T* data, std::int32_t at) {
    return reinterpret_cast<const unsigned char*>(data) + static_cast<std::int64_t>(at) * k_piece_bytes;
  }

  __device__ void fetch_rows(unsigned char* to, std::int32_t piece, bool some) const {
    std::int32_t below = 0, beside = 0, ahead = piece, bytes = k_piece_bytes;
    if constexpr (!Pointwise) {
      const std::int32_t place = p_.pieces.divide(piece), kernel_row = p_.kernel_width.divide(place);
      below = kernel_row * p_.dilation[0];
      const std::int32_t kernel_column = place - kernel_row * p_.kernel_width.value();
      beside = kernel_column * p_.dilation[1];
      // What is no term is not multiplied by zero either: it may be NaN.
      bytes = kernel_column == p_.kernel_width.value() - 1 ? p_.row_end : k_piece_bytes;
      ahead = (below * p_.width + beside - place) * p_.pieces.value() + piece;
    }
#pragma unroll
    for (int i = 0; i < k_own_rows; ++i) {
      bool there = some && (rows_ >> i & 1) != 0;
      if constexpr (!Pointwise)
        there = there && static_cast<std::uint32_t>(row_[i] + below) < static_cast<std::uint32_t>(p_.height) &&
                static_cast<std::uint32_t>(column_[i] + beside) < static_cast<std::uint32_t>(p_.width);
      fetch_piece(to + i * k_lines_at_once * Shape::k_line, piece_of(p_.x, of_row_[i] + ahead), there ? bytes : 0);
    }
  }

  const TiledConvolution<T>& p_;
  std::uint32_t rows_ = 0, columns_ = 0;  // which of the own ones there are
  // In pieces, of what a thread reads first.
  std::int32_t of_row_[k_own_rows], of_column_;
  [[maybe_unused]] std::int32_t row_[k_own_rows], column_[k_own_rows];
};

/// Where a lane's first number of a product of eight columns goes: the next beside it, two more eight rows below.
template <class Shape>
__device__ void put_sums(float* sums, int row, int column, const float* four) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* const to = sums + (row + lane / 4) * Shape::k_sums_pitch + column + lane % 4 * 2;
  *reinterpret_cast<float2*>(to) = make_float2(four[0], four[1]);
  *reinterpret_cast<float2*>(to + 8 * Shape::k_sums_pitch) = make_float2(four[2], four[3]);
}

#if SLUICE_WARPGROUPS
/// The sums of a tile, 64 rows a warpgroup.
template <class Shape>
struct TileSums {
  float at[Shape::k_columns / 2] = {};

  /// With the terms of a stage.
  template <class T>
  __device__ void add(const unsigned char* stage) {
    static_assert(Shape::k_rows / 64 * 128 == Shape::k_threads);
    const std::uint64_t rows = lines_at(stage + threadIdx.x / 128 * 64 * Shape::k_line);
    const std::uint64_t columns = lines_at(stage + Shape::k_rows * Shape::k_line);
    begin_products();
#pragma unroll
    for (std::uint64_t k = 0; k < Shape::k_pieces; k += 2)  // in pieces, which is what addresses are told in
      multiply_lines<T>(at, rows + k, columns + k);
  }
  __device__ void await() {
    end_products();
    await_products<0>(at);
  }

  __device__ void put(float* sums) const {
#pragma unroll
    for (int j = 0; j < Shape::k_columns / 8; ++j)
      put_sums<Shape>(sums, static_cast<int>(threadIdx.x) / 32 * 16, 8 * j, at + 4 * j);
  }
};
/// What has been fetched is for products to read.
__device__ inline void show_fetched() {
  show_products();
}
#else
/// The sums of a warp's part of a tile.
template <class Shape>
struct TileSums {
  static constexpr int k_down = Shape::k_warp_rows / 16, k_across = Shape::k_warp_columns / 8;
  float at[k_down][k_across][4] = {};

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int first_row() { return warp() / Shape::k_warps_across * Shape::k_warp_rows; }
  __device__ static int first_column() { return warp() % Shape::k_warps_across * Shape::k_warp_columns; }

  /// With the terms of a stage.
  template <class T>
  __device__ void add(const unsigned char* stage) {
    const unsigned char* const columns = stage + Shape::k_rows * Shape::k_line;
    const int lane = static_cast<int>(threadIdx.x) % 32, line = lane % 8, low = lane / 8 % 2, high = lane / 16;
#pragma unroll
    for (int k = 0; k < Shape::k_pieces / 2; ++k) {
      std::uint32_t a[k_down][4], b[k_across / 2][4];
#pragma unroll
      for (int i = 0; i < k_down; ++i)
        load_matrices(a[i], stage + place_in_tile(first_row() + 16 * i + 8 * low + line, 2 * k + high));
#pragma unroll
      for (int j = 0; j < k_across / 2; ++j)
        load_matrices(b[j], columns + place_in_tile(first_column() + 16 * j + 8 * high + line, 2 * k + low));
#pragma unroll
      for (int i = 0; i < k_down; ++i) {
#pragma unroll
        for (int j = 0; j < k_across; ++j)
          multiply_add<T>(at[i][j], a[i], &b[j / 2][j % 2 * 2]);
      }
    }
  }
  __device__ void await() {}

  __device__ void put(float* sums) const {
#pragma unroll
    for (int i = 0; i < k_down; ++i) {
#pragma unroll
      for (int j = 0; j < k_across; ++j)
        put_sums<Shape>(sums, first_row() + 16 * i, first_column() + 8 * j, at[i][j]);
    }
  }
};
__device__ inline void show_fetched() {}
#endif

/// What follows the sums, eight channels of a pixel a thread at once. Of partners each has some rows.
template <class T, class Shape, bool Several>
__device__ void finish_tile(
    const TiledConvolution<T>& p,
    const Partners<Several>& partners,
    const float* sums,
    std::int32_t first_pixel,
    std::int32_t first_output) {
  constexpr int V = k_piece_bytes / static_cast<int>(sizeof(T)), across = Shape::k_columns / V;
  const int column = static_cast<int>(threadIdx.x) % across * V, output = first_output + column;
  const int rows = Shape::k_rows / partners.count, begin = rows * partners.mine;
  if (output >= p.outputs)
    return;
  float scale[V], shift[V];
#pragma unroll
  for (int j = 0; j < V; ++j) {
    scale[j] = p.scale == nullptr ? 1.0F : p.scale[output + j];
    shift[j] = p.shift == nullptr ? -0.0F : p.shift[output + j];  // what adds nothing to any number
    if (p.bias != nullptr)
      shift[j] = static_cast<float>(p.bias[output + j]);
  }
#pragma unroll 4
  for (int row = begin + static_cast<int>(threadIdx.x) / across; row < begin + rows; row += Shape::k_threads / across) {
    const std::int32_t pixel = first_pixel + row;
    if (pixel >= p.pixels)
      return;
    const std::int64_t at = static_cast<std::int64_t>(pixel) * p.outputs + output;
    Neighbours<T, V> made, beside;
    if (p.residual != nullptr)
      beside = *reinterpret_cast<const Neighbours<T, V>*>(p.residual + at);
    const Neighbours<float, V> sum = partners.template sum<V>(sums + row * Shape::k_sums_pitch + column);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      float value = sum.at[j] * scale[j] + shift[j];
      if (p.residual != nullptr)
        value += static_cast<float>(beside.at[j]);
      made.at[j] = T(p.relu && value <= 0.0F ? 0.0F : value);  // NaN stays
    }
    *reinterpret_cast<Neighbours<T, V>*>(p.y + at) = made;
  }
}

/// Begins to bring what is added at the end nearer.
template <class Shape, class T>
__device__ void fetch_residual(const TiledConvolution<T>& p, std::int32_t first_pixel, std::int32_t first_output) {
  constexpr int k_of_line = 128 / static_cast<int>(sizeof(T)), across = Shape::k_columns / k_of_line;
  if (p.residual == nullptr)
    return;
  for (int i = static_cast<int>(threadIdx.x); i < Shape::k_rows * across; i += Shape::k_threads) {
    const std::int32_t pixel = first_pixel + i / across, output = first_output + i % across * k_of_line;
    if (pixel < p.pixels && output < p.outputs)
      fetch_line(p.residual + static_cast<std::int64_t>(pixel) * p.outputs + output);
  }
}

/// The sums of steps [begin, end) of the terms.
template <class T, class Shape, class Fetcher>
__device__ void sum_tile(
    TileSums<Shape>& sums, const Fetcher& fetcher, unsigned char* room, std::int32_t begin, std::int32_t end) {
  constexpr int ahead = Shape::k_stages - 1;
  const auto stage = [&](std::int32_t step) { return room + (step - begin) % Shape::k_stages * Shape::k_stage; };
#pragma unroll
  for (int i = 0; i < ahead; ++i) {
    if (begin + i < end)
      fetcher.fetch(stage(begin + i), begin + i);
    end_fetches();
  }
  for (std::int32_t step = begin; step < end; ++step) {
    await_fetches<ahead - 1>();
    show_fetched();
    __syncthreads();  // what all have fetched is there, and the stage that is fetched next is no longer read
    sums.template add<T>(stage(step));
    if (step + ahead < end)
      fetcher.fetch(stage(step + ahead), step + ahead);
    end_fetches();
    sums.await();
  }
  __syncthreads();
}

/// Begins to bring a tile's terms of steps [begin, end) that are a weight's nearer. May come before the kernel waits
/// for what writes them: that is the cache which all write to, and nothing is read from it.
template <class Shape, class T>
__device__ void fetch_weight(
    const TiledConvolution<T>& p, std::int32_t first_output, std::int32_t begin, std::int32_t end) {
  constexpr int k_of_piece = k_piece_bytes / static_cast<int>(sizeof(T));
  for (int i = static_cast<int>(threadIdx.x); i < Shape::k_columns * (end - begin); i += Shape::k_threads) {
    const std::int32_t output = first_output + i % Shape::k_columns;
    const std::int32_t piece = (begin + i / Shape::k_columns) * Shape::k_pieces;
    if (output < p.outputs)
      fetch_line(p.weight + (static_cast<std::int64_t>(output) * p.depth + piece) * k_of_piece);
  }
}

/// Tiles of neighbouring channels come one after the other: they read the same pixels. With Shared, each is one of a
/// cluster of blocks.
template <class T, class Shape, bool Pointwise, bool Shared>
__global__ void __launch_bounds__(Shape::k_threads, Shape::k_blocks)
    convolve_tiles_kernel(TiledConvolution<T> p, Divider<std::int32_t> tiles_across) {
  const Partners<Shared> partners;
  const auto tile = static_cast<std::int32_t>(blockIdx.x) / partners.count, down = tiles_across.divide(tile);
  const std::int32_t first_pixel = down * Shape::k_rows;
  const std::int32_t first_output = (tile - down * tiles_across.value()) * Shape::k_columns;
  const TileFetcher<T, Shape, Pointwise> fetcher(p, first_pixel, first_output);
  const std::int32_t steps = (p.depth + Shape::k_pieces - 1) / Shape::k_pieces;
  const std::int32_t begin = steps * partners.mine / partners.count;
  const std::int32_t end = steps * (partners.mine + 1) / partners.count;
  if (Shared && first_pixel == 0)  // others of these channels read the same
    fetch_weight<Shape>(p, first_output, begin, end);
  start_early();
  unsigned char* const room = shared_room<Shape::k_room>();
  fetch_residual<Shape>(p, first_pixel, first_output);
  TileSums<Shape> sums;
  sum_tile<T>(sums, fetcher, room, begin, end);
  auto* const in_room = reinterpret_cast<float*>(room);
  sums.put(in_room);
  partners.meet();
  finish_tile<T, Shape>(p, partners, in_room, first_pixel, first_output);
  if constexpr (Shared)
    partners.meet();  // a block's sums are there until all have seen them
}

}  // namespace sluice::detail
