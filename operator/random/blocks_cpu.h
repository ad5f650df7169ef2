#pragma once

#include <cstdint>

#include <sluice/operator/random/philox.h>
#include <sluice/operator/random/substream.h>
#include <sluice/operator/simd/random.h>

namespace sluice::detail {

inline std::int64_t whole_groups(std::int64_t n) noexcept {
  constexpr std::int64_t k_group = simd::RandomRows::k_group;
  return (n + k_group - 1) / k_group * k_group;
}

/// Neighbouring Philox blocks, some at a time, in vectors where there are any.
class BlocksAtATime {
 public:
  static constexpr std::int64_t k_most = 256, k_words = 4 * k_most;
  static_assert(k_words % simd::RandomRows::k_group == 0);

  explicit BlocksAtATime(const RandomBlock& random) noexcept : random_(random) {}

  /// Blocks from `first` on, k_most of them at most.
  void make(std::int64_t first, std::int64_t count) noexcept {
    const auto block = static_cast<std::uint64_t>(first);
    if (rows_ != nullptr) {
      rows_->words(random_, block, whole_groups(4 * count), reinterpret_cast<std::uint32_t*>(blocks_));
      return;
    }
    for (std::int64_t i = 0; i < count; ++i)
      blocks_[i] = philox(random_, block + static_cast<std::uint64_t>(i));
  }
  const PhiloxBlock& operator[](std::int64_t i) const noexcept { return blocks_[i]; }
  /// The first number of the sub-stream that begins with a block.
  Exact unit(std::int64_t i) const noexcept {
    return SubStream::unit_of(std::uint64_t{blocks_[i].word[1]} << 32 | blocks_[i].word[0]);
  }
  /// Four a block.
  const std::uint32_t* words() const noexcept { return reinterpret_cast<const std::uint32_t*>(blocks_); }
  /// What else is done in vectors; may be null.
  const simd::RandomRows* rows() const noexcept { return rows_; }

 private:
  const simd::RandomRows* rows_ = simd::random_rows();
  RandomBlock random_;
  PhiloxBlock blocks_[k_most];
};

}  // namespace sluice::detail
