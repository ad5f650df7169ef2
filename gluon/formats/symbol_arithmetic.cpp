// MXNet's operators of two arrays, and of an array and a number.
#include <cmath>

#include <sluice/gluon/formats/symbol_node.h>
#include <sluice/operator/elementwise/elementwise.h>

namespace sluice::gluon::formats {

namespace {

using Inputs = std::span<const NDArray>;
using Attributes = SymbolAttributes;

template <NDArray (*F)(const NDArray&, const NDArray&, SourceLocation)>
Arrays both(const Attributes& /*a*/, Inputs x) {
  return {F(x[0], x[1], SourceLocation::current())};
}
bool is_whole(DType dtype) {
  return !is_floating(dtype) && dtype != bool_;
}
/// As C++ divides whole numbers: towards 0, all digits.
template <class A, class B>
NDArray whole_quotient(const A& a, const B& b) {
  return floor_divide(a - fmod(a, b), b);
}
/// Of whole numbers a whole one.
Arrays quotient(const Attributes& /*a*/, Inputs x) {
  if (is_whole(x[0].dtype()) && is_whole(x[1].dtype()))
    return {whole_quotient(x[0], x[1]).astype(x[0].dtype())};
  const NDArray found = divide(x[0], x[1]);
  const bool whole = !is_floating(x[0].dtype()) && !is_floating(x[1].dtype());
  return {whole ? found.astype(x[0].dtype()) : found};
}
/// Arrays of whole numbers stay that, quotients too, beside a number that is whole (is_int).
bool stays_whole(const Attributes& a, const NDArray& x) {
  return !is_floating(x.dtype()) && a.flag("is_int", true);
}
Scalar number_for(const Attributes& a, const NDArray& x) {
  const double number = a.number("scalar", 1);
  const bool whole = stays_whole(a, x) && std::abs(number) < 9e15;
  return whole ? Scalar(static_cast<std::int64_t>(number)) : Scalar(number);
}
NDArray typed_as(const Attributes& a, const NDArray& x, const NDArray& found) {
  return stays_whole(a, x) && found.dtype() != x.dtype() ? found.astype(x.dtype()) : found;
}
template <NDArray (*F)(const NDArray&, Scalar, SourceLocation)>
Arrays with_number(const Attributes& a, Inputs x) {
  return {typed_as(a, x[0], F(x[0], number_for(a, x[0]), SourceLocation::current()))};
}
template <NDArray (*F)(Scalar, const NDArray&, SourceLocation)>
Arrays number_with(const Attributes& a, Inputs x) {
  return {typed_as(a, x[0], F(number_for(a, x[0]), x[0], SourceLocation::current()))};
}

bool divides_whole(const NDArray& x, const Scalar& number) {
  return is_whole(x.dtype()) && number.kind() == Scalar::Kind::integer;
}
Arrays quotient_by_number(const Attributes& a, Inputs x) {
  const Scalar number = number_for(a, x[0]);
  if (divides_whole(x[0], number))
    return {whole_quotient(x[0], number).astype(x[0].dtype())};
  return {typed_as(a, x[0], divide(x[0], number))};
}
Arrays number_by(const Attributes& a, Inputs x) {
  const Scalar number = number_for(a, x[0]);
  if (divides_whole(x[0], number)) {
    const NDArray rest = fmod(number, x[0]);
    return {floor_divide(number - rest, x[0]).astype(x[0].dtype())};
  }
  return {typed_as(a, x[0], divide(number, x[0]))};
}

}  // namespace

void add_arithmetic(SymbolOperators& all) {
  const auto of_two = [&](std::initializer_list<std::string_view> names, decltype(SymbolOperator::call) call) {
    for (const std::string_view name : names)
      all[name] = {.call = call, .least_inputs = 2};
  };
  of_two({"elemwise_add", "broadcast_add", "broadcast_plus", "_plus", "_Plus", "_add"}, &both<add>);
  of_two({"elemwise_sub", "broadcast_sub", "broadcast_minus", "_minus", "_Minus", "_sub"}, &both<subtract>);
  of_two({"elemwise_mul", "broadcast_mul", "_mul", "_Mul"}, &both<multiply>);
  of_two({"elemwise_div", "broadcast_div", "_div", "_Div"}, &quotient);
  of_two({"broadcast_maximum"}, &both<maximum>);
  of_two({"broadcast_minimum"}, &both<minimum>);
  const auto of_number = [&](std::initializer_list<std::string_view> names, decltype(SymbolOperator::call) call) {
    for (const std::string_view name : names)
      all[name] = {.call = call, .attributes = {"scalar", "is_int"}};
  };
  of_number({"_plus_scalar", "_PlusScalar"}, &with_number<add>);
  of_number({"_minus_scalar", "_MinusScalar"}, &with_number<subtract>);
  of_number({"_mul_scalar", "_MulScalar"}, &with_number<multiply>);
  of_number({"_div_scalar", "_DivScalar"}, &quotient_by_number);
  of_number({"_power_scalar", "_PowerScalar"}, &with_number<power>);
  of_number({"_rminus_scalar", "_RMinusScalar"}, &number_with<subtract>);
  of_number({"_rdiv_scalar", "_RDivScalar"}, &number_by);
}

}  // namespace sluice::gluon::formats
