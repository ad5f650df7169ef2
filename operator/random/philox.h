#pragma once

#include <cstdint>

#include <sluice/engine/engine.h>
#include <sluice/ndarray/half.h>

namespace sluice::detail {

/// Four 32-bit random numbers.
struct PhiloxBlock {
  std::uint32_t word[4];
};

/// Philox4x32-10, a function of a 128-bit counter and a 64-bit key alone (Salmon et al., "Parallel random numbers: as
/// easy as 1, 2, 3", SC 2011): ten rounds of two multiplications, the key raised by Weyl constants between them.
SLUICE_HD inline PhiloxBlock philox(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {
        {static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
         static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
         static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// Block `index` of what the engine handed out: the seed is the key, the offset counts blocks.
SLUICE_HD inline PhiloxBlock philox(const RandomBlock& random, std::uint64_t index) noexcept {
  const std::uint64_t counter = random.offset + index;
  return philox(
      {{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}},
      static_cast<std::uint32_t>(random.seed),
      static_cast<std::uint32_t>(random.seed >> 32));
}

}  // namespace sluice::detail
