#include <cmath>
#include <limits>
#include <utility>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/free_list.h>
#include <sluice/ndarray/detail/strides.h>

namespace sluice::detail {
namespace {

using ArrayMemory = FreeList<ArrayObject>;

// Drops the buffer where there is no memory for the object.
ArrayObject* new_object(Buffer* buffer, DType dtype, Device device, const Shape& shape, const Shape& strides) {
  try {
    return ::new (ArrayMemory::take()) ArrayObject(buffer, dtype, device, shape, strides);
  } catch (...) {
    if (buffer != nullptr)
      buffer->release();
    throw;
  }
}

}  // namespace

void retain(ArrayObject* array) noexcept {
  array->references.fetch_add(1, std::memory_order_relaxed);
}

void release(ArrayObject* array) noexcept {
  // Who holds the only reference is alone with it.
  if (array->references.load(std::memory_order_acquire) != 1 &&
      array->references.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  if (array->buffer != nullptr)
    array->buffer->release();
  array->~ArrayObject();
  ArrayMemory::give(array);
}

NDArray make_array(
    Buffer* buffer, DType dtype, Device device, const Shape& shape, const Shape& strides, std::int64_t offset) {
  ArrayObject* object = new_object(buffer, dtype, device, shape, strides);
  NDArray array(object);
  object->offset = offset;
  object->size = shape.size();
  object->contiguous = is_contiguous(*object);
  return array;
}

NDArray make_packed(Buffer* buffer, DType dtype, Device device, const Shape& shape, std::int64_t size) {
  ArrayObject* object = new_object(buffer, dtype, device, shape, shape);
  become_strides(object->strides);
  object->size = size;
  return NDArray(object);
}

NDArray make_view(const NDArray& base, const Shape& shape, const Shape& strides, std::int64_t offset) {
  const ArrayObject& of = object_of(base, "view");
  if (of.buffer != nullptr)
    of.buffer->retain();
  NDArray view = make_array(of.buffer, of.dtype, of.device, shape, strides, offset);
  view.object()->value = of.value;
  return view;
}

void refuse_undefined(const char* op) {
  throw ValueError(message(op, ": the array is undefined"));
}

void check_fits(const char* op, Scalar value, DType dtype) {
  check_known(op, dtype);
  if (!is_integer(dtype) || value.kind() == Scalar::Kind::boolean)
    return;
  const bool fits = by_any_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      using Limits = std::numeric_limits<T>;
      if (value.kind() == Scalar::Kind::integer)
        return std::in_range<T>(value.as_int64());
      // 2^digits is a double where the largest number may be none.
      const double real = value.as_double();
      return real >= static_cast<double>(Limits::min()) && real < std::ldexp(1.0, Limits::digits) &&
             real == std::trunc(real);
    } else {
      return true;
    }
  });
  require<ValueError>(fits, [&] {
    return value.kind() == Scalar::Kind::integer
               ? message(op, ": the number ", value.as_int64(), " does not fit ", dtype)
               : message(op, ": the number ", value.as_double(), " does not fit ", dtype);
  });
}

bool overlaps_itself(const ArrayObject& array) noexcept {
  if (array.size == 0)
    return false;
  for (int axis = 0; axis < array.shape.ndim(); ++axis) {
    if (array.shape[axis] > 1 && array.strides[axis] == 0)
      return true;
  }
  return false;
}

bool runs_backwards(const ArrayObject& array) noexcept {
  for (int axis = 0; axis < array.shape.ndim(); ++axis) {
    if (array.strides[axis] < 0)
      return true;
  }
  return false;
}

bool covers_buffer(const ArrayObject& array) noexcept {
  return !overlaps_itself(array) &&
         static_cast<std::size_t>(array.size) * size_of(array.dtype) == array.buffer->chunk().requested;
}

ByteRange reach_of(const ArrayObject& array) noexcept {
  if (array.size == 0)
    return {};
  std::int64_t first = array.offset, last = array.offset;
  for (int axis = 0; axis < array.shape.ndim(); ++axis) {
    const std::int64_t span = (array.shape[axis] - 1) * array.strides[axis];
    (span < 0 ? first : last) += span;
  }
  const auto bytes = static_cast<std::int64_t>(size_of(array.dtype));
  return {first * bytes, (last + 1) * bytes};
}

void add_touched(AccessList& list, const ArrayObject& array, AccessMode mode) {
  const auto& regions = array.buffer->regions();
  if (regions.size() == 1) [[likely]]
    return list.push_back({regions.front().var.core(), mode});
  const ByteRange reach = reach_of(array);
  for (const auto& region : regions) {
    if (reach.begin < static_cast<std::int64_t>(region.end) && static_cast<std::int64_t>(region.begin) < reach.end)
      list.push_back({region.var.core(), mode});
  }
}

AccessList accesses_to_copy(const ArrayObject& from, const ArrayObject& to) {
  AccessList list = accesses_to_read(from);
  add_touched(list, to, to.is_all || covers_buffer(to) ? AccessMode::out : AccessMode::write);
  return list;
}

AccessList accesses_to_write(const ArrayObject& array) {
  AccessList list;
  add_touched(list, array, array.is_all || covers_buffer(array) ? AccessMode::out : AccessMode::write);
  return list;
}

AccessList accesses_to_read(const ArrayObject& array) {
  AccessList list;
  add_touched(list, array, AccessMode::read);
  return list;
}

}  // namespace sluice::detail
