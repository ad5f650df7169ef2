#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/softmax/kernels.h>
#include <sluice/operator/softmax/softmax.h>

// Losses of smoothed labels and of weighted classes, made of those without, whose gradients they have.
namespace sluice {

namespace {

using detail::axis_of;
using detail::LikelihoodAttributes;

struct WeightedAttributes {
  std::int64_t axis = -1;
  std::optional<std::int64_t> ignored = {};
  double smoothing = 0;
  bool wide = false;  // of half logits: losses are float32

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("ignored", ignored);
    v.field("smoothing", smoothing);
    v.field("wide", wide);
  }
};

Attributes widened(const Attributes& attributes) {
  WeightedAttributes wide = attributes.as<WeightedAttributes>();
  wide.wide = true;
  return Attributes::of(wide);
}

void check_weights(const Operator& op, const ArraySpec& x, const ArraySpec& weights, int axis) {
  require<DTypeError>(is_floating(weights.dtype), [&] {
    return message(op.name, ": class weights are floating numbers, not ", weights.dtype);
  });
  require<ShapeError>(weights.shape == Shape{x.shape[axis]}, [&] {
    return message(op.name, ": class weights of shape ", weights.shape, " for ", x.shape[axis], " classes");
  });
}

ArraySpec losses_of(const ArraySpec& x, int axis, bool wide) {
  ArraySpec losses = x;
  losses.shape = detail::without_axis(x.shape, axis);
  losses.dtype = detail::loss_type(x.dtype, wide);
  return losses;
}

void check_count(const Operator& op, std::size_t inputs) {
  require<ValueError>(inputs == 2 || inputs == 3, [&] {
    return message(op.name, ": takes logits, labels and maybe class weights, was given ", inputs, " arrays");
  });
}

bool normalise(const RawCall& call, NormalCall& normal) {
  check_count(call.op, call.inputs.size());
  return detail::normalise_axis<WeightedAttributes>(call, normal);
}

// logits, labels, maybe weights
Specs infer_cross_entropy(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_count(op, inputs.size());
  const auto& how = attributes.as<WeightedAttributes>();
  const int axis = axis_of<WeightedAttributes>(attributes);
  detail::check_labels(op.name, inputs[0], inputs[1], axis);
  if (inputs.size() == 3)
    check_weights(op, inputs[0], inputs[2], axis);
  require<ValueError>(how.smoothing >= 0 && how.smoothing < 1, [&] {
    return message(op.name, ": smoothing is ", how.smoothing, ", not in [0, 1)");
  });
  return {losses_of(inputs[0], axis, how.wide)};
}

// log_probs, labels, weights
Specs infer_likelihood(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const int axis = axis_of<LikelihoodAttributes>(attributes);
  detail::check_labels(op.name, inputs[0], inputs[1], axis);
  check_weights(op, inputs[0], inputs[2], axis);
  return {losses_of(inputs[0], axis, false)};
}

// The weights of the labels; what is ignored is no class perhaps, and its loss 0 already. Taken before losses are
// computed, as logits are: where there is no class these refuse, and nobody would hear of a loss that failed.
NDArray weights_of(const NDArray& labels, const NDArray& weights, DType dtype, SourceLocation site) {
  return take(weights.astype(dtype, site), labels, 0, IndexMode::clip, site);
}

// The mean over all classes c of w[c] * -log p[c]. Of what each row's label has of it, -log p = losses, there is
// -log p[c] = losses + chosen, logits[label], - logits[c]: no array of probabilities is made. Half logits are cast for
// the mean, which keeps nothing of them.
NDArray over_classes(
    const NDArray& losses,
    const NDArray& logits,
    const NDArray& chosen,
    const NDArray& weights,
    int axis,
    SourceLocation site) {
  const DType wide = losses.dtype();
  const NDArray x = logits.astype(wide, site);
  if (!weights.defined())
    return add(losses, subtract(chosen, mean(x, {axis}, false, site), site), site);
  Shape along{-1};
  for (int i = axis + 1; i < logits.ndim(); ++i)
    along.push_back(1);
  const NDArray w = weights.astype(wide, site), share = mean(w, {0}, false, site);
  const NDArray beside = mean(multiply(x, w.reshape(along, site), site), {axis}, false, site);
  return add(multiply(losses, share, site), subtract(multiply(chosen, share, site), beside, site), site);
}

Arrays cross_entropy(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_cross_entropy(k_weighted_cross_entropy, detail::specs_of(inputs), attributes);
  const auto& how = attributes.as<WeightedAttributes>();
  const NDArray &logits = inputs[0], &labels = inputs[1], weights = inputs.size() == 3 ? inputs[2] : NDArray();
  const int axis = axis_of<WeightedAttributes>(attributes);
  // Losses of half logits are rounded once, at the end.
  detail::CrossEntropyAttributes plain{.axis = axis, .wide = true};
  plain.ignore(how.ignored);
  const DType wide = detail::loss_type(logits.dtype(), true);
  NDArray each, chosen;
  if (weights.defined())
    each = weights_of(labels, weights, wide, site);
  if (how.smoothing > 0)
    chosen = pick(logits, labels, axis, IndexMode::clip, site).astype(wide, site);
  const NDArray losses = invoke(k_softmax_cross_entropy, inputs.first(2), Attributes::of(plain), site)[0];
  NDArray result = each.defined() ? multiply(losses, each, site) : losses;
  if (how.smoothing > 0) {
    NDArray smooth = over_classes(losses, logits, chosen, weights, axis, site);
    if (how.ignored)
      smooth = where(detail::rows_of_label(labels, *how.ignored, site), 0, smooth, site);
    result = add(multiply(result, 1 - how.smoothing, site), multiply(smooth, how.smoothing, site), site);
  }
  return {result.astype(detail::loss_type(logits.dtype(), how.wide), site)};
}

Arrays likelihood(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_likelihood(k_weighted_likelihood, detail::specs_of(inputs), attributes);
  const NDArray each = weights_of(inputs[1], inputs[2], inputs[0].dtype(), site);
  return {multiply(invoke_one(k_negative_log_likelihood, {inputs[0], inputs[1]}, attributes, site), each, site)};
}

}  // namespace

constinit const Operator k_weighted_cross_entropy = {
    .name = "weighted_cross_entropy",
    .inputs = -1,
    .attributes = &attribute_type<WeightedAttributes>,
    .normalise = normalise,
    .infer = infer_cross_entropy,
    .composition = cross_entropy,
    .widened = widened,
};
constinit const Operator k_weighted_likelihood = {
    .name = "weighted_likelihood",
    .inputs = 3,
    .attributes = &attribute_type<LikelihoodAttributes>,
    .normalise = detail::normalise_axis<LikelihoodAttributes>,
    .infer = infer_likelihood,
    .composition = likelihood,
};

NDArray softmax_cross_entropy(
    const NDArray& logits, const NDArray& labels, const CrossEntropyOptions& options, SourceLocation site) {
  Arrays inputs{logits, labels};
  if (options.class_weights.defined())
    inputs.push_back(options.class_weights);
  if (options.smoothing != 0 || inputs.size() > 2) {
    const WeightedAttributes how{.axis = options.axis, .ignored = options.ignored, .smoothing = options.smoothing};
    return invoke(k_weighted_cross_entropy, inputs, Attributes::of(how), site)[0];
  }
  detail::CrossEntropyAttributes how{.axis = options.axis};
  how.ignore(options.ignored);
  return invoke(k_softmax_cross_entropy, inputs, Attributes::of(how), site)[0];
}

NDArray negative_log_likelihood(
    const NDArray& log_probs, const NDArray& labels, const LikelihoodOptions& options, SourceLocation site) {
  const Attributes how = Attributes::of(LikelihoodAttributes{options.axis, options.ignored});
  if (options.class_weights.defined())
    return invoke_one(k_weighted_likelihood, {log_probs, labels, options.class_weights}, how, site);
  return invoke_one(k_negative_log_likelihood, {log_probs, labels}, how, site);
}

}  // namespace sluice
