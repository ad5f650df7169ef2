#include <cmath>
#include <limits>

#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/elementwise/arrays.h>
#include <sluice/operator/elementwise/composed.h>
#include <sluice/operator/elementwise/families.h>
#include <sluice/operator/elementwise/number_parts.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/invoke.h>

namespace sluice {

namespace {

void check_inputs(const char* op, std::span<const NDArray> inputs) {
  for (const NDArray& input : inputs)
    require<ValueError>(input.defined(), [&] { return message(op, ": an operand is an undefined NDArray"); });
}

NDArray compose(const Operator& op, std::initializer_list<NDArray> inputs, Attributes attributes, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_inputs(op.name, inputs);
    return invoke_one(op, inputs, std::move(attributes), site);
  });
}

// What operands give that broadcast and are promoted, beside a number perhaps.
ArraySpec promoted(const Operator& op, std::span<const ArraySpec> inputs) {
  ArraySpec spec = inputs[0];
  for (const ArraySpec& input : inputs.subspan(1)) {
    spec.dtype = promote(spec.dtype, input.dtype);
    spec.shape = broadcast_shape(spec.shape, input.shape, op.name);
  }
  return spec;
}

DType arithmetic_type(DType dtype) {
  return detail::operand_type(RowKind::arithmetic, dtype);
}

// -- nan_to_num -----------------------------------------------------------------------------------------------------
struct FiniteAttributes {
  double nan = 0;
  std::optional<double> posinf = {};
  std::optional<double> neginf = {};

  template <class V>
  void visit(V&& v) {
    v.field("nan", nan);
    v.field("posinf", posinf);
    v.field("neginf", neginf);
  }
};

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 65504;
    case DType::bfloat16:
      return 0x1.fep127;
    case DType::float64:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

Specs infer_finite(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  return {inputs[0]};
}

Arrays finite_numbers(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<FiniteAttributes>();
  const NDArray& x = inputs[0];
  if (!is_floating(x.dtype()))
    return {x.copy(site)};
  const double largest = largest_of(x.dtype());
  NDArray y = clip(x, -largest, largest, site);
  if (a.posinf)
    y = where(isposinf(x, site), *a.posinf, y, site);
  if (a.neginf)
    y = where(isneginf(x, site), *a.neginf, y, site);
  return {where(isnan(x, site), a.nan, y, site)};
}

constexpr Operator k_nan_to_num{
    .name = "nan_to_num",
    .attributes = &attribute_type<FiniteAttributes>,
    .infer = infer_finite,
    .composition = finite_numbers,
};

// -- lerp: a, b, and weights as a third array or a number -------------------------------------------------------------
Specs infer_lerp(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const detail::NumberAttribute* const weight = detail::number_of(attributes);
  detail::check_operands(op.name, inputs.size(), 3, weight);
  ArraySpec spec = promoted(op, inputs);
  spec.dtype = arithmetic_type(weight == nullptr ? spec.dtype : weight->number.beside(spec.dtype));
  return {spec};
}

Arrays interpolated(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const detail::NumberAttribute* const weight = detail::number_of(attributes);
  detail::check_operands("lerp", inputs.size(), 3, weight);
  const NDArray &a = inputs[0], &b = inputs[1], way = subtract(b, a, site);
  const auto from = [&](const NDArray& end, const auto& part) { return add(end, multiply(way, part, site), site); };
  if (weight != nullptr) {
    const Scalar& part = weight->number;
    if (part.as_double() < 0.5)
      return {from(a, part)};
    return {from(b, part.kind() == Scalar::Kind::real ? Scalar(part.as_double() - 1) : Scalar(part.as_int64() - 1))};
  }
  const NDArray& part = inputs[2];
  return {where(less(part, 0.5, site), from(a, part), from(b, subtract(part, 1, site)), site)};
}

constexpr Operator k_lerp{
    .name = "lerp",
    .inputs = -1,
    .attributes = &attribute_type<detail::NumberAttribute>,
    .optional_attributes = true,
    .infer = infer_lerp,
    .composition = interpolated,
};

// -- addcmul --------------------------------------------------------------------------------------------------------
struct ValueAttributes {
  Scalar value = 1;

  template <class V>
  void visit(V&& v) {
    v.field("value", value);
  }
};

Specs infer_addcmul(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  ArraySpec spec = promoted(op, inputs);
  spec.dtype = arithmetic_type(attributes.as<ValueAttributes>().value.beside(spec.dtype));
  return {spec};
}

Arrays product_added(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Scalar value = attributes.as<ValueAttributes>().value;
  if (value.kind() != Scalar::Kind::real && value.as_int64() == 1)
    return {add(inputs[0], multiply(inputs[1], inputs[2], site), site)};
  DType type = inputs[0].dtype();
  for (const NDArray& input : inputs.subspan(1))
    type = promote(type, input.dtype());
  // Of half types the product of two need not fit though the value makes it small.
  const bool half = is_floating(type) && size_of(type) == 2;
  const auto wide = [&](const NDArray& x) { return half ? x.astype(float32, site) : x; };
  const NDArray product = multiply(multiply(wide(inputs[1]), wide(inputs[2]), site), value, site);
  const NDArray y = add(wide(inputs[0]), product, site);
  return {half ? y.astype(type, site) : y};
}

constexpr Operator k_addcmul{
    .name = "addcmul",
    .inputs = 3,
    .attributes = &attribute_type<ValueAttributes>,
    .infer = infer_addcmul,
    .composition = product_added,
};

// -- float_power ----------------------------------------------------------------------------------------------------
Specs infer_float_power(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  detail::check_operands(op.name, inputs.size(), 2, detail::number_of(attributes));
  ArraySpec spec = promoted(op, inputs);
  spec.dtype = detail::operand_type(RowKind::real, spec.dtype);
  return {spec};
}

Arrays real_power(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const detail::NumberAttribute* const beside = detail::number_of(attributes);
  detail::check_operands("float_power", inputs.size(), 2, beside);
  const auto real = [&](const NDArray& x) { return x.astype(detail::operand_type(RowKind::real, x.dtype()), site); };
  if (beside == nullptr)
    return {power(real(inputs[0]), real(inputs[1]), site)};
  return {beside->first ? power(beside->number, real(inputs[0]), site) : power(real(inputs[0]), beside->number, site)};
}

constexpr Operator k_float_power{
    .name = "float_power",
    .inputs = -1,
    .attributes = &attribute_type<detail::NumberAttribute>,
    .optional_attributes = true,
    .infer = infer_float_power,
    .composition = real_power,
};

// -- isclose --------------------------------------------------------------------------------------------------------
struct CloseAttributes : CloseOptions {
  template <class V>
  void visit(V&& v) {
    v.field("rtol", rtol);
    v.field("atol", atol);
    v.field("equal_nan", equal_nan);
  }
};

Specs infer_close(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  ArraySpec spec = promoted(op, inputs);
  spec.dtype = bool_;
  return {spec};
}

// Differences of integers need not fit, and those of half types lose what is compared.
Arrays close(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& how = attributes.as<CloseAttributes>();
  const auto wide = [&](const NDArray& x) {
    return x.astype(x.dtype() == float64 || is_integer(x.dtype()) ? float64 : float32, site);
  };
  const NDArray a = wide(inputs[0]), b = wide(inputs[1]);
  const NDArray distance = abs(subtract(a, b, site), site);
  const NDArray most = add(multiply(abs(b, site), how.rtol, site), how.atol, site);
  // An infinity is close to itself alone.
  const NDArray near = logical_and(less_equal(distance, most, site), isfinite(b, site), site);
  NDArray result = logical_or(near, equal(a, b, site), site);
  if (how.equal_nan)
    result = logical_or(result, logical_and(isnan(a, site), isnan(b, site), site), site);
  return {result};
}

constexpr Operator k_isclose{
    .name = "isclose",
    .inputs = 2,
    .attributes = &attribute_type<CloseAttributes>,
    .infer = infer_close,
    .composition = close,
};

}  // namespace

void detail::list_composed(std::vector<const Operator*>& all) {
  all.insert(all.end(), {&k_nan_to_num, &k_lerp, &k_addcmul, &k_float_power, &k_isclose});
  all.insert(all.end(), {&k_nextafter, &k_frexp, &k_modf, &k_divmod, &k_positive});
}

NDArray nan_to_num(
    const NDArray& x, double nan, std::optional<double> posinf, std::optional<double> neginf, SourceLocation site) {
  return compose(k_nan_to_num, {x}, Attributes::of(FiniteAttributes{nan, posinf, neginf}), site);
}

NDArray lerp(const NDArray& a, const NDArray& b, const NDArray& weight, SourceLocation site) {
  return compose(k_lerp, {a, b, weight}, {}, site);
}

NDArray lerp(const NDArray& a, const NDArray& b, double weight, SourceLocation site) {
  return compose(k_lerp, {a, b}, Attributes::of(detail::NumberAttribute{weight, false, true}), site);
}

NDArray addcmul(const NDArray& x, const NDArray& a, const NDArray& b, Scalar value, SourceLocation site) {
  return compose(k_addcmul, {x, a, b}, Attributes::of(ValueAttributes{value}), site);
}

NDArray float_power(const NDArray& a, const NDArray& b, SourceLocation site) {
  return compose(k_float_power, {a, b}, {}, site);
}

NDArray float_power(const NDArray& a, Scalar b, SourceLocation site) {
  return compose(k_float_power, {a}, Attributes::of(detail::NumberAttribute{b, false, true}), site);
}

NDArray float_power(Scalar a, const NDArray& b, SourceLocation site) {
  return compose(k_float_power, {b}, Attributes::of(detail::NumberAttribute{a, true, true}), site);
}

NDArray isclose(const NDArray& a, const NDArray& b, const CloseOptions& options, SourceLocation site) {
  return compose(k_isclose, {a, b}, Attributes::of(CloseAttributes{options}), site);
}

}  // namespace sluice
