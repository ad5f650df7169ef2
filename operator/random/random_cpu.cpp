#include <algorithm>
#include <type_traits>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/random/blocks_cpu.h>
#include <sluice/operator/random/draw.h>
#include <sluice/operator/random/kernels.h>

namespace sluice::detail {

namespace {

using simd::RandomRows;

// Whether a draw has vectors: they make floats, a number from each word.
template <class Draw>
constexpr bool k_in_vectors = false;
template <class T>
constexpr bool k_in_vectors<UniformDraw<T>> = !std::is_same_v<T, double>;
template <class T>
constexpr bool k_in_vectors<NormalDraw<T>> = !std::is_same_v<T, double>;

// Whether elements are made of a word each, by a loop over those.
template <class Draw>
constexpr bool k_by_word = false;
template <class T>
constexpr bool k_by_word<BernoulliDraw<T>> = true;

template <class T>
void draw_floats(
    const RandomRows& rows, const UniformDraw<T>& draw, const std::uint32_t* words, std::int64_t n, float* to) {
  rows.uniform(words, draw.low, draw.span, draw.below, n, to);
  for (std::int64_t i = 0; draw.scale != 1 && i < n; ++i)
    to[i] *= draw.scale;
}
template <class T>
void draw_floats(
    const RandomRows& rows, const NormalDraw<T>& draw, const std::uint32_t* words, std::int64_t n, float* to) {
  rows.normal(words, draw.mean, draw.deviation, n, to);
}

// Rounding to T may reach the open end of a uniform range: see UniformDraw. `room` holds n numbers.
template <class T>
void close_end(const UniformDraw<T>& draw, std::int64_t n, T* to, float* room) {
  simd::convert(to, room, n);
  int reached = 0;
  for (std::int64_t i = 0; i < n; ++i)
    reached |= static_cast<int>(!(room[i] < draw.high));
  for (std::int64_t i = 0; reached != 0 && i < n; ++i) {
    if (!(room[i] < draw.high))
      to[i] = draw.last;
  }
}
template <class T>
void close_end(const NormalDraw<T>&, std::int64_t, T*, float*) {}

template <class Draw>
void draw_numbers(
    const RandomRows& rows, const Draw& draw, const std::uint32_t* words, std::int64_t n, typename Draw::Element* to) {
  using T = typename Draw::Element;
  if constexpr (std::is_same_v<T, float>) {
    if (n % RandomRows::k_group == 0)
      return draw_floats(rows, draw, words, n, to);
  }
  float numbers[BlocksAtATime::k_words];
  draw_floats(rows, draw, words, whole_groups(n), numbers);
  if constexpr (std::is_same_v<T, float>) {
    std::copy_n(numbers, n, to);
  } else {
    simd::convert(numbers, to, n);
    close_end(draw, n, to, numbers);
  }
}

// All elements of blocks [begin, end), but no more than `size` in all.
template <class Draw>
void draw_blocks(
    const RandomBlock& random,
    const Draw& draw,
    std::int64_t begin,
    std::int64_t end,
    std::int64_t size,
    typename Draw::Element* to) {
  using T = typename Draw::Element;
  constexpr std::int64_t per_block = Draw::k_count;
  BlocksAtATime blocks(random);
  for (std::int64_t first = begin; first < end; first += BlocksAtATime::k_most) {
    const std::int64_t count = std::min(BlocksAtATime::k_most, end - first);
    const std::int64_t elements = std::min(count * per_block, size - first * per_block);
    T* const here = to + first * per_block;
    blocks.make(first, count);
    if constexpr (k_in_vectors<Draw>) {
      if (blocks.rows() != nullptr) {
        draw_numbers(*blocks.rows(), draw, blocks.words(), elements, here);
        continue;
      }
    }
    if constexpr (k_by_word<Draw>) {
      draw.each(blocks.words(), elements, here);
      continue;
    }
    for (std::int64_t i = 0; i < elements; i += per_block) {
      T values[per_block];
      draw(blocks[i / per_block], values);
      std::copy_n(values, std::min(per_block, elements - i), here + i);
    }
  }
}

template <class Draw>
void fill_random(const KernelCall& call, const Draw& draw) {
  auto* const to = call.outputs[0].as<typename Draw::Element>();
  const std::int64_t size = call.outputs[0].size;
  const RandomBlock random = random_source(call).read();
  parallel_for((size + Draw::k_count - 1) / Draw::k_count, 1024, [&](std::int64_t begin, std::int64_t end) {
    draw_blocks(random, draw, begin, end, size, to);
  });
}

}  // namespace

void random_uniform_cpu(const KernelCall& call) {
  const auto& a = call.attributes.as<RealAttributes>();
  by_floating(a.dtype, [&]<class T>() { fill_random(call, UniformDraw<T>(a.first, a.second)); });
}

void random_normal_cpu(const KernelCall& call) {
  const auto& a = call.attributes.as<RealAttributes>();
  by_floating(a.dtype, [&]<class T>() { fill_random(call, NormalDraw<T>(a.first, a.second)); });
}

void random_randint_cpu(const KernelCall& call) {
  const auto& a = call.attributes.as<IntegerAttributes>();
  by_drawn_bits(a.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      fill_random(call, IntegerDraw<T>(a.first, a.second));
  });
}

void random_bernoulli_cpu(const KernelCall& call) {
  const auto& a = call.attributes.as<RealAttributes>();
  by_drawn_bits(a.dtype, [&]<class T>() { fill_random(call, BernoulliDraw<T>(a.first)); });
}

}  // namespace sluice::detail
