#pragma once

#include <cstddef>

namespace sluice::simd {

/// Copies whole lines of 64 bytes to where lines begin, past the caches: finish_streams() (rows.h) comes before anybody
/// reads them.
using LineCopy = void (*)(const std::byte* from, std::size_t bytes, std::byte* to);

/// Null if there are no vectors.
LineCopy line_copy() noexcept;

}  // namespace sluice::simd
