#include <algorithm>
#include <array>
#include <string>

#include <sluice/ndarray/autograd.h>
#include <sluice/operator/norm/layer_norm_kernels.h>

namespace sluice::detail {

namespace {

template <class A>
bool is(const Attributes& attributes) noexcept {
  return *attributes.type() == attribute_type<A>;
}

std::int64_t extent_behind(const Shape& shape, int first) {
  std::int64_t extent = 1;
  for (int axis = first; axis < shape.ndim(); ++axis)
    extent *= shape[axis];
  return extent;
}

NormRows group_rows(const Shape& x, std::int64_t num_groups, double eps) {
  const std::int64_t channels = x[1], span = extent_behind(x, 2);
  NormRows rows;
  rows.groups = std::max<std::int64_t>(1, num_groups);
  rows.channels = channels / rows.groups;
  rows.span = std::max<std::int64_t>(1, span);
  rows.at = {x[0] * rows.groups, rows.channels * span, 1};
  rows.eps = eps;
  return rows;
}

NormRows l2_rows(const Shape& x, const L2NormalizationAttributes& how) {
  NormRows rows;
  if (how.mode == "instance")
    rows.at = {x[0], extent_behind(x, 1), 1};
  else if (how.mode == "channel")
    rows.at = axis_layout(x, 1);
  else
    rows.at = {x[0] * x[1], extent_behind(x, 2), 1};
  rows.span = std::max<std::int64_t>(1, rows.at.n);
  rows.eps = how.eps;
  rows.summed = true;
  return rows;
}

NormParameter parameter_of(const TensorView& view) noexcept {
  return {view.data, view.dtype};
}

}  // namespace

NormRows norm_rows(const Attributes& attributes, const Shape& x, bool centred) {
  NormRows rows;
  if (is<GroupNormAttributes>(attributes)) {
    const auto& how = attributes.as<GroupNormAttributes>();
    rows = group_rows(x, how.num_groups, how.eps);
  } else if (is<InstanceNormAttributes>(attributes)) {
    rows = group_rows(x, x[1], attributes.as<InstanceNormAttributes>().eps);
  } else if (is<L2NormalizationAttributes>(attributes)) {
    rows = l2_rows(x, attributes.as<L2NormalizationAttributes>());
  } else {
    const auto& how = attributes.as<LayerNormAttributes>();
    rows.at = axis_layout(x, static_cast<int>(how.axis));
    rows.channels = rows.at.n;
    rows.eps = how.eps;
  }
  rows.centred = centred;
  return rows;
}

bool norm_gives(DType x, DType result, const Attributes& attributes) noexcept {
  const bool rounds = x == DType::float32 && (result == DType::float16 || result == DType::bfloat16);
  return result == x || (rounds && is<LayerNormAttributes>(attributes));
}

NormForward::NormForward(const KernelCall& call)
    : rows(norm_rows(call.attributes, call.inputs[0].shape, call.inputs.size() == 3)),
      dtype(call.inputs[0].dtype),
      result(call.outputs[0].dtype),
      x(call.inputs[0].data),
      y(call.outputs[0].data),
      inv_std(call.outputs.back().data) {
  if (call.inputs.size() > 1)
    gamma = parameter_of(call.inputs[1]);
  if (rows.centred) {
    beta = parameter_of(call.inputs[2]);
    mean = call.outputs[1].data;
  }
}

NormBackward::NormBackward(const KernelCall& call)
    : rows(norm_rows(call.attributes, call.inputs[1].shape, call.inputs.size() == 5)),
      dtype(call.inputs[1].dtype),
      head(call.inputs[0].dtype),
      dy(call.inputs[0].data),
      x(call.inputs[1].data),
      dx(call.outputs[0].data),
      inv_std(call.inputs.back().data) {
  if (call.inputs.size() > 3) {
    gamma = parameter_of(call.inputs[2]);
    gamma_grad = parameter_of(call.outputs[1]);
  }
  if (rows.centred) {
    mean = call.inputs[3].data;
    beta_grad = parameter_of(call.outputs[2]);
  }
}

}  // namespace sluice::detail
