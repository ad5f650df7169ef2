#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/buffer.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::detail {

/// What an NDArray handle points to. Shape, strides, offset, type and device never change; the buffer and the tape
/// entry may be exchanged by the thread that owns the recording: so a task's body never looks at an ArrayObject; it
/// gets data() and geometry copied at push (the buffer's Var keeps the memory until the task is done).
struct ArrayObject {
  std::atomic<int> references{1};
  DType dtype = DType::float32;
  Device device;
  Shape shape;
  Shape strides;            // elements
  std::int64_t offset = 0;  // elements from the start of the buffer
  std::int64_t size = 0;
  bool contiguous = true;                        // what is_contiguous() says of it
  bool is_all = false;                           // whoever writes all of it leaves nothing that others need there
  bool is_indexed = false;                       // index arrays or a mask made it: a copy of what they name
  Buffer* buffer = nullptr;                      // counted; null: an array without memory, see operator/sink.h
  std::uint64_t value = 0;                       // without a buffer: which value the array stands for
  autograd::Entry entry;                         // which node made it, if recorded
  std::shared_ptr<autograd::Variable> variable;  // attach_grad's state; its leaf node shares it

  ArrayObject() = default;
  ArrayObject(Buffer* of, DType type, Device on, const Shape& extents, const Shape& steps) noexcept
      : dtype(type), device(on), shape(extents), strides(steps), buffer(of) {}

  /// Throws ValueError for an array without a buffer.
  std::byte* data() const;
};

/// Throws ValueError: `op` needs the memory of an array that has none.
[[noreturn]] SLUICE_API void refuse_without_data(const char* op, const ArrayObject& array);
/// The array. Throws ValueError naming `op` if it has no buffer.
inline const ArrayObject& with_data(const char* op, const ArrayObject& array) {
  if (array.buffer == nullptr) [[unlikely]]
    refuse_without_data(op, array);
  return array;
}

inline std::byte* ArrayObject::data() const {
  return with_data("data", *this).buffer->data() + offset * static_cast<std::int64_t>(size_of(dtype));
}

/// A new array object on `buffer` (adopts one count). From a slab.
SLUICE_API NDArray
make_array(Buffer* buffer, DType dtype, Device device, const Shape& shape, const Shape& strides, std::int64_t offset);
/// The same, row-major without gaps and of `size` elements, as shape.size() says.
NDArray make_packed(Buffer* buffer, DType dtype, Device device, const Shape& shape, std::int64_t size);
/// A view of `base` with other geometry: shares the buffer, not recorded.
SLUICE_API NDArray make_view(const NDArray& base, const Shape& shape, const Shape& strides, std::int64_t offset);

/// Elements up to which what is done with each of them on a CPU takes less time than a task: it is done at once, if
/// nothing comes before it and nobody knows the result yet.
inline constexpr std::int64_t k_short_size = 1024;

/// What a copy or a fill writes: an array that somebody may know, or one that was made for it and that nobody knows.
enum class CopyTo : std::uint8_t { known, made };

/// Pushes the tasks of an unrecorded copy of `from` into `to`: same shape, any strides, types and devices, also where
/// the two overlap. What copying operators run. Throws ShapeError for other shapes, ValueError for a `to` that names an
/// element twice and for arrays without a buffer.
SLUICE_API void push_copy(const NDArray& from, const NDArray& to, SourceLocation site, CopyTo what = CopyTo::known);
/// The same of an unrecorded fill. Throws ValueError for an array that names an element twice or has no buffer, and for
/// a number that an integer type does not hold.
SLUICE_API void push_fill(const NDArray& array, Scalar value, SourceLocation site, CopyTo what = CopyTo::known);

/// empty() on an engine of choice: what is made beside an array belongs to that array's engine.
SLUICE_API NDArray make_empty(Engine& engine, const Shape& shape, const ArrayOptions& options);
/// The same without a look at the pools, where an array of that device is at hand: its memory comes from where that of
/// `beside` came from.
SLUICE_API NDArray make_beside(Engine& engine, const ArrayObject& beside, const Shape& shape, DType dtype);
/// Throws ValueError: `op` needs an array and was given none.
[[noreturn]] SLUICE_API void refuse_undefined(const char* op);
/// The object of a defined array. Throws ValueError naming `op` for an undefined one.
inline ArrayObject& object_of(const NDArray& array, const char* op) {
  if (!array.defined()) [[unlikely]]
    refuse_undefined(op);
  return *array.object();
}
/// Throws ValueError naming `op` unless an integer `dtype` holds `value` as it is; other types take any number.
SLUICE_API void check_fits(const char* op, Scalar value, DType dtype);
/// Row-major without gaps.
SLUICE_API bool is_contiguous(const ArrayObject& array) noexcept;
/// True if two elements of the array are one in memory (a stretched view): such arrays are not written.
SLUICE_API bool overlaps_itself(const ArrayObject& array) noexcept;
/// True if along some axis the elements lie one before the other. Copies and fills take such arrays, kernels do not.
SLUICE_API bool runs_backwards(const ArrayObject& array) noexcept;
/// The array is all of its buffer, so writing it leaves nothing of the old value.
SLUICE_API bool covers_buffer(const ArrayObject& array) noexcept;
/// Where the array's elements lie, in bytes from the start of its buffer.
struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
SLUICE_API ByteRange reach_of(const ArrayObject& array) noexcept;
/// Adds the Vars of the regions of its buffer that the array touches.
SLUICE_API void add_touched(AccessList& list, const ArrayObject& array, AccessMode mode);
/// What a task says that reads one array and writes another, that writes one, or reads one: out() where nothing of the
/// old value is left, write() otherwise.
SLUICE_API AccessList accesses_to_copy(const ArrayObject& from, const ArrayObject& to);
SLUICE_API AccessList accesses_to_write(const ArrayObject& array);
SLUICE_API AccessList accesses_to_read(const ArrayObject& array);

}  // namespace sluice::detail
