#pragma once

#include <cstdint>

namespace sluice {

/// Where in the user's source something was written. `current()` as a default argument names the caller's line;
/// std::source_location is missing from clang 14, so this is our own.
struct SourceLocation {
  const char* file = "";
  int line = 0;
  std::uint32_t origin = 0;  // on whose behalf, as a push noted it: Origin::of(), origin.h

  static constexpr SourceLocation current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

}  // namespace sluice
