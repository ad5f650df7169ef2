#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace sluice::detail {

/// The little-endian number at `offset`; the caller knows that it lies inside.
template <class T>
T little_at(std::span<const std::byte> bytes, std::size_t offset) noexcept {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | (static_cast<T>(bytes[offset + i]) << (8 * i)));
  return value;
}

template <class T>
void append_little(std::string& to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    to += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
}

inline std::span<const std::byte> bytes_of(const std::string& text) noexcept {
  return std::as_bytes(std::span(text));
}

}  // namespace sluice::detail
