#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/buffer.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::detail {

/// What an NDArray handle points to. Shape, strides, offset, type and device never change; the buffer and the tape
/// entry may be exchanged by the thread that owns the recording.
struct ArrayObject {
  std::atomic<int> references{1};
  DType dtype = DType::float32;
  Device device;
  Shape shape;
  Shape strides;            // elements
  std::int64_t offset = 0;  // elements from the start of the buffer
  std::int64_t size = 0;
  Buffer* buffer = nullptr;                      // counted; null while tracing
  autograd::Entry entry;                         // which node made it, if recorded
  std::unique_ptr<autograd::Variable> variable;  // attach_grad's state

  std::byte* data() const noexcept { return buffer->data() + offset * static_cast<std::int64_t>(size_of(dtype)); }
};

/// A new array object on `buffer` (adopts one count). From a slab.
SLUICE_API NDArray
make_array(Buffer* buffer, DType dtype, Device device, const Shape& shape, const Shape& strides, std::int64_t offset);
/// A view of `base` with other geometry: shares the buffer, not recorded.
SLUICE_API NDArray make_view(const NDArray& base, const Shape& shape, const Shape& strides, std::int64_t offset);

}  // namespace sluice::detail
