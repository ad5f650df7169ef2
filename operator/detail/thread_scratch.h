#pragma once

#include <cstddef>

namespace sluice::detail {

/// What a thread keeps memory for. A use does not hold its memory while another call of its own may run on the thread.
enum class ScratchUse { convolution, fused, recurrent };

/// At least `bytes` of this thread's memory for that use, aligned to 64 bytes; kept between calls, its contents are
/// undefined. Valid until the next call for the same use on this thread. Throws std::bad_alloc.
void* thread_scratch(ScratchUse use, std::size_t bytes);

}  // namespace sluice::detail
