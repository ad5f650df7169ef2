#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/matmul/activation_bias.h>
#include <sluice/operator/matmul/dense_attributes.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/matmul/product.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/own_defaults.h>

namespace sluice {
namespace detail {
namespace {

Specs dense_infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(inputs.size() == 2 || inputs.size() == 3, [&] {
    return message("dense: takes x, weight and maybe a bias, was given ", inputs.size(), " inputs");
  });
  const ArraySpec& x = inputs[0];
  const ArraySpec& weight = inputs[1];
  check_floating("dense", x);
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    require<DTypeError>(inputs[i].dtype == x.dtype, [&] {  // inference alone: a call is promoted before
      return message("dense: x is ", x.dtype, ", ", i == 1 ? "weight" : "bias", " is ", inputs[i].dtype);
    });
  }
  require<ShapeError>(x.shape.ndim() > 0, [&] { return message("dense: x needs at least one axis"); });
  const bool flatten = attributes.as<DenseAttributes>().flatten;
  const std::int64_t first = x.shape[0];
  std::int64_t width = x.shape.back();
  if (flatten) {
    Shape rest = x.shape;
    rest.erase(0);
    width = rest.size();
  }
  require<ShapeError>(
      weight.shape.ndim() == 2, [&] { return message("dense: weight must be (units, in), not ", weight.shape); });
  require<ShapeError>(weight.shape[1] == width, [&] {
    return message(
        "dense: x of shape ",
        x.shape,
        flatten ? ", (N, ...), has " : ", (..., in), has ",
        width,
        flatten ? " features a sample; the weight of shape " : " features; the weight of shape ",
        weight.shape,
        ", (units, in), takes ",
        weight.shape[1]);
  });
  const std::int64_t units = weight.shape[0];
  require<ShapeError>(inputs.size() < 3 || inputs[2].shape == Shape{units}, [&] {
    return message(
        "dense: weight of shape ", weight.shape, " needs a bias of shape (", units, ",), not ", inputs[2].shape);
  });
  Shape shape = x.shape;
  if (flatten) {
    shape = {first, units};
  } else {
    shape[shape.ndim() - 1] = units;
  }
  return {{shape, x.dtype, x.device}};
}

Specs dense_backward_weights_infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& dy = inputs[0];
  const ArraySpec& x = inputs[1];
  check_floating("dense_backward_weights", x);
  require<DTypeError>(dy.dtype == x.dtype, [&] {
    return message("dense_backward_weights: gradient of ", dy.dtype, " for x of ", x.dtype);
  });
  require<ShapeError>(dy.shape.ndim() == 2 && x.shape.ndim() == 2 && dy.shape[0] == x.shape[0], [&] {
    return message("dense_backward_weights: gradient of shape ", dy.shape, " does not fit x of shape ", x.shape);
  });
  Specs specs{{{dy.shape[1], x.shape[1]}, x.dtype, x.device}};
  if (attributes.as<DenseWeightsAttributes>().bias)
    specs.push_back({{dy.shape[1]}, x.dtype, x.device});
  return specs;
}

Specs dense_backward_bias_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const ArraySpec& dy = inputs[0];
  check_floating(op.name, dy);
  require<ShapeError>(
      dy.shape.ndim() == 2, [&] { return message(op.name, ": gradient of shape ", dy.shape, ", not (rows, units)"); });
  return {{{dy.shape[1]}, dy.dtype, dy.device}};
}

NDArray plain_product(const NDArray& a, const NDArray& b, SourceLocation site) {
  return invoke_one(matmul_op, {a, b}, Attributes::of(MatmulAttributes{}), site);
}

Arrays dense_gradient(const GradientCall& call) {
  const SourceLocation site = SourceLocation::current();
  Arrays grads(call.input_specs.size());
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return grads;
  const Shape& x = call.input_specs[0].shape;
  const std::int64_t units = call.input_specs[1].shape[0], width = call.input_specs[1].shape[1];
  Shape leading = x;  // the width may be 0
  leading.erase(x.ndim() - 1);
  const std::int64_t rows = call.attributes.as<DenseAttributes>().flatten ? x[0] : leading.size();
  const NDArray dz = (call.attributes.as<DenseAttributes>().relu ? relu_gradient(dy, call.outputs[0], site) : dy)
                         .reshape(with_open_rows({rows, units}), site);
  if (call.wanted[0])
    grads[0] = plain_product(dz, call.inputs[1], site).reshape(with_open_rows(x), site);
  const bool bias = grads.size() > 2 && call.wanted[2];
  if (!call.wanted[1]) {  // frozen, say
    if (bias)
      grads[2] = invoke_one(dense_backward_bias_op, {dz}, {}, site);
    return grads;
  }
  const std::array<NDArray, 2> inputs{dz, call.inputs[0].reshape(with_open_rows({rows, width}), site)};
  const Arrays both =
      invoke(dense_backward_weights_op, inputs, Attributes::of(DenseWeightsAttributes{.bias = bias}), site);
  grads[1] = both[0];
  if (bias)
    grads[2] = both[1];
  return grads;
}

// dW = dy^T x and db = sum of dy, so their gradients are a dense layer and a product.
Arrays dense_backward_weights_gradient(const GradientCall& call) {
  const SourceLocation site = SourceLocation::current();
  Arrays grads(2);
  const NDArray& weight_grad = call.output_grads[0];
  const NDArray bias_grad = call.output_grads.size() > 1 ? call.output_grads[1] : NDArray();
  const Shape& dy_shape = call.input_specs[0].shape;
  if (call.wanted[0] && weight_grad.defined())
    grads[0] = dense(call.inputs[1], weight_grad, bias_grad, {}, site);
  if (call.wanted[0] && !weight_grad.defined() && bias_grad.defined())
    grads[0] = bias_grad.broadcast_to(dy_shape, site);
  if (call.wanted[1] && weight_grad.defined())
    grads[1] = plain_product(call.inputs[0], weight_grad, site);
  return grads;
}

Arrays dense_backward_bias_gradient(const GradientCall& call) {
  const NDArray& bias_grad = call.output_grads[0];
  return {bias_grad.defined() ? bias_grad.broadcast_to(call.input_specs[0].shape) : NDArray()};
}

// The gradient of x reads the weight, that of the weight reads x.
Mask dense_saved_for(Mask wanted, const Attributes&) {
  return (wanted & 0b001 ? 0b10 : 0) | (wanted & 0b010 ? 0b01 : 0);
}

// The gradient of the relu reads its result.
Mask dense_result_saved_for(Mask, const Attributes& attributes) {
  return attributes.as<DenseAttributes>().relu ? k_all : k_none;
}

constexpr DenseAttributes with_relu() {
  return {.relu = true};
}

constexpr Operator dense_with(const char* name, const AttributeType& attributes) {
  return {
      .name = name,
      .inputs = -1,
      .attributes = &attributes,
      .normalise = promote_inputs,
      .infer = dense_infer,
      .kernels = {on_cpu(dense_cpu), on_gpu(SLUICE_GPU_KERNEL(dense_gpu))},
      .gradient = dense_gradient,
      .saved_inputs = 0b11,
      .saved_outputs = k_all,
      .saved_for = dense_saved_for,
      .saved_outputs_for = dense_result_saved_for,
  };
}

}  // namespace

const Operator dense_op = dense_with("dense", attribute_type<DenseAttributes>);
const Operator dense_relu_op = dense_with("dense_relu", attribute_type_from<with_relu>);
const Operator dense_backward_weights_op{
    .name = "dense_backward_weights",
    .inputs = 2,
    .outputs = -1,
    .attributes = &attribute_type<DenseWeightsAttributes>,
    .infer = dense_backward_weights_infer,
    .kernels = {on_cpu(dense_backward_weights_cpu), on_gpu(SLUICE_GPU_KERNEL(dense_backward_weights_gpu))},
    .gradient = dense_backward_weights_gradient,
    .saved_inputs = k_all,
};
const Operator dense_backward_bias_op{
    .name = "dense_backward_bias",
    .infer = dense_backward_bias_infer,
    .kernels = {on_cpu(dense_backward_bias_cpu), on_gpu(SLUICE_GPU_KERNEL(dense_backward_bias_gpu))},
    .gradient = dense_backward_bias_gradient,
};
OperatorList matmul_operators() noexcept {
  static constexpr const Operator* list[] = {
      &matmul_op,
      &matmul_relu_backward_op,
      &dense_op,
      &dense_relu_op,
      &dense_backward_weights_op,
      &dense_backward_bias_op,
      &gelu_backward_bias_op,
      &gelu_tanh_backward_bias_op,
      &silu_backward_bias_op};
  return list;
}

}  // namespace detail

NDArray dense(
    const NDArray& x, const NDArray& weight, const NDArray& bias, const DenseOptions& options, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const bool relu = options.activation == "relu";
    require<ValueError>(relu || options.activation.empty(), [&] {
      return message("dense: activation \"", options.activation, "\" is neither \"\" nor \"relu\"");
    });
    const Operator& op = relu ? detail::dense_relu_op : detail::dense_op;
    auto attributes = Attributes::of(detail::DenseAttributes{.flatten = options.flatten, .relu = relu});
    if (bias.defined())
      return invoke_one(op, {x, weight, bias}, std::move(attributes), site);
    return invoke_one(op, {x, weight}, std::move(attributes), site);
  });
}

}  // namespace sluice
