#pragma once

#include <cstddef>

#include <sluice/engine/export.h>

namespace sluice::detail {

/// Memory for what does not fit into a task node: long access lists, large closures. Blocks of up to k_largest_block
/// bytes are recycled like nodes, so that a steady program does not call the heap; larger ones come from the heap.
/// Aligned to 64 bytes. Throws std::bad_alloc.
inline constexpr std::size_t k_largest_block = 16384;
SLUICE_API void* take_block(std::size_t bytes);
SLUICE_API void give_block(void* block, std::size_t bytes) noexcept;

}  // namespace sluice::detail
