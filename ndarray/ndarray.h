#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/ndarray/dtype.h>
#include <sluice/ndarray/scalar.h>
#include <sluice/ndarray/shape.h>
#include <sluice/ndarray/subscript.h>

namespace sluice {

class NDArray;
class Operand;
class NumberOperand;

namespace detail {
struct ArrayObject;  // ndarray/detail/array_object.h
SLUICE_API void retain(ArrayObject* array) noexcept;
SLUICE_API void release(ArrayObject* array) noexcept;
}  // namespace detail

/// What backward does with the gradient of a variable: write over, add to, or not compute it.
enum class GradReq : std::uint8_t { null, write, add };

/// How backward runs.
struct BackwardOptions {
  bool retain_graph = false;  // keep the tape for another backward
  bool create_graph = false;  // record the backward pass itself
  bool train_mode = true;
  /// Looks for NaN in each gradient, for which it waits: the first operation whose gradient has one is an AutogradError
  /// that says where it was recorded (PyTorch's anomaly mode). Not of programs that are being traced.
  bool find_nan = false;
};

// An operator that writes in place, of a variable of the program's and of a temporary.
#define SLUICE_IN_PLACE(symbol)                           \
  NDArray& operator symbol(const Operand& other)&;        \
  NDArray& operator symbol(const NumberOperand& number)&; \
  NDArray operator symbol(const Operand& other)&&;        \
  NDArray operator symbol(const NumberOperand& number)&&;

/// A shared handle on an n-dimensional array. Copies of the handle name the same array; views (reshape, slice,
/// transpose, broadcast_to) are new arrays on the same memory. Operations return at once; their work runs on the
/// engine in the order that reads and writes demand (an elementwise one of up to 1024 elements on a CPU, of which no
/// operand is pending, has run when it returns). Only item(), to_vector(), to_string(), printing and the
/// wait_* members block the host, and they rethrow what the work threw.
class SLUICE_API NDArray {
 public:
  /// Names no array: defined() is false, everything else throws ValueError.
  NDArray() = default;
  explicit NDArray(detail::ArrayObject* adopted) noexcept : object_(adopted) {}
  NDArray(const NDArray& other) noexcept : object_(other.object_) {
    if (object_ != nullptr)
      detail::retain(object_);
  }
  NDArray(NDArray&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  /// Rebinds the handle. On an lvalue only: `a.slice(..) = b` would rebind a temporary; write `assign` for values.
  NDArray& operator=(NDArray other) & noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~NDArray() {
    if (object_ != nullptr)
      detail::release(object_);
  }

  /// An array is no condition: this says whether there is one, item<bool>() what stands in it.
  bool defined() const noexcept { return object_ != nullptr; }
  /// True when both handles name the same array object.
  bool same(const NDArray& other) const noexcept { return object_ == other.object_; }

  const Shape& shape() const;
  /// In elements, not bytes.
  const Shape& strides() const;
  int ndim() const { return shape().ndim(); }
  std::int64_t size() const;
  DType dtype() const;
  Device device() const;
  Engine& engine() const;
  /// Row-major without gaps.
  bool is_contiguous() const;

  // -- Views: same memory, recorded on the tape -----------------------------------------------------------------
  /// One extent may be -1. A view where strides allow, otherwise a copy, as in NumPy.
  NDArray reshape(const Shape& shape, SourceLocation site = SourceLocation::current()) const;
  /// Axes reversed, or in the order given.
  NDArray transpose(const Shape& axes = {}, SourceLocation site = SourceLocation::current()) const;
  NDArray T(SourceLocation site = SourceLocation::current()) const { return transpose({}, site); }
  NDArray swapaxes(int a, int b, SourceLocation site = SourceLocation::current()) const;
  /// Elements begin, begin + step, ... < end along `axis`, or > end where step is negative; negative begin and end
  /// count from the back, out-of-range ones are clipped. x.slice(0, -1, INT64_MIN, -1) is x backwards: a view as well,
  /// of which kernels are given a copy. Throws ValueError for a step of 0.
  NDArray slice(
      int axis,
      std::int64_t begin,
      std::int64_t end,
      std::int64_t step = 1,
      SourceLocation site = SourceLocation::current()) const;
  /// Entries and ranges of several axes at once, a[{2, {}, {1, 5}}] for NumPy's a[2, :, 1:5] (ndarray/subscript.h).
  /// A view, but a copy where index arrays or masks are among them, as in NumPy: `a[{mask}] += 1`, whose sum nobody
  /// would see, is a ValueError, add_at() and assign() write here. Throws IndexError for more subscripts than axes and
  /// for an entry that there is not (at the wait, of index arrays), ValueError for a step of 0 and for a mask while a
  /// program is traced, DTypeError for index arrays of another type, ShapeError for masks and index arrays that do not
  /// fit, DeviceError.
  NDArray operator[](std::initializer_list<Subscript> at) const;
  /// The same of one: a[mask], a[indices], a[k_new_axis]; a[2] is entry 2 of the first axis, which disappears.
  NDArray operator[](const Subscript& at) const;
  NDArray expand_dims(int axis, SourceLocation site = SourceLocation::current()) const;
  /// Drops axis `axis`, which must be 1.
  NDArray squeeze(int axis, SourceLocation site = SourceLocation::current()) const;
  /// (n, rest): the first axis kept, the others joined (Gluon's Flatten).
  NDArray flatten(SourceLocation site = SourceLocation::current()) const;
  NDArray broadcast_to(const Shape& shape, SourceLocation site = SourceLocation::current()) const;

  // -- Copies: recorded on the tape -----------------------------------------------------------------------------
  /// This array if it has that type already.
  NDArray astype(DType dtype, SourceLocation site = SourceLocation::current()) const;
  /// This array if it lives there already.
  NDArray to(Device device, SourceLocation site = SourceLocation::current()) const;
  NDArray copy(SourceLocation site = SourceLocation::current()) const;
  /// This array if it is contiguous already.
  NDArray contiguous(SourceLocation site = SourceLocation::current()) const;

  // -- In place -------------------------------------------------------------------------------------------------
  /// Writes `value`, broadcast and cast, into this array; the other device's arrays are copied over. Throws
  /// ValueError for a view that names an element twice (broadcast_to).
  const NDArray& assign(const NDArray& value, SourceLocation site = SourceLocation::current()) const&;
  /// Throws ValueError for a number that an integer type does not hold.
  const NDArray& assign(Scalar value, SourceLocation site = SourceLocation::current()) const&;
  /// Of a temporary, as in a[0].assign(1), the same; ValueError where index arrays or a mask have copied it, for nobody
  /// would see what is written: a.assign({mask}, 1) writes to a.
  NDArray assign(const NDArray& value, SourceLocation site = SourceLocation::current()) &&;
  NDArray assign(Scalar value, SourceLocation site = SourceLocation::current()) &&;
  /// a[{..}].assign(value), recorded: gradients of the value and of what stays of this array follow. Index arrays and
  /// masks name what is written: of several values of one element the last one stays, and it alone gets a gradient.
  /// Throws as assign() and operator[] do.
  const NDArray& assign(
      std::initializer_list<Subscript> at, const NDArray& value, SourceLocation site = SourceLocation::current()) const;
  const NDArray& assign(
      std::initializer_list<Subscript> at, Scalar value, SourceLocation site = SourceLocation::current()) const;
  /// Adds values, broadcast and cast, to a[{..}], in place and recorded: an element that index arrays name several
  /// times gets the sum of its values, made in a fixed order (numpy.add.at). Throws as assign() and operator[] do.
  const NDArray& add_at(
      std::initializer_list<Subscript> at,
      const NDArray& values,
      SourceLocation site = SourceLocation::current()) const;
  /// Written to this array, or through a view to what it sees: a[0] += 1. Throws what the operator throws, DTypeError
  /// where the result is of a kind that this array does not hold, and of a temporary that index arrays or a mask have
  /// copied ValueError.
  SLUICE_IN_PLACE(+=)
  SLUICE_IN_PLACE(-=)
  SLUICE_IN_PLACE(*=)
  SLUICE_IN_PLACE(/=)
  SLUICE_IN_PLACE(&=)
  SLUICE_IN_PLACE(|=)
  SLUICE_IN_PLACE(^=)

  /// Cuts the memory of this array along `axis` into parts of equal extents, which tasks name one by one from then on:
  /// work on views of different parts (slice, split, a[{..}]) goes on side by side, what touches several waits for all
  /// of them. What was pushed before comes before. One part makes the memory one again. The array is all of its memory,
  /// row by row, and axes before `axis` are of extent 1. No other thread may use the array meanwhile; plans and regions
  /// that ran on it are to be made anew. Throws IndexError for a wrong axis, ValueError unless the extent divides
  /// evenly, and for other arrays.
  void partition(int axis, std::int64_t parts, SourceLocation site = SourceLocation::current()) const;

  // -- Reading values: the host waits ---------------------------------------------------------------------------
  /// The one element of an array of size 1, as T. Throws ShapeError for another size.
  template <class T>
  T item(SourceLocation site = SourceLocation::current()) const {
    T value;
    read_for("item", &value, dtype_of<T>, 1, site);
    return value;
  }
  /// All elements in row-major order, as T.
  template <class T>
  std::vector<T> to_vector(SourceLocation site = SourceLocation::current()) const;
  /// Copies all elements, cast to `dtype`, in row-major order to host memory. Throws ShapeError unless size() == n.
  void read_out(void* to, DType dtype, std::int64_t n, SourceLocation site = SourceLocation::current()) const {
    read_for("read_out", to, dtype, n, site);
  }
  void wait_to_read() const;
  void wait_to_write() const;
  /// As NumPy prints an array.
  std::string to_string() const;

  // -- Autograd -------------------------------------------------------------------------------------------------
  /// Makes this array a variable: recorded operations on it compute its gradient. Zeroes the gradient.
  void attach_grad(GradReq req = GradReq::write, SourceLocation site = SourceLocation::current());
  /// The gradient of a variable; undefined where there is none.
  NDArray grad() const;
  void zero_grad() const;
  bool requires_grad() const noexcept;
  /// Same memory, off the tape.
  NDArray detach() const;
  /// Gradients of this array (weighted by `head`; ones by default) with respect to all variables it was computed
  /// from. Throws AutogradError if nothing was recorded.
  void backward(SourceLocation site = SourceLocation::current()) const;
  void backward(
      const NDArray& head, const BackwardOptions& options = {}, SourceLocation site = SourceLocation::current()) const;

  detail::ArrayObject* object() const noexcept { return object_; }

 private:
  // For the member of that name, which errors name.
  void read_for(const char* member, void* to, DType dtype, std::int64_t n, SourceLocation site) const;
  void read_elements(void* to, DType dtype, std::int64_t n) const;
  std::int64_t size_for(const char* member, SourceLocation site) const;

  detail::ArrayObject* object_ = nullptr;
};

#undef SLUICE_IN_PLACE

template <>
std::vector<bool> NDArray::to_vector<bool>(SourceLocation site) const;
template <class T>
std::vector<T> NDArray::to_vector(SourceLocation site) const {
  const std::int64_t n = size_for("to_vector", site);
  std::vector<T> values(static_cast<std::size_t>(n));
  read_for("to_vector", values.data(), dtype_of<T>, n, site);
  return values;
}

SLUICE_API std::ostream& operator<<(std::ostream& out, const NDArray& array);

/// An operand of an overloaded operator: an array and the line where it stands, which becomes the task's push site.
class Operand {
 public:
  Operand(const NDArray& array, SourceLocation site = SourceLocation::current()) noexcept  // NOLINT
      : array_(&array), site_(site) {}
  const NDArray& array() const noexcept { return *array_; }
  SourceLocation site() const noexcept { return site_; }

 private:
  const NDArray* array_;
  SourceLocation site_;
};

/// The same of a number: `x += 2`.
class NumberOperand {
 public:
  template <std::convertible_to<Scalar> Number>
  constexpr NumberOperand(Number number, SourceLocation site = SourceLocation::current())  // NOLINT: converts by design
      : number_(number), site_(site) {}
  constexpr Scalar number() const noexcept { return number_; }
  constexpr SourceLocation site() const noexcept { return site_; }

 private:
  Scalar number_;
  SourceLocation site_;
};

}  // namespace sluice
