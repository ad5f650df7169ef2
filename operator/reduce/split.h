#pragma once

#include <cstdint>

namespace sluice::detail {

/// How the terms of one output are cut so that few outputs still keep every core busy. Depends on sizes alone, never
/// on threads: the order of additions is part of the result.
struct Split {
  std::int64_t chunk = 0;   // terms a piece
  std::int64_t pieces = 1;  // pieces an output
};
Split split_terms(std::int64_t units, std::int64_t terms, std::int64_t enough_units, std::int64_t smallest_chunk);

}  // namespace sluice::detail
