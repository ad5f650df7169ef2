#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::detail {

/// Counts the readers of a hot Var in several places, so that threads that only read it do not meet. `Word` is an
/// atomic 64-bit number (a checker brings its own). Counts only grow; nobody reads when as many left as entered.
template <class Word, unsigned Shards = 8>
struct ReadGate {
  static constexpr unsigned k_shards = Shards;
  struct alignas(64) Shard {
    Word entered{0};
    Word left{0};
  };

  void enter(unsigned shard) noexcept { shards[shard % k_shards].entered.fetch_add(1, std::memory_order_seq_cst); }
  void leave(unsigned shard) noexcept { shards[shard % k_shards].left.fetch_add(1, std::memory_order_seq_cst); }

  /// Those who left are summed first: if as many had entered by the time those are summed, nobody was inside between.
  bool empty() const noexcept {
    std::uint64_t left = 0;
    std::uint64_t entered = 0;
    for (const Shard& shard : shards)
      left += shard.left.load(std::memory_order_seq_cst);
    for (const Shard& shard : shards)
      entered += shard.entered.load(std::memory_order_seq_cst);
    return left == entered;
  }

  Shard shards[k_shards];
};

}  // namespace sluice::detail
