#pragma once

#include <cstdint>

namespace sluice::detail {

/// Multiprocessors of an H100 or H200, on which it was measured how work is cut best. Not those of the GPU that is
/// there: cut so, results are the same bits on every GPU, and what a graph becomes does not ask for one.
inline constexpr std::int64_t k_multiprocessors = 132;

}  // namespace sluice::detail
