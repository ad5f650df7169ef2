#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace sluice::detail {

inline constexpr int k_shards = 32;

/// A number in [0, k_shards) that seldom is another running thread's.
int this_shard() noexcept;

/// What an engine counts, spread over cache lines so that threads do not meet. Counts only grow.
struct alignas(64) CountShard {
  std::array<std::atomic<std::uint64_t>, 2> entered{};  // tasks pushed, by epoch
  std::array<std::atomic<std::uint64_t>, 2> left{};     // tasks finished, by epoch
  std::atomic<std::uint64_t> skipped{0};
  std::atomic<std::uint64_t> failed{0};
};
using Counts = std::array<CountShard, k_shards>;

}  // namespace sluice::detail
