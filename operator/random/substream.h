#pragma once

#include <cstdint>

#include <sluice/operator/random/exact.h>
#include <sluice/operator/random/philox.h>

namespace sluice::detail {

/// The numbers of one element: Philox counters whose first two words are the element's block, and whose third counts
/// how many it took. Elements may take as many as they like without meeting another's.
class SubStream {
 public:
  SLUICE_HD SubStream(const RandomBlock& random, std::uint64_t element) noexcept
      : random_(random), counter_(random.offset + element) {}

  SLUICE_HD std::uint64_t bits() noexcept {
    if (left_ == 0) {
      block_ = philox(
          {{static_cast<std::uint32_t>(counter_), static_cast<std::uint32_t>(counter_ >> 32), tries_++, 0}},
          static_cast<std::uint32_t>(random_.seed),
          static_cast<std::uint32_t>(random_.seed >> 32));
      left_ = 2;
    }
    const int at = 2 * (2 - left_--);
    return std::uint64_t{block_.word[at + 1]} << 32 | block_.word[at];
  }
  /// (0, 1), symmetrical: odd multiples of 2^-53.
  SLUICE_HD Exact unit() noexcept { return unit_of(bits()); }
  SLUICE_HD static Exact unit_of(std::uint64_t bits) noexcept {
    return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  }
  /// Normal, by Marsaglia's polar method: pairs within the unit circle.
  SLUICE_HD Exact normal() noexcept {
    for (int tries = 0; tries < k_most_tries; ++tries) {
      const Exact x = 2.0 * unit() - 1.0, y = 2.0 * unit() - 1.0, s = x * x + y * y;
      if (s < 1.0 && s > 0.0)
        return x * exact_root(-2.0 * exact_log(s) / s);
    }
    return 0.0;
  }

  /// Each fails with a probability of less than 0.7: nobody will see as many.
  static constexpr int k_most_tries = 2000;

 private:
  RandomBlock random_;
  std::uint64_t counter_;
  PhiloxBlock block_ = {};
  std::uint32_t tries_ = 0;
  int left_ = 0;
};

}  // namespace sluice::detail
