#pragma once

// From a KernelCall to one elementwise run on the device of its task.
#include <sluice/ndarray/scalar.h>
#include <sluice/operator/elementwise/loop.h>
#include <sluice/operator/elementwise/pointwise.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// A number that stands for an operand of an elementwise operator.
struct NumberAttribute {
  Scalar number = 0;

  template <class V>
  void visit(V&& v) {
    v.field("number", number);
  }
};

/// An operand that is read: an array, or a number in its place.
struct PointwiseOperand {
  const TensorView* view = nullptr;
  Scalar scalar = 0;

  PointwiseOperand(const TensorView& array) : view(&array) {}  // NOLINT: by design
  PointwiseOperand(Scalar number) : scalar(number) {}          // NOLINT: by design
};

/// The bits of `scalar` in the compute type of `dtype`.
std::uint64_t constant_bits(Scalar scalar, DType dtype) noexcept;

/// `dtype`: the type that numbers among the operands take.
template <int K>
PointwiseArgs<K> pointwise_args(
    const char* op, const TensorView& out, const std::array<PointwiseOperand, K - 1>& operands, DType dtype) {
  PointwiseArgs<K> args;
  std::array<Shape, K> strides;
  std::array<const Shape*, K> all{};
  strides[0] = out.strides;
  args.data[0] = out.as<std::byte>();
  args.dtypes[0] = out.dtype;
  for (int k = 1; k < K; ++k) {
    const PointwiseOperand& operand = operands[static_cast<std::size_t>(k) - 1];
    args.is_constant[k] = operand.view == nullptr;
    if (operand.view == nullptr) {
      strides[k] = Shape::filled(out.shape.ndim(), 0);
      args.dtypes[k] = dtype;
      args.constants[k] = constant_bits(operand.scalar, dtype);
    } else {
      strides[k] = broadcast_strides(operand.view->shape, operand.view->strides, out.shape, op);
      args.data[k] = operand.view->as<std::byte>();
      args.dtypes[k] = operand.view->dtype;
    }
  }
  for (int k = 0; k < K; ++k)
    all[k] = &strides[k];
  args.plan = plan_strided<K>(out.shape, all, AxisOrder::free);
  return args;
}

/// Elements that are worth a thread of their own.
inline constexpr std::int64_t k_pointwise_grain = 8192;

/// Throws DTypeError for a row that does not take the type.
void check_found(bool found, const char* op, DType dtype);

template <int K>
void run_on_cpu(const char* op, const PointwiseArgs<K>& args, PointwiseLoop loop, DType dtype) {
  check_found(loop != nullptr, op, dtype);
  run_loop<K>(args, loop, k_pointwise_grain);
}

template <int K>
void run_on_gpu(
    const char* op, const PointwiseArgs<K>& args, PointwiseLaunch<K> launch, DType dtype, const Queue& queue) {
  check_found(launch != nullptr, op, dtype);
  launch(args, queue.stream());
}

}  // namespace sluice::detail
