#include <limits>

#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/pool/composed.h>
#include <sluice/operator/pool/geometry.h>
#include <sluice/operator/pool/pool.h>
#include <sluice/operator/pool/volume.h>
#include <sluice/operator/sides.h>
#include <sluice/operator/sink.h>

namespace sluice {
namespace detail {

PoolGeometry pool_geometry(const char* op, const Shape& x, const PoolAttributes& a) {
  require<ShapeError>(x.ndim() == 4, [&] {
    return message(
        op, ": x must be (N, C, H, W), not ", x, x.ndim() == 3 ? "; expand_dims(0) makes one image a batch" : "");
  });
  PoolGeometry g;
  g.planes = x[0] * x[1];
  g.count_include_pad = a.count_include_pad;
  const Shape image{x[2], x[3]};
  const Shape kernel = a.global ? image : a.kernel;
  const Shape stride = a.global || a.stride.empty() ? kernel : a.stride;
  const Shape pad = a.global ? Shape{0, 0} : a.pad;
  require<ShapeError>(
      image[0] > 0 && image[1] > 0 && image[0] <= std::numeric_limits<std::int32_t>::max() / image[1],
      [&] { return message(op, ": planes of x of shape ", x, " must have 1 to 2^31 - 1 elements"); });
  check_pair(op, kernel, 1, "kernel");
  check_pair(op, stride, 1, "stride");
  const Sides sides = sides_of(op, pad);
  for (int axis = 0; axis < 2; ++axis) {
    const bool is_less = sides.begin[axis] < kernel[axis] && sides.end[axis] < kernel[axis];
    require<ValueError>(is_less, [&] { return message(op, ": pad ", pad, " must be smaller than kernel ", kernel); });
    g.in[axis] = image[axis];
    g.kernel[axis] = kernel[axis];
    g.stride[axis] = stride[axis];
    g.pad[axis] = sides.begin[axis];
    g.pad_end[axis] = sides.end[axis];
    const std::int64_t room = g.in[axis] + g.pad[axis] + g.pad_end[axis] - g.kernel[axis];
    const bool fits = room >= 0 || (a.ceil_mode && room > -g.stride[axis]);
    require<ShapeError>(fits, [&] {
      return message(
          op, ": a window of ", kernel, " does not fit into x of shape ", x, ", (N, C, H, W), with padding ", pad);
    });
    g.out[axis] = (room + (a.ceil_mode ? g.stride[axis] - 1 : 0)) / g.stride[axis] + 1;
    // The last window has to start on the image or the padding before it.
    if (a.ceil_mode && (g.out[axis] - 1) * g.stride[axis] >= g.in[axis] + g.pad[axis])
      --g.out[axis];
  }
  return g;
}

Shape pooled_shape(const Shape& x, const PoolGeometry& g) {
  return {x[0], x[1], g.out[0], g.out[1]};
}

namespace {

template <bool IsMax>
Specs pool_infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  constexpr const char* op = IsMax ? "max_pool2d" : "avg_pool2d";
  const auto& how = attributes.as<PoolAttributes>();
  const ArraySpec& x = inputs[0];
  check_floating(op, x);
  const Shape shape = pooled_shape(x.shape, pool_geometry(op, x.shape, how));
  Specs specs{{shape, x.dtype, x.device}};
  if (IsMax)
    specs.push_back({shape, DType::int32, x.device});
  return specs;
}

// From the gradient of the result, and for max where the maxima were, to the gradient of x.
template <bool IsMax>
Specs pool_backward_infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  constexpr const char* op = IsMax ? "max_pool2d_backward" : "avg_pool2d_backward";
  const auto& how = attributes.as<PoolAttributes>();
  const ArraySpec &dy = inputs[0], &x = inputs.back();
  check_floating(op, dy);
  const Shape y = pooled_shape(x.shape, pool_geometry(op, x.shape, how));
  check_like(op, "the gradient", dy, y, dy.dtype);
  if (IsMax)
    check_like(op, "where the maxima were", inputs[1], y, DType::int32);
  return {{x.shape, dy.dtype, dy.device}};
}

// Inputs: a gradient of x's shape, and where the maxima were.
Specs gather_infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  constexpr const char* op = "max_pool2d_gather";
  const ArraySpec& x = inputs[0];
  check_floating(op, x);
  const Shape y = pooled_shape(x.shape, pool_geometry(op, x.shape, attributes.as<PoolAttributes>()));
  check_like(op, "where the maxima were", inputs[1], y, DType::int32);
  return {{y, x.dtype, x.device}};
}

// Results lie as what they are made from: as input `i` does.
template <std::size_t i>
MemoryOrder order_of_input(std::span<const NDArray> inputs, const Attributes&) {
  return order_of(inputs[i].shape(), inputs[i].strides());
}

Arrays max_pool_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return Arrays(1);
  return {invoke_one(
      max_pool2d_backward_op,
      {dy, call.outputs[1], shape_only(call.input_specs[0])},
      call.attributes,
      SourceLocation::current())};
}

Arrays max_pool_backward_gradient(const GradientCall& call) {
  Arrays grads(3);
  if (call.wanted[0] && call.output_grads[0].defined())
    grads[0] = invoke_one(
        max_pool2d_gather_op, {call.output_grads[0], call.inputs[1]}, call.attributes, SourceLocation::current());
  return grads;
}

Arrays gather_gradient(const GradientCall& call) {
  Arrays grads(2);
  if (call.wanted[0] && call.output_grads[0].defined())
    grads[0] = invoke_one(
        max_pool2d_backward_op,
        {call.output_grads[0], call.inputs[1], shape_only(call.input_specs[0])},
        call.attributes,
        SourceLocation::current());
  return grads;
}

Arrays avg_pool_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return Arrays(1);
  return {invoke_one(
      avg_pool2d_backward_op, {dy, shape_only(call.input_specs[0])}, call.attributes, SourceLocation::current())};
}

Arrays avg_pool_backward_gradient(const GradientCall& call) {
  Arrays grads(2);
  if (call.output_grads[0].defined())
    grads[0] = invoke_one(avg_pool2d_op, {call.output_grads[0]}, call.attributes, SourceLocation::current());
  return grads;
}

Attributes attributes_of(const PoolOptions& options) {
  return Attributes::of(PoolAttributes{
      .kernel = options.kernel,
      .stride = options.stride,
      .pad = options.pad,
      .ceil_mode = options.ceil_mode,
      .count_include_pad = options.count_include_pad,
      .global = options.global});
}

}  // namespace

const Operator max_pool2d_op{
    .name = "max_pool2d",
    .outputs = 2,
    .attributes = &attribute_type<PoolAttributes>,
    .infer = pool_infer<true>,
    .kernels = {on_cpu(max_pool2d_cpu), on_gpu(SLUICE_GPU_KERNEL(max_pool2d_gpu))},
    .gradient = max_pool_gradient,
    .saved_outputs = 0b10,
    .order = order_of_input<0>,
};
const Operator max_pool2d_backward_op{
    .name = "max_pool2d_backward",
    .inputs = 3,
    .attributes = &attribute_type<PoolAttributes>,
    .infer = pool_backward_infer<true>,
    .kernels = {on_cpu(max_pool2d_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(max_pool2d_backward_gpu))},
    .gradient = max_pool_backward_gradient,
    .saved_inputs = 0b10,
    .shape_inputs = 0b100,
    .order = order_of_input<1>,
};
const Operator max_pool2d_gather_op{
    .name = "max_pool2d_gather",
    .inputs = 2,
    .attributes = &attribute_type<PoolAttributes>,
    .infer = gather_infer,
    .kernels = {on_cpu(max_pool2d_gather_cpu), on_gpu(SLUICE_GPU_KERNEL(max_pool2d_gather_gpu))},
    .gradient = gather_gradient,
    .saved_inputs = 0b10,
    .order = order_of_input<1>,
};
const Operator avg_pool2d_op{
    .name = "avg_pool2d",
    .attributes = &attribute_type<PoolAttributes>,
    .infer = pool_infer<false>,
    .kernels = {on_cpu(avg_pool2d_cpu), on_gpu(SLUICE_GPU_KERNEL(avg_pool2d_gpu))},
    .gradient = avg_pool_gradient,
    .order = order_of_input<0>,
};
const Operator avg_pool2d_backward_op{
    .name = "avg_pool2d_backward",
    .inputs = 2,
    .attributes = &attribute_type<PoolAttributes>,
    .infer = pool_backward_infer<false>,
    .kernels = {on_cpu(avg_pool2d_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(avg_pool2d_backward_gpu))},
    .gradient = avg_pool_backward_gradient,
    .shape_inputs = 0b10,
    .order = order_of_input<0>,
};

OperatorList pool_operators() noexcept {
  static constexpr const Operator* list[] = {
      &max_pool2d_op,
      &max_pool2d_backward_op,
      &max_pool2d_gather_op,
      &avg_pool2d_op,
      &avg_pool2d_backward_op,
      &k_max_pool1d,
      &k_avg_pool1d,
      &k_lp_pool1d,
      &k_lp_pool2d,
      &k_adaptive_avg_pool2d,
      &k_adaptive_max_pool2d,
      &k_max_pool3d,
      &k_avg_pool3d,
      &k_lp_pool3d,
      &k_adaptive_avg_pool1d,
      &k_adaptive_max_pool1d,
      &k_adaptive_avg_pool3d,
      &k_adaptive_max_pool3d};
  return list;
}

}  // namespace detail

NDArray max_pool2d(const NDArray& x, const PoolOptions& options, SourceLocation site) {
  return invoke(detail::max_pool2d_op, std::span(&x, 1), detail::attributes_of(options), site)[0];
}

NDArray avg_pool2d(const NDArray& x, const PoolOptions& options, SourceLocation site) {
  return invoke_one(detail::avg_pool2d_op, {x}, detail::attributes_of(options), site);
}

}  // namespace sluice
