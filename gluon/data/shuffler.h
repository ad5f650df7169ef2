#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::gluon::data::detail {

/// Random orders of indices. SplitMix64 (Steele, Lea and Flood, 2014): spreads any seed well enough to shuffle by.
class Shuffler {
 public:
  Shuffler(std::uint64_t seed, std::uint64_t stream) : state_(seed) { state_ = next() ^ stream; }

  void shuffle(std::vector<std::int64_t>& items) {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[below(i)]);
  }
  /// One of 0 .. n - 1: the high half of a 64 x 64 bit product, even to within n / 2^64.
  std::size_t below(std::uint64_t n) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::size_t>((static_cast<Wide>(next()) * n) >> 64);
  }

 private:
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace sluice::gluon::data::detail
