// Numbers taken to pieces, and quotients with what they leave: nextafter, frexp, modf, divmod, positive.
#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/elementwise/composed.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/elementwise/number_parts.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/view/arranged.h>

namespace sluice {

namespace detail {

void nextafter_cpu(const KernelCall& call) {
  const TensorView& to = call.outputs[0];
  by_number_bits(to.dtype, [&]<class U>() {
    const NumberLayout<U> of(to.dtype);
    const U *a = call.inputs[0].as<const U>(), *b = call.inputs[1].as<const U>();
    U* const y = to.as<U>();
    parallel_for(to.size, 1 << 14, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        y[i] = of.next(a[i], b[i]);
    });
  });
}

void frexp_cpu(const KernelCall& call) {
  const TensorView& to = call.outputs[0];
  by_number_bits(to.dtype, [&]<class U>() {
    const NumberLayout<U> of(to.dtype);
    const U* const x = call.inputs[0].as<const U>();
    U* const mantissas = to.as<U>();
    auto* const exponents = call.outputs[1].as<std::int32_t>();
    parallel_for(to.size, 1 << 14, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        mantissas[i] = of.split(x[i], exponents[i]);
    });
  });
}

}  // namespace detail

namespace {

DType real_type(DType dtype) {
  return detail::operand_type(RowKind::real, dtype);
}

// Of one floating type.
bool normalise_real(const RawCall& call, NormalCall& normal) {
  return detail::cast_inputs(call, real_type(call.inputs[0].dtype()), normal);
}

// -- nextafter --------------------------------------------------------------------------------------------------------
// Of one floating type and one shape.
bool normalise_pair(const RawCall& call, NormalCall& normal) {
  const DType dtype = real_type(promote(call.inputs[0].dtype(), call.inputs[1].dtype()));
  const bool is_cast = detail::cast_inputs(call, dtype, normal);
  if (detail::object_of(call.inputs[0], call.op.name).shape == detail::object_of(call.inputs[1], call.op.name).shape)
    return is_cast;
  if (!is_cast)
    detail::as_given(call, normal);
  const std::vector<NDArray> alike = broadcast_arrays(normal.inputs, call.site);
  normal.inputs.assign(alike.begin(), alike.end());
  return true;
}

Specs infer_pair(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  ArraySpec y = inputs[0];
  y.shape = broadcast_shape(y.shape, inputs[1].shape, op.name);
  return {y};
}

// -- frexp ------------------------------------------------------------------------------------------------------------
Specs infer_frexp(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  ArraySpec exponents = inputs[0];
  exponents.dtype = int32;
  return {inputs[0], exponents};
}

// The mantissa is x times a power of 2, as far as x does not leave it.
Arrays frexp_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  return {dy.defined() ? ldexp(dy, negative(call.outputs[1].astype(dy.dtype()))) : NDArray()};
}

// -- modf -------------------------------------------------------------------------------------------------------------
Specs infer_modf(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  return {inputs[0], inputs[0]};
}

// An infinity leaves nothing.
Arrays parts_of_number(std::span<const NDArray> inputs, const Attributes&, SourceLocation site) {
  const NDArray& x = inputs[0];
  const NDArray is_infinite = isinf(x, site), rest = fmod(where(is_infinite, 0, x, site), 1, site);
  return {where(is_infinite, copysign(0, x.detach(), site), rest, site), trunc(x, site)};
}

// -- divmod -----------------------------------------------------------------------------------------------------------
// The quotient, which the remainder has the shape and type of.
Specs infer_divmod(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const detail::NumberAttribute* const beside = detail::number_of(attributes);
  detail::check_operands(op.name, inputs.size(), 2, beside);
  ArraySpec y = inputs[0];
  if (beside != nullptr) {
    y.dtype = beside->number.beside(y.dtype);
  } else {
    y.shape = broadcast_shape(y.shape, inputs[1].shape, op.name);
    y.dtype = promote(y.dtype, inputs[1].dtype);
  }
  y.dtype = detail::operand_type(RowKind::arithmetic, y.dtype);
  return {y, y};
}

Arrays quotient_and_rest(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const detail::NumberAttribute* const beside = detail::number_of(attributes);
  detail::check_operands("divmod", inputs.size(), 2, beside);
  const NDArray& x = inputs[0];
  if (beside == nullptr)
    return {floor_divide(x, inputs[1], site), mod(x, inputs[1], site)};
  const Scalar& number = beside->number;
  if (beside->first)
    return {floor_divide(number, x, site), mod(number, x, site)};
  return {floor_divide(x, number, site), mod(x, number, site)};
}

// -- positive ---------------------------------------------------------------------------------------------------------
Specs infer_positive(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  ArraySpec y = inputs[0];
  y.dtype = detail::operand_type(RowKind::arithmetic, y.dtype);
  return {y};
}

Arrays same_number(std::span<const NDArray> inputs, const Attributes&, SourceLocation site) {
  const DType dtype = detail::operand_type(RowKind::arithmetic, inputs[0].dtype());
  return {dtype == inputs[0].dtype() ? inputs[0].copy(site) : inputs[0].astype(dtype, site)};
}

std::pair<NDArray, NDArray> two(
    const Operator& op, std::initializer_list<NDArray> inputs, Attributes attributes, SourceLocation site) {
  return detail::located(site, [&]() -> std::pair<NDArray, NDArray> {
    for (const NDArray& input : inputs)
      detail::object_of(input, op.name);
    const Arrays made = invoke(op, std::span(inputs.begin(), inputs.size()), std::move(attributes), site);
    return {made[0], made[1]};
  });
}

}  // namespace

namespace detail {

constinit const Operator k_nextafter{
    .name = "nextafter",
    .inputs = 2,
    .normalise = normalise_pair,
    .infer = infer_pair,
    .kernels = {on_cpu(nextafter_cpu), on_gpu(SLUICE_GPU_KERNEL(nextafter_gpu))},
    .prompt = true,
};
constinit const Operator k_frexp{
    .name = "frexp",
    .outputs = 2,
    .normalise = normalise_real,
    .infer = infer_frexp,
    .kernels = {on_cpu(frexp_cpu), on_gpu(SLUICE_GPU_KERNEL(frexp_gpu))},
    .gradient = frexp_gradient,
    .saved_outputs = 0b10,
    .prompt = true,
};
constinit const Operator k_modf{
    .name = "modf",
    .outputs = 2,
    .normalise = normalise_real,
    .infer = infer_modf,
    .composition = parts_of_number,
};
constinit const Operator k_divmod{
    .name = "divmod",
    .inputs = -1,
    .outputs = 2,
    .attributes = &attribute_type<NumberAttribute>,
    .optional_attributes = true,
    .infer = infer_divmod,
    .composition = quotient_and_rest,
};
constinit const Operator k_positive{
    .name = "positive",
    .infer = infer_positive,
    .composition = same_number,
};

}  // namespace detail

NDArray nextafter(const NDArray& a, const NDArray& b, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(a, "nextafter");
    detail::object_of(b, "nextafter");
    return invoke_one(detail::k_nextafter, {a, b}, {}, site);
  });
}

MantissaAndExponent frexp(const NDArray& x, SourceLocation site) {
  const auto [mantissa, exponent] = two(detail::k_frexp, {x}, {}, site);
  return {mantissa, exponent};
}

FractionAndWhole modf(const NDArray& x, SourceLocation site) {
  const auto [fraction, whole] = two(detail::k_modf, {x}, {}, site);
  return {fraction, whole};
}

QuotientAndRest divmod(const NDArray& a, const NDArray& b, SourceLocation site) {
  const auto [quotient, rest] = two(detail::k_divmod, {a, b}, {}, site);
  return {quotient, rest};
}

QuotientAndRest divmod(const NDArray& a, Scalar b, SourceLocation site) {
  const auto [quotient, rest] =
      two(detail::k_divmod, {a}, Attributes::of(detail::NumberAttribute{b, false, true}), site);
  return {quotient, rest};
}

QuotientAndRest divmod(Scalar a, const NDArray& b, SourceLocation site) {
  const auto [quotient, rest] =
      two(detail::k_divmod, {b}, Attributes::of(detail::NumberAttribute{a, true, true}), site);
  return {quotient, rest};
}

NDArray positive(const NDArray& x, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, "positive");
    return invoke_one(detail::k_positive, {x}, {}, site);
  });
}

}  // namespace sluice
