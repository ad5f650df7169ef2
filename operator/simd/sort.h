#pragma once

#include <cstdint>

namespace sluice::simd {

/// Sorts n keys, the smallest first, in vectors of target(); false, and nothing done, where there are none.
bool sort_keys(std::uint32_t* keys, std::int64_t n) noexcept;
bool sort_keys(std::uint64_t* keys, std::int64_t n) noexcept;
/// The same of n pairs of words, the second of each being the higher one. Aligned to 16 bytes.
bool sort_pairs(std::uint64_t* words, std::int64_t n) noexcept;
/// Sorts `count` columns of n words, the smallest first; row i begins at words + i * step. Columns up to the next
/// multiple of 16 are there too and come to anything.
void sort_columns(std::uint32_t* words, std::int64_t n, std::int64_t count, std::int64_t step) noexcept;
void sort_columns(std::uint64_t* words, std::int64_t n, std::int64_t count, std::int64_t step) noexcept;

}  // namespace sluice::simd
