#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

// What a graph file is written of.
namespace sluice::graph::file_format {

inline std::string in_quotes(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      constexpr const char* k_digits = "0123456789abcdef";
      made += {'\\', 'u', '0', '0', k_digits[c >> 4], k_digits[c & 15]};
      continue;
    }
    if (c == '"' || c == '\\')
      made += '\\';
    made += c;
  }
  return made + '"';
}

// The fewest digits that read as the same number; as text, which holds infinities and which all readers read exactly.
inline std::string number(double value) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

template <class List, class Each>
std::string listed(const List& list, const char* separator, const Each& each) {
  std::string text;
  for (const auto& entry : list)
    text += (text.empty() ? "" : separator) + each(entry);
  return text;
}

inline std::string whole_numbers(const auto& list) {
  return '[' + listed(list, ", ", [](std::int64_t entry) { return std::to_string(entry); }) + ']';
}

}  // namespace sluice::graph::file_format
