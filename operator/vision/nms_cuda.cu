// Which boxes remain, on a GPU: all threads ask which box ends which, a bit a pair, and a block a batch then goes
// through the boxes, 64 at a time. Where there are many boxes this happens in strips of them, for whose bits there is
// room.
#include <algorithm>
#include <cstdint>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/floating_array.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/vision/nms_walk.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

using Word = unsigned long long;  // NOLINT: a bit each for 64 boxes
constexpr int k_word = 64;
constexpr int k_sweepers = 1024;    // threads of a block that goes through boxes
constexpr int k_near_words = 1024;  // boxes that shared memory knows alive, if no other strip asks for them

/// Boxes [first, first + rows) of each batch against all behind them. Bits lie word by word, of each the rows.
struct NmsStrip {
  std::int64_t batch, n, words, first, rows;
  const bool* takes_part;
  Word* bits;
  Word* alive;  // of each batch

  __device__ bool is_near() const { return words <= k_near_words && rows >= n; }
  __device__ std::int64_t end() const { return min(first + rows, n); }
  __device__ Word* bits_of(std::int64_t of, std::int64_t word) const { return bits + (of * words + word) * rows; }
  /// Which of 64 boxes take part.
  __device__ Word taking_part(std::int64_t of, std::int64_t word) const {
    Word taking = 0;
    for (int k = 0; k < k_word && word * k_word + k < n; ++k)
      taking |= Word{takes_part[of * n + word * k_word + k]} << k;
    return taking;
  }
  __device__ bool is_alive(std::int64_t of, std::int64_t i) const {
    return first == 0 ? takes_part[of * n + i] : (alive[of * words + i / k_word] >> i % k_word & 1) != 0;
  }
};

template <class C>
__global__ void __launch_bounds__(k_group_block) nms_bits_kernel(NmsWalk<C> walk, NmsStrip strip) {
  start_early();
  const Group group(1);
  for (std::int64_t at = group.index; at < strip.batch * strip.words * strip.rows; at += group.count) {
    const std::int64_t rest = at / strip.rows, i = strip.first + (at - rest * strip.rows);
    const std::int64_t of = rest / strip.words, begin = (rest - of * strip.words) * k_word;
    Word bits = 0;
    if (i < strip.n && begin + k_word > i && strip.is_alive(of, i)) {
      const C* const box = walk.box(of, i);
      const C a[4] = {box[0], box[1], box[2], box[3]};
      const auto end = static_cast<int>(min(strip.n - begin, std::int64_t{k_word}));
      for (int k = static_cast<int>(max(i + 1 - begin, std::int64_t{0})); k < end; ++k)
        bits |= Word{walk.are_alike(of, i, begin + k) && walk.overlap(a, walk.box(of, begin + k))} << k;
    }
    strip.bits[at] = bits;
  }
}

__device__ Word any_of_warp(Word bits) {
#pragma unroll
  for (int lanes = k_warp / 2; lanes > 0; lanes /= 2)
    bits |= shuffle_xor(bits, lanes);
  return bits;
}

/// Of 64 boxes, which may be alive so far, those that remain: `ended` says which each ends.
__device__ Word remaining(Word alive, const Word* ended) {
#pragma unroll 8
  for (int i = 0; i < k_word; ++i)
    alive &= (alive >> i & 1) != 0 ? ~ended[i] : ~Word{0};
  return alive;
}

__global__ void __launch_bounds__(k_sweepers) nms_sweep_kernel(NmsStrip strip, bool* kept) {
  start_early();
  __shared__ Word own[k_word], remain, near[k_near_words];
  const auto thread = static_cast<int>(threadIdx.x), lane = thread % k_warp, warp = thread / k_warp;
  for (std::int64_t of = blockIdx.x; of < strip.batch; of += gridDim.x) {
    Word* const alive = strip.is_near() ? near : strip.alive + of * strip.words;
    for (std::int64_t word = thread; strip.first == 0 && word < strip.words; word += k_sweepers)
      alive[word] = strip.taking_part(of, word);
    // What the next 64 end is on its way while these end others.
    const auto own_bits = [&](std::int64_t row) {
      const bool there = thread < k_word && strip.first + row < strip.end();
      return there ? strip.bits_of(of, (strip.first + row) / k_word)[row + thread] : Word{0};
    };
    Word next = own_bits(0);
    for (std::int64_t row = 0; strip.first + row < strip.end(); row += k_word) {
      const std::int64_t chunk = (strip.first + row) / k_word;
      if (thread < k_word)
        own[thread] = next;
      __syncthreads();
      if (thread == 0)
        alive[chunk] = remain = remaining(alive[chunk], own);
      next = own_bits(row + k_word);
      __syncthreads();
      for (std::int64_t word = chunk + 1 + warp; word < strip.words; word += k_sweepers / k_warp) {
        const Word* const bits = strip.bits_of(of, word) + row;
        const Word low = (remain >> lane & 1) != 0 ? bits[lane] : 0;
        const Word high = (remain >> (lane + k_warp) & 1) != 0 ? bits[lane + k_warp] : 0;
        if (const Word ended = any_of_warp(low | high); lane == 0)
          alive[word] &= ~ended;
      }
      __syncthreads();
    }
    for (std::int64_t i = thread; strip.end() == strip.n && i < strip.n; i += k_sweepers)
      kept[of * strip.n + i] = (alive[i / k_word] >> i % k_word & 1) != 0;
    __syncthreads();  // the next batch writes again
  }
}

}  // namespace

void nms_mask_gpu(const KernelCall& call) {
  constexpr std::int64_t k_most_words = 1 << 23;
  const TensorView& kept = call.outputs[0];
  if (kept.size == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  const std::int64_t batch = kept.shape[0], n = kept.shape[1], words = (n + k_word - 1) / k_word;
  const std::int64_t fitting = std::max<std::int64_t>(1, k_most_words / (batch * words * k_word));
  const std::int64_t rows = k_word * std::min(words, fitting);
  const Workspace scratch(call.queue, static_cast<std::size_t>(batch * words * (rows + 1)) * sizeof(Word));
  auto* const bits = scratch.as<Word>();
  NmsStrip strip{batch, n, words, 0, rows, call.inputs[1].as<const bool>(), bits, bits + batch * words * rows};
  const auto sweeps = static_cast<unsigned>(std::min<std::int64_t>(batch, 65536));
  by_computing_type(call.inputs[0].dtype, [&]<class C>() {
    const auto walk = nms_walk<C>(call);
    for (; strip.first < n; strip.first += rows) {
      nms_bits_kernel<<<blocks_for_groups(batch * words * rows, 1), k_group_block, 0, stream>>>(walk, strip);
      check_early_launch(call.op.name, stream);
      nms_sweep_kernel<<<sweeps, k_sweepers, 0, stream>>>(strip, kept.as<bool>());
      check_early_launch(call.op.name, stream);
    }
  });
}

}  // namespace sluice::detail
