#include <limits>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/softmax/kernels.h>
#include <sluice/operator/softmax/softmax.h>

// Made of softmax and where, whose gradients they have.
namespace sluice {

namespace {

struct MaskedSoftmaxAttributes {
  std::int64_t axis = -1;
  double temperature = 1;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("temperature", temperature);
  }
};

// The axis counted from the front, the mask as bools.
bool normalise_masked(const RawCall& call, NormalCall& normal) {
  const bool counted = detail::normalise_axis<MaskedSoftmaxAttributes>(call, normal);
  if (call.inputs[1].object()->dtype == bool_)
    return counted;
  if (!counted) {
    normal.inputs.assign(call.inputs.begin(), call.inputs.end());
    normal.attributes = call.attributes;
  }
  normal.inputs[1] = call.inputs[1].astype(bool_, call.site);
  return true;
}

Specs infer_masked(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec &x = inputs[0], &mask = inputs[1];
  const double temperature = attributes.as<MaskedSoftmaxAttributes>().temperature;
  require<DTypeError>(is_floating(x.dtype), [&] { return message(op.name, ": takes floating types, not ", x.dtype); });
  require<ValueError>(
      temperature > 0, [&] { return message(op.name, ": temperature is ", temperature, ", not above 0"); });
  require<ShapeError>(
      mask.shape.ndim() <= x.shape.ndim() && broadcast_shape(x.shape, mask.shape, op.name) == x.shape, [&] {
        return message(op.name, ": a mask of shape ", mask.shape, " does not broadcast to x of shape ", x.shape);
      });
  return {x};
}

constexpr double k_nothing = -std::numeric_limits<double>::infinity();

// `within` of the elements that count, which has NaN where there are none, and `beside` for the others.
template <NDArray (*within)(const NDArray&, int, SourceLocation)>
Arrays masked(
    const Operator& op,
    std::span<const NDArray> inputs,
    const Attributes& attributes,
    SourceLocation site,
    double beside) {
  infer_masked(op, detail::specs_of(inputs), attributes);
  const auto& how = attributes.as<MaskedSoftmaxAttributes>();
  const NDArray& mask = inputs[1];
  const DType own = inputs[0].dtype();
  const bool divides = how.temperature != 1, half = divides && size_of(own) == 2;
  // Quotients of half types need not fit, and their rounding is many times that of the result.
  const NDArray wide = half ? inputs[0].astype(float32, site) : inputs[0];
  const NDArray x = divides ? divide(wide, how.temperature, site) : wide;
  const NDArray some = within(where(mask, x, k_nothing, site), static_cast<int>(how.axis), site);
  const NDArray y = where(mask, some, beside, site);
  return {half ? y.astype(own, site) : y};
}

Arrays compose(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  return masked<softmax>(k_masked_softmax, inputs, attributes, site, 0);
}
Arrays compose_log(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  return masked<log_softmax>(k_masked_log_softmax, inputs, attributes, site, k_nothing);
}

NDArray along_axis(
    const Operator& op, const NDArray& x, const NDArray& mask, int axis, double temperature, SourceLocation site) {
  return invoke_one(op, {x, mask}, Attributes::of(MaskedSoftmaxAttributes{axis, temperature}), site);
}

}  // namespace

constinit const Operator k_masked_softmax = {
    .name = "masked_softmax",
    .inputs = 2,
    .attributes = &attribute_type<MaskedSoftmaxAttributes>,
    .normalise = normalise_masked,
    .infer = infer_masked,
    .composition = compose,
};
constinit const Operator k_masked_log_softmax = {
    .name = "masked_log_softmax",
    .inputs = 2,
    .attributes = &attribute_type<MaskedSoftmaxAttributes>,
    .normalise = normalise_masked,
    .infer = infer_masked,
    .composition = compose_log,
};

NDArray masked_softmax(const NDArray& x, const NDArray& mask, int axis, double temperature, SourceLocation site) {
  return along_axis(k_masked_softmax, x, mask, axis, temperature, site);
}

NDArray masked_log_softmax(const NDArray& x, const NDArray& mask, int axis, double temperature, SourceLocation site) {
  return along_axis(k_masked_log_softmax, x, mask, axis, temperature, site);
}

}  // namespace sluice
