#pragma once

#include <cstdint>

namespace sluice::detail {

/// A hash of what `word` is a hash of, followed by `with`: a multiplication by the golden ratio of 2^64 (Knuth, The Art
/// of Computer Programming 3, 6.4), and a shift so that the upper bits reach the lower ones.
inline std::uint64_t mixed(std::uint64_t word, std::uint64_t with) noexcept {
  word = (word ^ with) * 0x9e3779b97f4a7c15u;
  return word ^ (word >> 29);
}
inline std::uint64_t mixed(std::uint64_t word, const void* with) noexcept {
  return mixed(word, reinterpret_cast<std::uintptr_t>(with));
}

}  // namespace sluice::detail
