#pragma once

// What both passes of first_layer.h share: a ring of input rows in shared memory. A piece of 16 bytes is two
// neighbouring pixels of four channels, zeros where there are none. Outputs go two pixels on, so that for each place of
// the kernel neighbouring outputs read neighbouring pieces: tensor cores take eight of them for a square of terms, and
// no piece is written down twice.
#include <cstdint>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/operator/library/box_copies.cuh>

namespace sluice::detail {

inline constexpr int k_first_readers = 256;  // threads that multiply: two warpgroups
inline constexpr int k_first_writers = 128;  // that bring rows
inline constexpr int k_first_threads = k_first_readers + k_first_writers;
inline constexpr int k_first_blocks = 2;  // of a multiprocessor, so that a thread has 80 registers at first
inline constexpr int k_first_writer_registers = 40, k_first_reader_registers = 96;
inline constexpr int k_first_beside = 4;     // pieces of a kernel's row: up to eight places
inline constexpr int k_first_down = 2;       // rows that an output goes on: what a stage of the ring holds
inline constexpr int k_first_channels = 64;  // of outputs, at most
inline constexpr int k_first_inputs = 4;     // channels of x, at most

template <class T>
struct FirstLayer {
  const T* x;
  std::int32_t height, width, channels;  // of x
  std::int32_t out_height, out_width, outputs;
  std::int32_t kernel[2], pad[2];
  std::int32_t rows;              // of all images' outputs; blocks share them out
  std::int32_t row_pieces, used;  // of a row in the ring, and those that are not always zeros
  std::int32_t stages, stage_bytes;
  Divider<std::int32_t> by_height, by_used;

  /// Stages that the rows below an output's are in.
  __host__ __device__ int reach() const { return (kernel[0] + k_first_down - 1) / k_first_down; }
};

/// A block's share of the rows of outputs, those of one image after the other.
struct FirstRows {
  std::int32_t at, end;

  template <class T>
  __device__ explicit FirstRows(const FirstLayer<T>& p) {
    const std::int64_t all = p.rows, blocks = gridDim.x, block = blockIdx.x;
    at = static_cast<std::int32_t>(all * block / blocks);
    end = static_cast<std::int32_t>(all * (block + 1) / blocks);
  }
};

/// Rows of one image.
struct FirstRun {
  std::int32_t image, first, count;

  template <class T>
  __device__ FirstRun(const FirstLayer<T>& p, const FirstRows& rows) {
    image = p.by_height.divide(rows.at);
    first = rows.at - image * p.out_height;
    count = min(p.out_height - first, rows.end - rows.at);
  }
};

#if SLUICE_WARPGROUPS
/// The ring: pieces of its stages, then what tells that a stage is full or read.
struct FirstRing {
  unsigned char* room;
  int stages, stage_bytes;

  __device__ unsigned char* stage(int i) const { return room + i * stage_bytes; }
  __device__ std::uint64_t* full(int i) const {
    return reinterpret_cast<std::uint64_t*>(room + stages * stage_bytes) + i;
  }
  __device__ std::uint64_t* read(int i) const { return full(i) + stages; }

  /// All threads; shown by show_barriers() and a meeting.
  __device__ void make() const {
    for (int at = static_cast<int>(threadIdx.x) * k_piece_bytes; at < stages * stage_bytes;
         at += k_first_threads * k_piece_bytes)
      *reinterpret_cast<int4*>(room + at) = make_int4(0, 0, 0, 0);
    if (threadIdx.x == 0) {
      for (int i = 0; i < stages; ++i) {
        make_barrier(full(i), k_first_writers / 32);
        make_barrier(read(i), k_first_readers / 32);
      }
    }
  }
  __device__ RingPlace beyond(RingPlace place, int steps) const {
    for (int i = 0; i < steps; ++i)
      place.go_on(stages);
    return place;
  }
};

/// Pieces of a stage that a thread brings: some at once, so that their loads are under way together.
template <class T>
struct FirstPieces {
  static constexpr int k_loads = 2;
  using Piece = Neighbours<T, 2 * k_first_inputs>;
  const FirstLayer<T>& p;
  Piece made[k_loads];

  /// Piece `first` and, as many as there are writers on, the next of the two rows of `image` that a stage `down` the
  /// padded image has.
  __device__ void load(std::int32_t image, std::int32_t down, int first) {
#pragma unroll
    for (int i = 0; i < k_loads; ++i) {
      const int at = first + i * k_first_writers;
      const int below = p.by_used.divide(at), piece = at - below * p.used;
      const std::int32_t row = down * k_first_down + below - p.pad[0], column = 2 * piece - p.pad[1];
      const bool inside = below < k_first_down && row >= 0 && row < p.height;
      const T* const from = p.x + (inside ? ((image * p.height + row) * p.width + column) * p.channels : 0);
#pragma unroll
      for (int pixel = 0; pixel < 2; ++pixel) {
        const bool there = inside && column + pixel >= 0 && column + pixel < p.width;
#pragma unroll
        for (int channel = 0; channel < k_first_inputs; ++channel)
          made[i].at[pixel * k_first_inputs + channel] =
              there && channel < p.channels ? from[pixel * p.channels + channel] : T(0.0F);
      }
    }
  }
  __device__ void store(unsigned char* stage, int first) const {
#pragma unroll
    for (int i = 0; i < k_loads; ++i) {
      const int at = first + i * k_first_writers;
      const int below = p.by_used.divide(at), piece = at - below * p.used;
      if (below < k_first_down)
        reinterpret_cast<Piece*>(stage)[below * p.row_pieces + piece] = made[i];
    }
  }
};

/// Brings all rows that the block's share reads, stage after stage. For what else a row of outputs waits for
/// `beside.begin(row)` is called before the last stage of its own; `beside.end()` once an image has no more of them:
/// the next one's first stages may only find room when those rows have been read.
template <class T, class Beside>
__device__ void bring_rows(const FirstLayer<T>& p, const FirstRing& ring, Beside&& beside) {
  keep_registers<k_first_writer_registers>();
  const int thread = static_cast<int>(threadIdx.x) - k_first_readers;
  RingPlace place;
  FirstRows rows(p);
  while (rows.at < rows.end) {
    const FirstRun run(p, rows);
    const int reach = p.reach();
    for (int i = 0; i < run.count + reach - 1; ++i) {
      if (i >= reach - 1)
        beside.begin(rows.at + i - (reach - 1));
      FirstPieces<T> pieces{p, {}};
      pieces.load(run.image, run.first + i, thread);
      await_phase(ring.read(place.stage), place.turn ^ 1);
      pieces.store(ring.stage(place.stage), thread);
      constexpr int k_step = FirstPieces<T>::k_loads * k_first_writers;
      for (int first = thread + k_step; first < p.used * k_first_down; first += k_step) {
        pieces.load(run.image, run.first + i, first);
        pieces.store(ring.stage(place.stage), first);
      }
      show_products();
      __syncwarp();
      if (thread % 32 == 0)
        arrive(ring.full(place.stage));
      place.go_on(ring.stages);
    }
    beside.end();
    rows.at += run.count;
  }
}

/// Goes through the rows of a block's share with what they read: `row(number, places)` gets a row's number among all
/// and the stages of its first input rows, one a step down.
template <class T, class Row>
__device__ void read_rows(const FirstLayer<T>& p, const FirstRing& ring, Row&& row) {
  take_registers<k_first_reader_registers>();
  RingPlace first;
  FirstRows rows(p);
  const int reach = p.reach();
  const auto let_go = [&] {
    if (threadIdx.x % 32 == 0)
      arrive(ring.read(first.stage));
    first.go_on(ring.stages);
  };
  while (rows.at < rows.end) {
    const FirstRun run(p, rows);
    for (int i = 0; i < run.count; ++i) {
      RingPlace place = first;
      for (int k = 0; k < reach; ++k) {
        if (i == 0 || k == reach - 1)
          await_phase(ring.full(place.stage), place.turn);
        place.go_on(ring.stages);
      }
      row(rows.at + i, first.stage);
      __syncwarp();
      let_go();
    }
    for (int k = 0; k < reach - 1; ++k)
      let_go();
    rows.at += run.count;
  }
}
#endif

}  // namespace sluice::detail
