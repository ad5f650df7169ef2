#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/matmul/activation_bias.h>
#include <sluice/operator/matmul/matmul.h>

namespace sluice::detail {

namespace {

Specs infer_activation_bias(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const ArraySpec &dy = inputs[0], &x = inputs[1];
  check_floating(op.name, x);
  require<DTypeError>(
      dy.dtype == x.dtype, [&] { return message(op.name, ": a gradient of ", dy.dtype, " for x of ", x.dtype); });
  require<ShapeError>(x.shape.ndim() > 0 && dy.shape == x.shape, [&] {
    return message(op.name, ": a gradient of shape ", dy.shape, " for x of shape ", x.shape, ", not (..., units)");
  });
  return {x, {{x.shape[x.shape.ndim() - 1]}, x.dtype, x.device}};
}

template <Unary row>
constexpr Operator activation_bias(const char* name) {
  return {
      .name = name,
      .inputs = 2,
      .outputs = 2,
      .infer = infer_activation_bias,
      .kernels = {on_cpu(activation_bias_cpu<row>), on_gpu(SLUICE_GPU_KERNEL(activation_bias_gpu<row>))},
  };
}

}  // namespace

const Operator gelu_backward_bias_op = activation_bias<Unary::gelu>("gelu_backward_bias");
const Operator gelu_tanh_backward_bias_op = activation_bias<Unary::gelu_tanh>("gelu_tanh_backward_bias");
const Operator silu_backward_bias_op = activation_bias<Unary::silu>("silu_backward_bias");

namespace {

constexpr std::pair<Unary, const Operator*> k_with_bias_sum[] = {
    {Unary::gelu, &gelu_backward_bias_op},
    {Unary::gelu_tanh, &gelu_tanh_backward_bias_op},
    {Unary::silu, &silu_backward_bias_op}};

}  // namespace

const Operator* with_bias_sum(const Operator* activation_backward) noexcept {
  for (const auto& [row, op] : k_with_bias_sum) {
    if (unary_backward_operator(row) == activation_backward)
      return op;
  }
  return nullptr;
}

bool gives_bias_sum(const Operator* op) noexcept {
  return std::any_of(
      std::begin(k_with_bias_sum), std::end(k_with_bias_sum), [op](const auto& each) { return each.second == op; });
}

void activation_bias_in_two(Unary row, const KernelCall& call) {
  static const Attributes none;
  const TensorView &dy = call.inputs[0], &x = call.inputs[1], &dx = call.outputs[0];
  const DeviceKind kind = call.queue.device().kind;
  const std::array<TensorView, 3> inputs{dy, x, dy};  // y, which none of these gradients reads
  const Operator& activation = *unary_backward_operator(row);
  activation.kernels[kind]({activation, call.queue, inputs, call.outputs.first(1), none});
  const std::int64_t units = call.outputs[1].size;
  const Shape flat{units == 0 ? 0 : dx.size / units, units};
  const TensorView rows{
      .data = dx.data, .shape = flat, .strides = contiguous_strides(flat), .size = dx.size, .dtype = dx.dtype};
  dense_backward_bias_op.kernels[kind]({dense_backward_bias_op, call.queue, {&rows, 1}, call.outputs.last(1), none});
}

}  // namespace sluice::detail
