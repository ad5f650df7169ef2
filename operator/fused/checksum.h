#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::fused {

/// FNV-1a of 64 bits; `before` goes on with an earlier one.
constexpr std::uint64_t checksum(std::string_view bytes, std::uint64_t before = 0xcbf2'9ce4'8422'2325ull) noexcept {
  for (const char byte : bytes)
    before = (before ^ static_cast<unsigned char>(byte)) * 0x0000'0100'0000'01b3ull;
  return before;
}

}  // namespace sluice::fused
