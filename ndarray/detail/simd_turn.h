#pragma once

#include <cstdint>

namespace sluice::simd {

/// to[a * to_step + i] = from[i * from_step + a] for i below `rows` and a below `columns`, in the vectors of target().
/// `stream`: past the caches, which takes lines of the target that begin at multiples of 64 bytes. False, and nothing
/// done, if there are none. T is an unsigned integer of 1, 2, 4 or 8 bytes.
template <class T>
bool turn(
    T* to,
    std::int64_t to_step,
    const T* from,
    std::int64_t from_step,
    std::int64_t rows,
    std::int64_t columns,
    bool stream) noexcept;

}  // namespace sluice::simd
