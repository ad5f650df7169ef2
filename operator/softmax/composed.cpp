#include <limits>

#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/softmax/composed.h>
#include <sluice/operator/softmax/kernels.h>
#include <sluice/operator/softmax/softmax.h>

namespace sluice {

namespace {

void check_floating(const Operator& op, const ArraySpec& x) {
  require<DTypeError>(is_floating(x.dtype), [&] { return message(op.name, ": takes floating types, not ", x.dtype); });
}

Specs infer_softmin(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  check_floating(op, inputs[0]);
  return {inputs[0]};
}

Arrays of_smallest(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_softmin(detail::k_softmin, detail::specs_of(inputs), attributes);
  const auto axis = static_cast<int>(attributes.as<detail::SoftmaxAttributes>().axis);
  return {softmax(negative(inputs[0], site), axis, site)};
}

Specs infer_glu(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_floating(op, inputs[0]);
  ArraySpec y = inputs[0];
  const auto axis = static_cast<int>(attributes.as<detail::SoftmaxAttributes>().axis);
  require<ShapeError>(y.shape[axis] % 2 == 0, [&] {
    return message(op.name, ": axis ", axis, " of x ", y.shape, " cannot be cut in halves");
  });
  y.shape[axis] /= 2;
  return {y};
}

Arrays gated(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();
  infer_glu(detail::k_glu, detail::specs_of(inputs), attributes);
  const NDArray& x = inputs[0];
  const auto axis = static_cast<int>(attributes.as<detail::SoftmaxAttributes>().axis);
  const std::int64_t half = (axis == 0 ? x.shape()[0] : detail::extents_beside_batch(x)[axis]) / 2;
  return {multiply(x.slice(axis, 0, half, 1, site), sigmoid(x.slice(axis, half, end, 1, site), site), site)};
}

}  // namespace

constinit const Operator detail::k_softmin{
    .name = "softmin",
    .attributes = &attribute_type<SoftmaxAttributes>,
    .normalise = normalise_axis<SoftmaxAttributes>,
    .infer = infer_softmin,
    .composition = of_smallest,
};
constinit const Operator detail::k_glu{
    .name = "glu",
    .attributes = &attribute_type<SoftmaxAttributes>,
    .normalise = normalise_axis<SoftmaxAttributes>,
    .infer = infer_glu,
    .composition = gated,
};

NDArray softmin(const NDArray& x, int axis, SourceLocation site) {
  return invoke_one(detail::k_softmin, {x}, Attributes::of(detail::SoftmaxAttributes{axis}), site);
}

NDArray glu(const NDArray& x, int axis, SourceLocation site) {
  return invoke_one(detail::k_glu, {x}, Attributes::of(detail::SoftmaxAttributes{axis}), site);
}

}  // namespace sluice
