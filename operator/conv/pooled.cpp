#include <sluice/operator/conv/operands.h>
#include <sluice/operator/conv/passes.h>
#include <sluice/operator/conv/pooled.h>
#include <sluice/operator/sides.h>
#include <sluice/operator/simd/block_rows.h>

namespace sluice::detail {

bool are_places_enough(const Shape& kernel) noexcept {
  return kernel[0] <= simd::k_masked_place && kernel[1] <= simd::k_masked_place &&
         kernel[0] * kernel[1] <= simd::k_masked_place;
}

PooledGeometry pooled_geometry(
    const char* op, const Shape& x, const Shape& weight, DType dtype, const PooledConvolutionAttributes& a) {
  check_pair(op, a.pool_kernel, 1, "pool_kernel");
  check_pair(op, a.pool_stride, 1, "pool_stride");
  require<ValueError>(are_places_enough(a.pool_kernel), [&] {
    return message(op, ": pool_kernel ", a.pool_kernel, " has more than 255 taps");
  });
  PooledGeometry p{.g = convolution_geometry(op, x, weight, dtype, a.convolution())};
  for (int axis = 0; axis < 2; ++axis) {
    p.kernel[axis] = a.pool_kernel[axis];
    p.stride[axis] = a.pool_stride[axis];
    require<ValueError>(p.stride[axis] >= p.kernel[axis], [&] {
      return message(op, ": windows of ", a.pool_kernel, " overlap with a pool_stride of ", a.pool_stride);
    });
    require<ShapeError>(p.g.out[axis] >= p.kernel[axis], [&] {
      return message(op, ": windows of ", a.pool_kernel, " do not fit into a result of shape ", p.g.y_shape());
    });
    p.out[axis] = (p.g.out[axis] - p.kernel[axis]) / p.stride[axis] + 1;
  }
  return p;
}

namespace {

Specs pool_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_operands(op.name, inputs);
  const ArraySpec &x = inputs[0], &weight = inputs[1];
  const auto& how = attributes.as<PooledConvolutionAttributes>();
  const PooledGeometry p = pooled_geometry(op.name, x.shape, weight.shape, x.dtype, how);
  check_bias(op.name, inputs, p.g.outputs);
  return {{p.maxima_shape(), x.dtype, x.device}, {p.places_shape(), DType::uint8, x.device}};
}

Specs pool_backward_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec &heads = inputs[0], &places = inputs[1], &x = inputs[2], &weight = inputs[3];
  const ArraySpec floating[] = {heads, x, weight};
  check_convolution_types(op.name, floating);
  require<DTypeError>(
      places.dtype == DType::uint8, [&] { return message(op.name, ": places are uint8, not ", places.dtype); });
  const auto& how = attributes.as<PooledConvolutionAttributes>();
  const PooledGeometry p = pooled_geometry(op.name, x.shape, weight.shape, x.dtype, how);
  require<ShapeError>(heads.shape == p.maxima_shape() && places.shape == p.places_shape(), [&] {
    return message(
        op.name,
        ": gradients of shape ",
        heads.shape,
        " and places of shape ",
        places.shape,
        " are not those of maxima of shape ",
        p.maxima_shape());
  });
  Specs specs{{weight.shape, x.dtype, x.device}};
  if (how.bias)
    specs.push_back({{p.g.outputs}, x.dtype, x.device});
  if (how.data)
    specs.push_back({x.shape, x.dtype, x.device});
  return specs;
}

}  // namespace

const Operator convolution_relu_pool_op{
    .name = "convolution_relu_pool",
    .inputs = -1,
    .outputs = 2,
    .attributes = &attribute_type<PooledConvolutionAttributes>,
    .infer = pool_infer,
    .kernels = {on_cpu(convolution_relu_pool_cpu)},
};
const Operator convolution_relu_pool_backward_op{
    .name = "convolution_relu_pool_backward",
    .inputs = 4,
    .outputs = -1,
    .attributes = &attribute_type<PooledConvolutionAttributes>,
    .infer = pool_backward_infer,
    .kernels = {on_cpu(convolution_relu_pool_backward_cpu)},
};

}  // namespace sluice::detail
