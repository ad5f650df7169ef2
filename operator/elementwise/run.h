#pragma once

// From a KernelCall to one elementwise run on the device of its task.
#include <optional>

#include <sluice/ndarray/scalar.h>
#include <sluice/operator/elementwise/loop.h>
#include <sluice/operator/elementwise/pointwise.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// A number that stands for an operand of an elementwise operator, the first one or else the last: the call then has an
/// input less. By name `number` is none, or absent, where all operands are arrays.
struct NumberAttribute {
  Scalar number = 0;
  bool first = false;
  bool present = false;

  template <class V>
  void visit(V&& v) {
    std::optional<Scalar> given = present ? std::optional(number) : std::nullopt;
    v.field("number", given);
    present = given.has_value();
    number = given.value_or(0);
    v.field("first", first);
  }
};

/// Null where all operands are arrays. Calls of arrays come without attributes, or with some that say so.
inline const NumberAttribute* number_of(const Attributes& attributes) noexcept {
  if (attributes.empty()) [[likely]]
    return nullptr;
  const auto& beside = attributes.as<NumberAttribute>();
  return beside.present ? &beside : nullptr;
}

[[noreturn]] void refuse_operands(const char* op, std::size_t inputs, std::size_t operands, bool beside_number);

/// Throws ValueError unless `inputs` arrays, and the number beside them if there is one, are `operands` operands.
inline void check_operands(const char* op, std::size_t inputs, std::size_t operands, const NumberAttribute* number) {
  if (inputs != operands - (number == nullptr ? 0 : 1)) [[unlikely]]
    refuse_operands(op, inputs, operands, number != nullptr);
}

/// An operand that is read: an array, or a number in its place.
struct PointwiseOperand {
  const TensorView* view = nullptr;
  Scalar scalar = 0;

  PointwiseOperand(const TensorView& array) : view(&array) {}  // NOLINT: by design
  PointwiseOperand(Scalar number) : scalar(number) {}          // NOLINT: by design
};

/// The bits of `scalar` in the compute type of `dtype`.
std::uint64_t constant_bits(Scalar scalar, DType dtype) noexcept;

/// The plan of operands of which some are strided or broadcast.
template <int K>
StridedPlan<K> pointwise_plan(
    const char* op, const TensorView& out, const std::array<PointwiseOperand, K - 1>& operands) {
  std::array<Shape, K> stretched;
  std::array<const Shape*, K> strides{&out.strides};
  for (int k = 1; k < K; ++k) {
    const TensorView* const view = operands[static_cast<std::size_t>(k) - 1].view;
    strides[k] = &stretched[k];
    if (view == nullptr)
      stretched[k] = Shape::filled(out.shape.ndim(), 0);
    else if (view->shape == out.shape)
      strides[k] = &view->strides;
    else
      stretched[k] = broadcast_strides(view->shape, view->strides, out.shape, op);
  }
  return plan_strided<K>(out.shape, strides, AxisOrder::free);
}

/// `dtype`: the type that numbers among the operands take.
template <int K>
PointwiseArgs<K> pointwise_args(
    const char* op, const TensorView& out, const std::array<PointwiseOperand, K - 1>& operands, DType dtype) {
  PointwiseArgs<K> args;
  args.data[0] = out.as<std::byte>();
  args.dtypes[0] = out.dtype;
  bool one_run = out.contiguous;
  for (int k = 1; k < K; ++k) {
    const PointwiseOperand& operand = operands[static_cast<std::size_t>(k) - 1];
    args.is_constant[k] = operand.view == nullptr;
    if (operand.view == nullptr) {
      args.dtypes[k] = dtype;
      args.constants[k] = constant_bits(operand.scalar, dtype);
    } else {
      args.data[k] = operand.view->as<std::byte>();
      args.dtypes[k] = operand.view->dtype;
      one_run = one_run && operand.view->contiguous && operand.view->shape == out.shape;
    }
  }
  if (!one_run) {
    args.plan = pointwise_plan<K>(op, out, operands);
    return args;
  }
  args.plan.extents[0] = args.plan.size = out.size;
  for (int k = 0; k < K; ++k)
    args.plan.strides[k][0] = args.is_constant[k] ? 0 : 1;
  return args;
}

/// Elements that are worth a thread of their own.
inline constexpr std::int64_t k_pointwise_grain = 8192;

[[noreturn]] void refuse_type(const char* op, DType dtype);
/// Throws DTypeError for a row that does not take the type.
inline void check_found(bool found, const char* op, DType dtype) {
  if (!found) [[unlikely]]
    refuse_type(op, dtype);
}

template <int K>
void run_on_cpu(const char* op, const PointwiseArgs<K>& args, PointwiseLoop loop, DType dtype) {
  check_found(loop != nullptr, op, dtype);
  run_loop<K>(args, loop, k_pointwise_grain);
}

/// The same from operands. Neighbours of the loop's own types, few enough for one thread, need no plan.
template <int K>
void run_on_cpu(
    const char* op,
    const TensorView& out,
    const std::array<PointwiseOperand, K - 1>& operands,
    PointwiseLoop loop,
    DType dtype) {
  check_found(loop != nullptr, op, dtype);
  const auto is_plain = [&](const TensorView& view) { return view.contiguous && !is_half(view.dtype); };
  bool plain = is_plain(out) && out.size <= k_pointwise_grain;
  const void* in[K - 1];
  for (std::size_t k = 0; k < K - 1; ++k) {
    const TensorView* const view = operands[k].view;
    plain = plain && view != nullptr && is_plain(*view) && view->shape == out.shape;
    in[k] = plain ? view->data : nullptr;
  }
  if (plain) [[likely]]
    return loop(out.data, in, out.size, false);
  run_loop<K>(pointwise_args<K>(op, out, operands, dtype), loop, k_pointwise_grain);
}

/// The one array of a call and the number beside it, in their order.
std::array<PointwiseOperand, 2> operands_beside(std::span<const TensorView> inputs, const NumberAttribute& beside);
/// The loop of two operands, of which one is a number.
void run_beside_number(const KernelCall& call, const NumberAttribute& beside, PointwiseLoop loop);

template <int K>
void run_on_gpu(
    const char* op, const PointwiseArgs<K>& args, PointwiseLaunch<K> launch, DType dtype, const Queue& queue) {
  check_found(launch != nullptr, op, dtype);
  launch(args, queue.stream());
}

}  // namespace sluice::detail
