#include <sluice/operator/elementwise/run.h>

namespace sluice::detail {

std::uint64_t constant_bits(Scalar scalar, DType dtype) noexcept {
  return by_dtype(dtype, [&]<class T>() {
    using C = math::Compute<T>;
    C value;
    if constexpr (std::is_same_v<C, bool>) {
      value = scalar.as_double() != 0;
    } else if constexpr (std::is_floating_point_v<C>) {
      value = static_cast<C>(scalar.as_double());
    } else {
      value = static_cast<C>(scalar.as_int64());
    }
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(value));
    return bits;
  });
}

void refuse_operands(const char* op, std::size_t inputs, std::size_t operands, bool beside_number) {
  const std::size_t wanted = operands - (beside_number ? 1 : 0);
  throw ValueError(message(
      op,
      ": takes ",
      wanted,
      wanted == 1 ? " input" : " inputs",
      beside_number ? " beside a number" : "",
      ", was given ",
      inputs));
}

void refuse_type(const char* op, DType dtype) {
  throw DTypeError(message(op, ": does not take ", dtype));
}

std::array<PointwiseOperand, 2> operands_beside(std::span<const TensorView> inputs, const NumberAttribute& beside) {
  if (beside.first)
    return {beside.number, inputs[0]};
  return {inputs[0], beside.number};
}

void run_beside_number(const KernelCall& call, const NumberAttribute& beside, PointwiseLoop loop) {
  run_on_cpu<3>(call.op.name, call.outputs[0], operands_beside(call.inputs, beside), loop, call.inputs[0].dtype);
}

}  // namespace sluice::detail
