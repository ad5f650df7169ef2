#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/ndarray/iterate.h>
#include <sluice/operator/reduce/states.h>

// Sums in blocks, and blocks in pairs of equal size: the rounding error grows with the logarithm of the number of
// terms (Higham, "The accuracy of floating point summation", 1993; NumPy's pairwise sum), in one pass over any runs.
namespace sluice::detail {

/// Blocks joined like the digits of a binary counter: level l holds 2^l of them.
template <class Op>
class Cascade {
 public:
  using Acc = typename Op::Acc;
  explicit Cascade(const Op& op) noexcept : op_(op) {}

  void add(Acc block) noexcept {
    int level = 0;
    for (std::uint64_t rest = blocks_; rest & 1; rest >>= 1)
      block = op_.join(levels_[level++], block);
    levels_[level] = block;
    ++blocks_;
  }
  Acc total() const noexcept {
    Acc result = op_.identity();
    bool first = true;
    for (int level = 0; blocks_ >> level != 0; ++level) {
      if ((blocks_ >> level & 1) == 0)
        continue;
      result = first ? levels_[level] : op_.join(levels_[level], result);
      first = false;
    }
    return result;
  }

 private:
  const Op& op_;
  std::uint64_t blocks_ = 0;
  Acc levels_[64];
};

inline constexpr std::int64_t k_block_terms = 256;
inline constexpr int k_lanes = 16;

/// Elements of half precision that the state takes as float too: they are converted by vectors.
template <class Op, class T>
inline constexpr bool k_converts = (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)&&requires(const Op& op) {
  op.lift(0.0F);
};

/// At most k_block_terms terms, `step` apart, in k_lanes independent sums that the compiler keeps in vectors.
template <class Op, class T>
typename Op::Acc reduce_block(const Op& op, const T* x, std::int64_t n, std::int64_t step) noexcept {
  using Acc = typename Op::Acc;
  if (n < k_lanes) {
    Acc sum = n > 0 ? op.lift(x[0]) : op.identity();
    for (std::int64_t i = 1; i < n; ++i)
      sum = with_term(op, sum, x[i * step]);
    return sum;
  }
  Acc lane[k_lanes];
  std::int64_t i = k_lanes;
  if (step == 1) {
    for (int j = 0; j < k_lanes; ++j)
      lane[j] = op.lift(x[j]);
    for (; i + k_lanes <= n; i += k_lanes) {
      for (int j = 0; j < k_lanes; ++j)
        lane[j] = with_term(op, lane[j], x[i + j]);
    }
  } else {
    for (int j = 0; j < k_lanes; ++j)
      lane[j] = op.lift(x[j * step]);
    for (; i + k_lanes <= n; i += k_lanes) {
      for (int j = 0; j < k_lanes; ++j)
        lane[j] = with_term(op, lane[j], x[(i + j) * step]);
    }
  }
  for (int j = 0; i < n; ++i, ++j)
    lane[j] = with_term(op, lane[j], x[i * step]);
  for (int width = k_lanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j)
      lane[j] = op.join(lane[j], lane[j + width]);
  }
  return lane[0];
}

/// Terms of `width` neighbouring outputs at a time: blocks of rows, joined in pairs.
template <class Op>
class TileCascade {
 public:
  using Acc = typename Op::Acc;
  static constexpr int k_width = sizeof(Acc) <= 8 ? 256 : 64;
  static constexpr int k_block_rows = 64;

  TileCascade(const Op& op, int width) noexcept : op_(op), width_(width) {}

  template <class T>
  void add_row(const T* __restrict x) noexcept {
    if constexpr (k_converts<Op, T>) {
      constexpr bool k_joins = requires {
        join_neighbours(op_, x, width_, block_);
      };
      if (!k_joins || rows_ == 0) {
        float converted[k_width];
        simd::convert(x, converted, width_);
        return add_row(static_cast<const float*>(converted));
      }
    }
    Acc* __restrict block = block_;
    if (rows_ == 0) {
      for (int j = 0; j < width_; ++j)
        block[j] = op_.lift(x[j]);
    } else {
      join_row(x, block);
    }
    if (++rows_ == k_block_rows)
      close_block();
  }
  /// Joins all rows into `to`.
  void total(Acc* to) noexcept {
    if (rows_ > 0)
      close_block();
    bool first = true;
    for (int level = 0; blocks_ >> level != 0; ++level) {
      if ((blocks_ >> level & 1) == 0)
        continue;
      for (int j = 0; j < width_; ++j)
        to[j] = first ? levels_[level][j] : op_.join(levels_[level][j], to[j]);
      first = false;
    }
  }

 private:
  template <class T>
  void join_row(const T* __restrict x, Acc* __restrict block) noexcept {
    if constexpr (requires { join_neighbours(op_, x, width_, block); }) {
      if (join_neighbours(op_, x, width_, block))
        return;
    }
    for (int j = 0; j < width_; ++j)
      block[j] = with_term(op_, block[j], x[j]);
  }
  void close_block() noexcept {
    int level = 0;
    for (std::uint64_t rest = blocks_; rest & 1; rest >>= 1, ++level) {
      for (int j = 0; j < width_; ++j)
        block_[j] = op_.join(levels_[level][j], block_[j]);
    }
    std::copy(block_, block_ + width_, levels_[level]);
    ++blocks_;
    rows_ = 0;
  }

  const Op& op_;
  int width_;
  int rows_ = 0;
  std::uint64_t blocks_ = 0;
  Acc block_[k_width];
  Acc levels_[32][k_width];  // 2^32 blocks of 64 rows: more than any memory
};

}  // namespace sluice::detail
