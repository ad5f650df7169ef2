#pragma once

#include <span>
#include <string_view>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// Throws ValueError, DeviceError: an input that is not there, inputs on several devices or engines.
void check_inputs(const Operator& op, std::span<const NDArray> inputs);

/// What check_inputs() finds nothing against, at a glance: it need not be asked.
inline bool are_plain(const Operator& op, std::span<const NDArray> inputs) noexcept {
  if (op.inputs >= 0 && inputs.size() != static_cast<std::size_t>(op.inputs))
    return false;
  if (inputs.empty())
    return true;
  const ArrayObject* const first = inputs[0].object();
  if (first == nullptr || first->buffer == nullptr)
    return false;
  for (const NDArray& input : inputs.subspan(1)) {
    const ArrayObject* const object = input.object();
    if (object == nullptr || object->buffer == nullptr || object->device != first->device ||
        object->buffer->maker() != first->buffer->maker())
      return false;
  }
  return true;
}

/// All of the first one's type, which is left in `dtype`, and shape. Of plain inputs; false where there are none.
inline bool are_alike(std::span<const NDArray> inputs, DType& dtype) noexcept {
  if (inputs.empty())
    return false;
  const ArrayObject& first = *inputs[0].object();
  dtype = first.dtype;
  for (const NDArray& input : inputs.subspan(1)) {
    const ArrayObject& object = *input.object();
    if (object.dtype != first.dtype || !(object.shape == first.shape))
      return false;
  }
  return true;
}

/// Throws AutogradError where writing in place would make gradients wrong: `array` is a variable, or other arrays
/// see its memory while it is, or becomes, part of the tape. `recorded`: the call goes on the tape.
void check_in_place(const char* op, const NDArray& array, bool recorded);

/// Throws ValueError for memory that is only read: before anything counts as written, which a push that refuses would
/// come too late for.
void check_not_frozen(const char* op, const ArrayObject& object);

/// The same, and ValueError if `array` names an element of its memory twice.
void check_writable(const char* op, const NDArray& array);

/// Throws ShapeError, DTypeError: `destination` cannot take a result of `spec`.
void check_takes(const char* op, const NDArray& destination, const ArraySpec& spec);

/// Might the two arrays share bytes?
bool overlaps(const NDArray& a, const NDArray& b) noexcept;

/// May the kernel of `op` write its `result`-th result over its `input`-th input, of the same geometry? Elementwise
/// ones may, and a loss its gradient over the logits: they are as large as results of a network get, and nobody wants
/// them behind it. Its other results may be as large as the logits too, but are written while those are still read.
/// Batch norm's gradient goes over x or its head, and where a sum and a relu are in it also over what it alone has
/// read.
bool writes_over(const Operator& op, std::size_t input, std::size_t result) noexcept;

/// Can the kernel of `op`, which makes its results in `order`, write the `result`-th one to `destination` directly,
/// given what it reads?
bool is_direct(
    const Operator& op,
    std::size_t result,
    const NDArray& destination,
    const ArraySpec& spec,
    MemoryOrder order,
    std::span<const NDArray> inputs) noexcept;

/// Adds the Vars of the regions that `array` touches.
inline void add_access(AccessList& list, const ArrayObject& array, AccessMode mode) {
  const auto& regions = array.buffer->regions();
  if (regions.size() == 1) [[likely]]
    return list.push_back({regions.front().var.core(), mode});
  add_touched(list, array, mode);
}
inline void add_access(AccessList& list, const NDArray& array, AccessMode mode) {
  add_access(list, *array.object(), mode);
}
/// Throws ValueError for a temporary that index arrays or a mask have copied: nobody sees what is written to it, and
/// NumPy would write to the array. `instead` says what does.
void check_seen(std::string_view op, const NDArray& temporary, std::string_view instead, SourceLocation site);
/// How a task names an array that it writes: `out` where it overwrites everything, `write` where something is kept. The
/// engine makes a `write` of it where the task reads there too.
AccessMode write_mode(const NDArray& array) noexcept;

}  // namespace sluice::detail
