#pragma once

#include <cstddef>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/mapped.h>
#include <sluice/ndarray/detail/read_slots.h>

// Values of small GPU arrays on the host without a copy engine: a kernel writes them into mapped memory and sets a flag
// that the host looks at. (A prototype on an H200: 64 bytes behind a tiny kernel after 10.3 us, with cudaMemcpyAsync
// and a wait after 17.)
namespace sluice::detail {

/// The array may be read so: it lies on a GPU and fits a slot.
inline bool is_small_read(const ArrayObject& array) noexcept {
  return array.device.is_gpu() && array.size > 0 &&
         static_cast<std::size_t>(array.size) <= ReadSlot::k_bytes / size_of(array.dtype);
}

#ifdef SLUICE_CUDA
/// Waits for the array and writes its elements, cast, in row-major order to `to`. Throws what a wait for it throws.
void read_small(const NDArray& array, void* to, DType dtype);

// Of small_read_cuda.cu
/// `bytes` bytes from GPU memory into the slot, then its flag, enqueued on a cudaStream_t. Throws CudaError.
void write_slot(void* stream, const ReadSlot& slot, const void* from, std::size_t bytes);
#endif

}  // namespace sluice::detail
