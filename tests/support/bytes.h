#pragma once

// What differs between two runs that should be the same to the last bit.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

namespace sluice::test {

/// The first place where `got` and `wanted` differ, with up to 8 bytes of each before it and from it on, last
/// byte first as a number is read; their lengths where one ends before the other; "none" of equal ones.
inline std::string first_difference(std::string_view got, std::string_view wanted) {
  const auto [mine, theirs] = std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end());
  const auto at = static_cast<std::size_t>(mine - got.begin());
  if (at == got.size() || at == wanted.size())
    return got == wanted ? "none" : "lengths " + std::to_string(got.size()) + " and " + std::to_string(wanted.size());
  const auto number = [&](std::string_view bytes) {
    std::string text;
    for (const char byte : bytes.substr(at - std::min<std::size_t>(at, 8), 16)) {
      char digits[3];
      std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(byte));
      text.insert(0, digits);
    }
    return text;
  };
  return "byte " + std::to_string(at) + " of " + std::to_string(got.size()) + ": " + number(got) + " for " +
         number(wanted);
}

}  // namespace sluice::test
