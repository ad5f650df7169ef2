#pragma once

#include <sluice/engine/device.h>
#include <sluice/ndarray/detail/dlpack_abi.h>
#include <sluice/ndarray/dlpack.h>

namespace sluice::detail {

class Buffer;

/// The cudaStream_t that `stream` says; `waits`: work is to be put in order with it. Throws ValueError, naming `op`,
/// for 0, numbers below -1, and one that a CPU's array is given.
void* stream_for(const char* op, Device device, DlpackStream stream, bool& waits);

/// Whether another library has the memory and may write it, until it calls the deleter.
bool is_lent(const Buffer& buffer) noexcept;

}  // namespace sluice::detail
