#include <algorithm>
#include <ostream>
#include <sstream>

#include <sluice/ndarray/detail/strides.h>
#include <sluice/ndarray/shape.h>

namespace sluice {
namespace {

void check_ndim(std::size_t ndim) {
  require<ShapeError>(
      ndim <= k_max_ndim, [&] { return message("Shape: ", ndim, " axes; at most ", k_max_ndim, " are possible"); });
}

[[noreturn]] void throw_no_broadcast(const char* op, const Shape& a, const Shape& b) {
  throw ShapeError(message(op, ": shapes ", a, " and ", b, " do not broadcast"));
}

}  // namespace

Shape::Shape(std::span<const std::int64_t> dims) {
  check_ndim(dims.size());
  std::copy(dims.begin(), dims.end(), dims_);
  ndim_ = static_cast<int>(dims.size());
}

Shape Shape::filled(int ndim, std::int64_t value) {
  check_ndim(static_cast<std::size_t>(ndim < 0 ? k_max_ndim + 1 : ndim));
  Shape shape;
  shape.ndim_ = ndim;
  std::fill_n(shape.dims_, ndim, value);
  return shape;
}

// The product left int64 on the way: an extent of 0 may still follow.
std::int64_t Shape::size_of_many() const {
  if (std::find(begin(), end(), 0) != end())
    return 0;
  std::int64_t product = 1;
  for (std::int64_t dim : *this) {
    require<ShapeError>(!__builtin_mul_overflow(product, dim, &product), [&] {
      return message("Shape: ", *this, " has more elements than int64 counts");
    });
  }
  return product;
}

std::int64_t Shape::at(int axis) const {
  require<IndexError>(
      axis >= -ndim_ && axis < ndim_, [&] { return message("Shape: there is no entry ", axis, " in ", *this); });
  return dims_[axis < 0 ? axis + ndim_ : axis];
}

void Shape::push_back(std::int64_t dim) {
  check_ndim(static_cast<std::size_t>(ndim_) + 1);
  dims_[ndim_++] = dim;
}

void Shape::insert(int axis, std::int64_t dim) {
  check_ndim(static_cast<std::size_t>(ndim_) + 1);
  std::copy_backward(dims_ + axis, dims_ + ndim_, dims_ + ndim_ + 1);
  dims_[axis] = dim;
  ++ndim_;
}

void Shape::erase(int axis) noexcept {
  std::copy(dims_ + axis + 1, dims_ + ndim_, dims_ + axis);
  --ndim_;
  dims_[ndim_] = 0;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << to_string(shape);
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (int axis = 0; axis < shape.ndim(); ++axis)
    text += (axis > 0 ? ", " : "") + std::to_string(shape[axis]);
  return text + (shape.ndim() == 1 ? ",)" : ")");
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  detail::become_strides(strides);
  return strides;
}

Shape broadcast_shape(const Shape& a, const Shape& b, const char* op) {
  const Shape& longer = a.ndim() >= b.ndim() ? a : b;
  const Shape& shorter = a.ndim() >= b.ndim() ? b : a;
  const int ahead = longer.ndim() - shorter.ndim();
  Shape result = longer;
  for (int axis = 0; axis < shorter.ndim(); ++axis) {
    std::int64_t& extent = result[ahead + axis];
    if (extent == shorter[axis] || shorter[axis] == 1)
      continue;
    if (extent != 1)
      throw_no_broadcast(op, a, b);
    extent = shorter[axis];
  }
  return result;
}

Shape broadcast_strides(const Shape& shape, const Shape& strides, const Shape& target, const char* op) {
  const int ahead = target.ndim() - shape.ndim();
  if (ahead < 0)
    throw_no_broadcast(op, shape, target);
  Shape result = Shape::filled(target.ndim(), 0);
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    if (shape[axis] == target[ahead + axis]) {
      result[ahead + axis] = strides[axis];
    } else if (shape[axis] != 1) {
      throw_no_broadcast(op, shape, target);
    }
  }
  return result;
}

int normal_axis(std::int64_t axis, int ndim, const char* op) {
  require<IndexError>(axis >= -ndim && axis < ndim, [&] {
    return message(op, ": axis ", axis, " is outside an array of ", ndim, " axes");
  });
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

}  // namespace sluice
