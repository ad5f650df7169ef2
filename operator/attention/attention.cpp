#include <cmath>
#include <limits>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/attention/attend.h>
#include <sluice/operator/attention/attention.h>
#include <sluice/operator/attention/composed.h>
#include <sluice/operator/attention/fused.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>

// Made of two products and a softmax, whose gradients it has, or one fused kernel where a GPU has it.
namespace sluice {

namespace {

using detail::AttentionAttributes;

void check_dropout(const Operator& op, double rate) {
  require<ValueError>(
      rate >= 0 && rate <= 1, [&] { return message(op.name, ": dropout must be between 0 and 1, not ", rate); });
}

Specs infer_attention(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(inputs.size() == 3 || inputs.size() == 4, [&] {
    return message(op.name, ": takes q, k, v and maybe a mask, was given ", inputs.size(), " inputs");
  });
  return {detail::check_attention(op, inputs, attributes.as<AttentionAttributes>())};
}

// What a mask is as something that is added to the scores.
DType added_type(DType mask, DType scores) {
  return !is_floating(mask) ? scores : mask == float64 ? float32 : mask;
}
Shape added_shape(const Shape& mask) {
  Shape shape{1, 1, 1, 1};
  for (int axis = 0; axis < mask.ndim(); ++axis)
    shape[4 - mask.ndim() + axis] = mask[axis];
  return shape;
}

Arrays attended(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_attention(detail::k_attention, detail::specs_of(inputs), attributes);
  return {detail::attend(inputs, attributes.as<AttentionAttributes>(), site)};
}

}  // namespace

double detail::AttentionAttributes::scale_of(std::int64_t width) const {
  return scale.value_or(1 / std::sqrt(static_cast<double>(width)));
}

detail::AttentionAttributes detail::attention_told(const Operator& op, const AttentionOptions& options) {
  check_dropout(op, options.dropout);
  return {options.causal, options.scale, autograd::is_training() ? options.dropout : 0};
}

ArraySpec detail::check_attention(
    const Operator& op, std::span<const ArraySpec> inputs, const AttentionAttributes& how) {
  check_attention_operands(op, inputs);
  check_dropout(op, how.dropout);
  require<ValueError>(!how.scale || std::isfinite(*how.scale), [&] {
    return message(op.name, ": scale must be finite, not ", *how.scale);
  });
  const Shape &q = inputs[0].shape, &k = inputs[1].shape;
  const Shape scores{q[0], q[1], q[2], k[2]};
  if (inputs.size() > 3) {
    const Shape& mask = inputs[3].shape;
    require<ShapeError>(mask.ndim() <= 4 && broadcast_shape(scores, mask, op.name) == scores, [&] {
      return message(op.name, ": a mask of shape ", mask, " does not broadcast to scores of shape ", scores);
    });
  }
  return {{q[0], q[1], q[2], inputs[2].shape[3]}, inputs[0].dtype, inputs[0].device};
}

bool detail::attention_is_fused(
    [[maybe_unused]] const Specs& heads,
    [[maybe_unused]] Engine& engine,
    [[maybe_unused]] const NDArray& mask,
    [[maybe_unused]] const AttentionAttributes& how,
    [[maybe_unused]] std::int64_t kv_heads) {
#if SLUICE_CUDA
  const Device device = heads[0].device;
  if (!device.is_gpu() || how.dropout > 0 || !fits_fused_attention(heads))
    return false;
  if (mask.defined() && autograd::is_recording() && is_recorded({&mask, 1}))
    return false;
  const auto has = [&](AttentionPass pass) {
    AttentionProblem problem = attention_problem(
        pass, heads[0].shape, heads[1].shape, heads[2].shape, heads[0].dtype, {how.causal, 1, kv_heads});
    if (mask.defined())
      problem.add_mask(added_shape(unseen_shape(mask)), added_type(mask.dtype(), heads[0].dtype));
    return attention_has_kernel(engine, device, problem);
  };
  return has(AttentionPass::forward) && (kv_heads == 0 || has(AttentionPass::backward));
#else
  return false;
#endif
}

NDArray detail::attention_added_mask(const NDArray& mask, DType scores, SourceLocation site) {
  const DType dtype = added_type(mask.dtype(), scores);
  constexpr double hidden = -std::numeric_limits<double>::infinity();
  NDArray added = mask.astype(is_floating(mask.dtype()) ? dtype : bool_, site);
  if (!is_floating(mask.dtype()))
    added = where(added, full({1}, 0, {.dtype = dtype, .device = mask.device()}), hidden, site);
  while (detail::unseen_shape(added).ndim() < 4)
    added = added.expand_dims(0, site);
  return added;
}

NDArray detail::attend(std::span<const NDArray> inputs, const AttentionAttributes& how, SourceLocation site) {
  const double scale = how.scale_of(unseen_shape(inputs[0])[3]);
  const NDArray mask = inputs.size() > 3 ? inputs[3] : NDArray();
  if (attention_is_fused(specs_of(inputs.first(3)), inputs[0].engine(), mask, how, 0)) {
    for (const NDArray& x : inputs.first(3))
      extents_beside_batch(x);  // which this depends on
    Arrays given(inputs.begin(), inputs.begin() + 3);
    if (mask.defined())
      given.push_back(attention_added_mask(mask, inputs[0].dtype(), site));
    const FusedAttentionAttributes fused{how.causal, scale};
    return invoke(attention_fused_op, given, Attributes::of(fused), site)[0].swapaxes(1, 2, site);
  }
  return attention_composed({inputs[0], inputs[1], inputs[2], mask, how.causal, scale, how.dropout}, site);
}

namespace {

// -- heads apart and together ---------------------------------------------------------------------------------------
struct HeadsAttributes {
  std::int64_t heads = 1;

  template <class V>
  void visit(V&& v) {
    v.field("heads", heads);
  }
};

Specs infer_split_heads(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const std::int64_t heads = attributes.as<HeadsAttributes>().heads;
  ArraySpec y = inputs[0];
  const Shape& x = inputs[0].shape;
  require<ShapeError>(x.ndim() == 3 && heads >= 1 && x[2] % heads == 0, [&] {
    return message(op.name, ": x of shape ", x, " must be (batch, length, ", heads, " heads * width)");
  });
  y.shape = {x[0], heads, x[1], x[2] / heads};
  return {y};
}

Arrays heads_apart(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Shape y = infer_split_heads(detail::k_split_heads, detail::specs_of(inputs), attributes)[0].shape;
  detail::extents_beside_batch(inputs[0]);
  const Shape apart{y[0], y[2], y[1], y[3]};
  return {inputs[0].reshape(detail::with_open_rows(apart), site).swapaxes(1, 2, site)};
}

Specs infer_join_heads(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  ArraySpec y = inputs[0];
  const Shape& x = inputs[0].shape;
  require<ShapeError>(
      x.ndim() == 4, [&] { return message(op.name, ": x must be (batch, heads, length, width), not ", x); });
  y.shape = {x[0], x[2], x[1] * x[3]};
  return {y};
}

Arrays heads_together(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Shape y = infer_join_heads(detail::k_join_heads, detail::specs_of(inputs), attributes)[0].shape;
  detail::extents_beside_batch(inputs[0]);
  return {inputs[0].swapaxes(1, 2, site).reshape(detail::with_open_rows(y), site)};
}

}  // namespace

namespace detail {

constinit const Operator k_split_heads{
    .name = "split_heads",
    .attributes = &attribute_type<HeadsAttributes>,
    .infer = infer_split_heads,
    .composition = heads_apart,
};
constinit const Operator k_join_heads{
    .name = "join_heads",
    .infer = infer_join_heads,
    .composition = heads_together,
};
constinit const Operator k_attention{
    .name = "scaled_dot_product_attention",
    .inputs = -1,
    .attributes = &attribute_type<AttentionAttributes>,
    .infer = infer_attention,
    .composition = attended,
};

OperatorList attention_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_attention,
      &k_packed_attention,
      &k_split_heads,
      &k_join_heads,
      &attention_fused_op,
      &attention_fused_backward_op};
  return list;
}

}  // namespace detail

NDArray scaled_dot_product_attention(
    const NDArray& q, const NDArray& k, const NDArray& v, const AttentionOptions& options, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const AttentionAttributes how = detail::attention_told(detail::k_attention, options);
    if (options.mask.defined())
      return invoke_one(detail::k_attention, {q, k, v, options.mask}, Attributes::of(how), site);
    return invoke_one(detail::k_attention, {q, k, v}, Attributes::of(how), site);
  });
}

NDArray split_heads(const NDArray& x, std::int64_t heads, SourceLocation site) {
  return invoke_one(detail::k_split_heads, {x}, Attributes::of(HeadsAttributes{heads}), site);
}

NDArray join_heads(const NDArray& x, SourceLocation site) {
  return invoke_one(detail::k_join_heads, {x}, {}, site);
}

}  // namespace sluice
