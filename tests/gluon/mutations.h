#pragma once

// Files that are almost right, for readers that must survive them.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <random>
#include <vector>

#include "tests/gluon/support.h"

namespace sluice::test {

/// `bytes` with one to four changes: bits turned, numbers made large or zero, pieces cut out, doubled or swapped, ends
/// cut off. The same for the same state of `draw`.
inline std::vector<std::uint8_t> mutated(std::vector<std::uint8_t> bytes, std::mt19937& draw) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(draw() % n); };
  const auto at = [&](std::size_t place) { return bytes.begin() + static_cast<std::ptrdiff_t>(place); };
  for (std::size_t changes = 1 + below(4); changes > 0 && !bytes.empty(); --changes) {
    const std::size_t place = below(bytes.size()), n = std::min(bytes.size() - place, 1 + below(8));
    switch (below(7)) {
      case 0:
        bytes[place] ^= static_cast<std::uint8_t>(1u << below(8));
        break;
      case 1:
        bytes[place] = static_cast<std::uint8_t>(draw());
        break;
      case 2:
        std::fill_n(at(place), n, below(2) == 0 ? std::uint8_t{0xff} : std::uint8_t{0});
        break;
      case 3:
        bytes.erase(at(place), at(place + n));
        break;
      case 4:
        bytes.resize(place);
        break;
      case 5: {
        const std::vector<std::uint8_t> piece(at(place), at(place + n));
        bytes.insert(at(below(bytes.size())), piece.begin(), piece.end());
        break;
      }
      default:
        std::swap(bytes[place], bytes[below(bytes.size())]);
    }
  }
  return bytes;
}

/// Writes a file anew. Some file systems bring one that is written over to the disk, which takes milliseconds.
inline void write_fresh(const std::filesystem::path& path, const std::vector<std::uint8_t>& bytes) {
  std::filesystem::remove(path);
  write_file(path, bytes);
}

}  // namespace sluice::test
