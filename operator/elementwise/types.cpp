#include <algorithm>
#include <limits>

#include <sluice/operator/elementwise/types.h>

namespace sluice::detail {

Scalar scalar_within(Scalar scalar, DType dtype) noexcept {
  if (scalar.kind() != Scalar::Kind::integer || !is_integer(dtype))
    return scalar;
  return by_any_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      constexpr auto k_least = static_cast<std::int64_t>(std::numeric_limits<T>::min());
      constexpr std::uint64_t k_most = std::numeric_limits<T>::max(), k_held = std::numeric_limits<std::int64_t>::max();
      return Scalar(std::clamp(scalar.as_int64(), k_least, static_cast<std::int64_t>(std::min(k_most, k_held))));
    } else {
      return scalar;
    }
  });
}

bool scalar_fits(Scalar scalar, DType dtype) noexcept {
  return scalar_within(scalar, dtype).as_int64() == scalar.as_int64();
}

DType operand_type_beside(const char* op, RowKind kind, DType array, Scalar scalar) {
  const DType dtype = operand_type(kind, scalar.beside(array));
  if (scalar_fits(scalar, dtype))
    return dtype;
  if (kind == RowKind::comparison)
    return dtype == DType::uint64 ? DType::float64 : DType::int64;  // beside a negative number its digits do not matter
  throw ValueError(message(op, ": the number ", scalar.as_int64(), " does not fit ", dtype));
}

Specs infer_elementwise(const char* op, RowKind kind, std::span<const ArraySpec> inputs) {
  Specs result;
  ArraySpec& spec = result.emplace_back(inputs[0]);
  for (const ArraySpec& input : inputs.subspan(1)) {
    require<DTypeError>(input.dtype == spec.dtype, [&] {
      return message(op, ": operands are ", spec.dtype, " and ", input.dtype, "; promote them first");
    });
    if (!(input.shape == spec.shape))
      spec.shape = broadcast_shape(spec.shape, input.shape, op);
  }
  require<DTypeError>(takes_type(kind, spec.dtype), [&] { return message(op, ": does not take ", spec.dtype); });
  if (gives_bool(kind))
    spec.dtype = DType::bool_;
  return result;
}

Specs infer_backward(const char* op, std::span<const ArraySpec> inputs) {
  const Specs specs = infer_elementwise(op, RowKind::arithmetic, inputs);
  require<DTypeError>(is_floating(specs[0].dtype), [&] { return message(op, ": does not take ", specs[0].dtype); });
  require<ShapeError>(specs[0].shape == inputs[0].shape, [&] {
    return message(op, ": gradient of shape ", inputs[0].shape, " does not fit operands of shape ", specs[0].shape);
  });
  return specs;
}

}  // namespace sluice::detail
