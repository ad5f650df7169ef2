#include <sluice/ndarray/create.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/resize/planes.h>
#include <sluice/operator/sides.h>
#include <sluice/operator/sink.h>

namespace sluice::detail {

namespace {

void check_planes(const Operator& op, const Shape& x, DType dtype, const PlanesAttributes& how) {
  check_pair(op.name, how.size, 1, "size");
  require<ShapeError>(
      x.ndim() == 4 && x[2] >= 1 && x[3] >= 1 && x[2] <= k_most_of_window && x[3] <= k_most_of_window,
      [&] { return message(op.name, ": x must be (N, C, H, W) of 1 to 2^31 - 1 rows and columns, not ", x); });
  const bool mixes = how.kind() != TapKind::nearest;
  require<ValueError>(
      !(how.bilinear && how.bicubic), [&] { return message(op.name, ": is bilinear or bicubic, not both"); });
  require<ValueError>(mixes || (!how.align_corners && !how.antialias), [&] {
    return message(op.name, ": align_corners and antialias are of bilinear and bicubic");
  });
  require<DTypeError>(
      !mixes || is_floating(dtype), [&] { return message(op.name, ": mixes floating types, not ", dtype); });
}

Shape resized_shape(const Shape& x, const PlanesAttributes& how) {
  return {x[0], x[1], how.size[0], how.size[1]};
}

Specs infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& x = inputs[0];
  const auto& how = attributes.as<PlanesAttributes>();
  check_planes(op, x.shape, x.dtype, how);
  return {{resized_shape(x.shape, how), x.dtype, x.device}};
}

// dy, x (shape alone)
Specs infer_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec &dy = inputs[0], &x = inputs[1];
  const auto& how = attributes.as<PlanesAttributes>();
  check_floating(op.name, dy);
  check_planes(op, x.shape, dy.dtype, how);
  check_like(op.name, "dy", dy, resized_shape(x.shape, how), dy.dtype);
  return {{x.shape, dy.dtype, dy.device}};
}

Arrays compose(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  return {resized_by_takes(inputs[0], attributes.as<PlanesAttributes>(), site)};
}

// What elements of an axis weigh in those that it is resized to: the rows of an identity, resized.
NDArray weights(std::int64_t in, std::int64_t out, PlanesAttributes how, const NDArray& beside, SourceLocation site) {
  how.size = {in, out};
  const NDArray each = arange(0, static_cast<double>(in), 1, {.dtype = int64, .device = beside.device()}, site);
  const NDArray one = one_hot(each, in, wide_type(beside.dtype()), site);
  return resized_by_takes(one.reshape({1, 1, in, in}, site), how, site).reshape({in, out}, site);
}

// Where there is no kernel: products with the weights along both axes.
Arrays compose_backward(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_backward(k_resize_planes_backward, specs_of(inputs), attributes);
  const auto& how = attributes.as<PlanesAttributes>();
  const NDArray& dy = inputs[0];
  const Shape extents = extents_beside_batch(inputs[1]);
  const NDArray rows = weights(extents[2], how.size[0], how, dy, site);
  const NDArray columns = weights(extents[3], how.size[1], how, dy, site);
  const NDArray wide = dy.astype(wide_type(dy.dtype()), site);
  return {matmul(matmul(rows, wide, site), columns.transpose({1, 0}, site), site).astype(dy.dtype(), site)};
}

Arrays gradient(const GradientCall& call) {
  Arrays grads(1);
  if (call.wanted[0] && call.output_grads[0].defined())
    grads[0] = invoke_one(
        k_resize_planes_backward,
        {call.output_grads[0], shape_only(call.input_specs[0])},
        call.attributes,
        SourceLocation::current());
  return grads;
}

Arrays backward_gradient(const GradientCall& call) {
  Arrays grads(2);
  if (call.wanted[0] && call.output_grads[0].defined())
    grads[0] = invoke_one(k_resize_planes, {call.output_grads[0]}, call.attributes, SourceLocation::current());
  return grads;
}

}  // namespace

constinit const Operator k_resize_planes{
    .name = "resize_planes",
    .attributes = &attribute_type<PlanesAttributes>,
    .infer = infer,
    .kernels = {on_cpu(resize_planes_cpu), on_gpu(SLUICE_GPU_KERNEL(resize_planes_gpu))},
    .composition = compose,
    .gradient = gradient,
};
constinit const Operator k_resize_planes_backward{
    .name = "resize_planes_backward",
    .inputs = 2,
    .attributes = &attribute_type<PlanesAttributes>,
    .infer = infer_backward,
    .kernels = {on_cpu(resize_planes_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(resize_planes_backward_gpu))},
    .composition = compose_backward,
    .gradient = backward_gradient,
    .shape_inputs = 0b10,
};

}  // namespace sluice::detail
