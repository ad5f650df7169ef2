#include <algorithm>
#include <limits>

#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/reduce/gradient.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/view/attributes.h>

namespace sluice {

namespace detail {

namespace {

// -- divide_by_terms: the first input by the number of terms that a reduction of the second one has --------------
Specs infer_divided(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  for (const std::int64_t axis : attributes.as<TermsAttributes>().axes)
    normal_axis(axis, inputs[1].shape.ndim(), op.name);
  require<DTypeError>(
      is_floating(inputs[0].dtype), [&] { return message(op.name, ": takes floating types, not ", inputs[0].dtype); });
  return {inputs[0]};
}

Arrays divided(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<TermsAttributes>();
  const int ndim = unseen_shape(inputs[1]).ndim();
  const auto normal = [&](std::int64_t axis) { return normal_axis(axis, ndim, "divide_by_terms"); };
  const bool by_batch = std::any_of(a.axes.begin(), a.axes.end(), [&](auto axis) { return normal(axis) == 0; });
  const Shape shape = by_batch ? inputs[1].shape() : extents_beside_batch(inputs[1]);
  double terms = 1;
  for (const std::int64_t axis : a.axes)
    terms *= static_cast<double>(shape[normal(axis)]);
  // Of nothing no element has a share.
  return {divide(inputs[0], terms == 0 ? 1.0 : std::max(terms - static_cast<double>(a.fewer), 0.0), site)};
}

Arrays gradient_divided(const GradientCall& call) {
  const NDArray like = shape_only(call.input_specs[1]);
  return {invoke_one(call.op, {call.output_grads[0], like}, call.attributes, SourceLocation::current()), NDArray()};
}

}  // namespace

constinit const Operator k_divide_by_terms = {
    .name = "divide_by_terms",
    .inputs = 2,
    .attributes = &attribute_type<TermsAttributes>,
    .infer = infer_divided,
    .composition = divided,
    .gradient = gradient_divided,
    .shape_inputs = 0b10,
};

NDArray ReductionGradient::aligned(const NDArray& reduced) const {
  NDArray kept = reduced;
  int leading = 0;
  for (int i = 0; i < axes_.ndim() && !keepdims_; ++i) {
    const int axis = static_cast<int>(axes_[i]);
    if (axis == leading)
      ++leading;
    else
      kept = kept.expand_dims(axis - leading);
  }
  return kept;
}

NDArray ReductionGradient::stretched(const NDArray& aligned) const {
  return invoke_one(k_broadcast_like, {aligned, shape_only(call_.input_specs[0])}, {}, SourceLocation::current());
}

NDArray ReductionGradient::per_term(const NDArray& aligned) const {
  const NDArray like = shape_only(call_.input_specs[0]);
  const Attributes terms = Attributes::of(TermsAttributes{axes_, ddof_});
  return invoke_one(k_divide_by_terms, {aligned, like}, terms, SourceLocation::current());
}

NDArray ReductionGradient::centred(const NDArray& x) const {
  return x - mean(x, axes_, true);
}

NDArray ReductionGradient::shared(const NDArray& x, const NDArray& y, const NDArray& dy) const {
  const NDArray ties = logical_or(x == y, isnan(x));
  // Counted in whole numbers: float16 would stop at 2048.
  const NDArray count = aligned(sum(ties, axes_, keepdims_));
  return where(ties, (dy / count.astype(wide_type(x.dtype()))).astype(x.dtype()), 0);
}

NDArray ReductionGradient::in_shares(const NDArray& x, const NDArray& dy) const {
  return x * (dy / one_for_zero(sum(x, axes_, true)));
}

}  // namespace detail

NDArray finite(const NDArray& y) {
  const double largest = y.dtype() == float64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  return clip(y, -largest, largest);
}

}  // namespace sluice
