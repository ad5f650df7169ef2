#pragma once

#include <cstddef>
#include <cstdint>

#include <sluice/ndarray/dtype.h>

// Rows of a few elements each, as neighbours of their compute type (math::Compute), and back: what elements.h does to
// one row, for so many that none is a call of its own.
namespace sluice::detail {

/// `count` rows of `length` elements; in memory rows begin `row_step` elements apart, and elements are `step` apart.
struct ShortRows {
  std::int64_t count = 0, length = 0;
  std::int64_t row_step = 0, step = 0;

  std::int64_t size() const noexcept { return count * length; }
};

/// At most k_most_short elements.
inline constexpr std::int64_t k_most_short = 256;

void gather_rows(DType dtype, const std::byte* from, const ShortRows& rows, void* to);
void scatter_rows(DType dtype, const void* from, std::byte* to, const ShortRows& rows);

}  // namespace sluice::detail
