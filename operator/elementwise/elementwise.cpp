// The list of the family, writing in place, and the gradient of broadcasting.
#include <string>
#include <string_view>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/elementwise/families.h>
#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice {

namespace detail {

OperatorList elementwise_operators() noexcept {
  static const auto* const all = [] {
    auto* made = new std::vector<const Operator*>;
    list_unary(*made);
    list_binary(*made);
    list_where(*made);
    list_composed(*made);
    return made;
  }();
  return *all;
}

namespace {

// The operator runs in the type of the operands; invoke() casts the result back, or refuses to.
void write_in_place(const Operator& op, const NDArray& into, const NDArray& other, SourceLocation site) {
  located(site, [&] {
    require<ValueError>(into.defined() && other.defined(), [&] {
      return message(op.name, " in place: an operand is an undefined NDArray");
    });
    const NDArray inputs[] = {into, other};
    invoke(op, inputs, {}, site, std::span(&into, 1));
  });
}

void write_in_place(const Operator& op, const NDArray& into, Scalar number, SourceLocation site) {
  located(site, [&] {
    require<ValueError>(
        into.defined(), [&] { return message(op.name, " in place: the operand is an undefined NDArray"); });
    invoke(op, {&into, 1}, Attributes::of(NumberAttribute{number, false, true}), site, std::span(&into, 1));
  });
}

void refuse_copy(std::string_view symbol, const NDArray& temporary, SourceLocation site) {
  if (!temporary.defined() || !temporary.object()->is_indexed) [[likely]]
    return;
  const std::string_view without_assignment = symbol.substr(0, symbol.size() - 1);
  const std::string instead =
      message("a.assign({..}, a[{..}] ", without_assignment, " value) writes to a, a.add_at({..}, values) adds to it");
  check_seen(message("operator", symbol), temporary, instead, site);
}

}  // namespace

NDArray add_gradients(const NDArray& a, const NDArray& b) {
  return add(a, b);
}

void accumulate_gradient(const NDArray& into, const NDArray& value) {
  const autograd::ModeScope unrecorded(false, autograd::is_training());
  write_in_place(binary_operator(Binary::add), into, value, SourceLocation::current());
}

}  // namespace detail

#define SLUICE_IN_PLACE(symbol, name)                                                                     \
  NDArray& NDArray::operator symbol(const Operand& other)& {                                              \
    detail::write_in_place(detail::binary_operator(Binary::name), *this, other.array(), other.site());    \
    return *this;                                                                                         \
  }                                                                                                       \
  NDArray& NDArray::operator symbol(const NumberOperand& number)& {                                       \
    detail::write_in_place(detail::binary_operator(Binary::name), *this, number.number(), number.site()); \
    return *this;                                                                                         \
  }                                                                                                       \
  NDArray NDArray::operator symbol(const Operand& other)&& {                                              \
    detail::refuse_copy(#symbol, *this, other.site());                                                    \
    return *this symbol other;                                                                            \
  }                                                                                                       \
  NDArray NDArray::operator symbol(const NumberOperand& number)&& {                                       \
    detail::refuse_copy(#symbol, *this, number.site());                                                   \
    return *this symbol number;                                                                           \
  }
SLUICE_IN_PLACE(+=, add)
SLUICE_IN_PLACE(-=, subtract)
SLUICE_IN_PLACE(*=, multiply)
SLUICE_IN_PLACE(/=, divide)
SLUICE_IN_PLACE(&=, bitwise_and)
SLUICE_IN_PLACE(|=, bitwise_or)
SLUICE_IN_PLACE(^=, bitwise_xor)
#undef SLUICE_IN_PLACE

NDArray sum_to_shape(const NDArray& array, const Shape& shape, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const Shape& from = detail::object_of(array, "sum_to_shape").shape;
    if (from == shape)
      return array;
    const int extra = from.ndim() - shape.ndim();
    require<ShapeError>(extra >= 0 && broadcast_shape(shape, from, "sum_to_shape") == from, [&] {
      return message("sum_to_shape: ", shape, " does not stretch to ", from);
    });
    Shape axes;
    for (int axis = 0; axis < from.ndim(); ++axis) {
      if (axis < extra || (shape[axis - extra] == 1 && from[axis] != 1))
        axes.push_back(axis);
    }
    // With no axis to add up (only leading extents of 1 to drop) sum() would take all of them.
    const NDArray added = axes.empty() ? array : sum(array, axes, true, site);
    return added.reshape(detail::with_open_rows(shape), site);
  });
}

}  // namespace sluice
