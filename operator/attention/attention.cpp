#include <cmath>
#include <limits>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
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

struct AttentionAttributes {
  bool causal = false;
  std::optional<double> scale = {};
  double dropout = 0;

  template <class V>
  void visit(V&& v) {
    v.field("causal", causal);
    v.field("scale", scale);
    v.field("dropout", dropout);
  }
};

void check_dropout(double rate) {
  require<ValueError>(rate >= 0 && rate <= 1, [&] {
    return message(detail::k_attention.name, ": dropout must be between 0 and 1, not ", rate);
  });
}

Specs infer_attention(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(inputs.size() == 3 || inputs.size() == 4, [&] {
    return message(op.name, ": takes q, k, v and maybe a mask, was given ", inputs.size(), " inputs");
  });
  detail::check_attention_operands(op, inputs);
  const auto& how = attributes.as<AttentionAttributes>();
  check_dropout(how.dropout);
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
  return {{{q[0], q[1], q[2], inputs[2].shape[3]}, inputs[0].dtype, inputs[0].device}};
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

// Whether it is one kernel: of half types, on a GPU whose library has it, where nothing is drawn and the mask has no
// gradient.
bool is_fused([[maybe_unused]] std::span<const NDArray> inputs, [[maybe_unused]] const AttentionAttributes& how) {
#if SLUICE_CUDA
  const Specs specs = detail::specs_of(inputs);
  if (!specs[0].device.is_gpu() || how.dropout > 0 || !detail::fits_fused_attention(specs))
    return false;
  const bool is_masked = inputs.size() > 3;
  if (is_masked && autograd::is_recording() && detail::is_recorded(inputs.subspan(3)))
    return false;
  for (const NDArray& x : inputs.first(3))
    detail::extents_beside_batch(x);  // which all this depends on
  detail::AttentionProblem problem = detail::attention_problem(
      detail::AttentionPass::forward, specs[0].shape, specs[1].shape, specs[2].shape, specs[0].dtype, {how.causal, 1});
  if (is_masked)
    problem.add_mask(added_shape(specs[3].shape), added_type(specs[3].dtype, specs[0].dtype));
  return detail::attention_has_kernel(inputs[0].engine(), specs[0].device, problem);
#else
  return false;
#endif
}

NDArray added_mask(const NDArray& mask, DType scores, SourceLocation site) {
  const DType dtype = added_type(mask.dtype(), scores);
  constexpr double hidden = -std::numeric_limits<double>::infinity();
  NDArray added = mask.astype(is_floating(mask.dtype()) ? dtype : bool_, site);
  if (!is_floating(mask.dtype()))
    added = where(added, full({1}, 0, {.dtype = dtype, .device = mask.device()}), hidden, site);
  while (detail::unseen_shape(added).ndim() < 4)
    added = added.expand_dims(0, site);
  return added;
}

Arrays attend(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_attention(detail::k_attention, detail::specs_of(inputs), attributes);
  const auto& how = attributes.as<AttentionAttributes>();
  const double width = static_cast<double>(detail::unseen_shape(inputs[0])[3]);
  const double scale = how.scale.value_or(1 / std::sqrt(width));
  const NDArray mask = inputs.size() > 3 ? inputs[3] : NDArray();
  if (is_fused(inputs, how)) {
    Arrays given(inputs.begin(), inputs.begin() + 3);
    if (mask.defined())
      given.push_back(added_mask(mask, inputs[0].dtype(), site));
    const detail::FusedAttentionAttributes fused{how.causal, scale};
    return {invoke(detail::attention_fused_op, given, Attributes::of(fused), site)[0].swapaxes(1, 2, site)};
  }
  return {detail::attention_composed({inputs[0], inputs[1], inputs[2], mask, how.causal, scale, how.dropout}, site)};
}

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
    .composition = attend,
};

OperatorList attention_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_attention, &k_split_heads, &k_join_heads, &attention_fused_op, &attention_fused_backward_op};
  return list;
}

}  // namespace detail

NDArray scaled_dot_product_attention(
    const NDArray& q, const NDArray& k, const NDArray& v, const AttentionOptions& options, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_dropout(options.dropout);
    const bool drops = autograd::is_training();
    const AttentionAttributes how{options.causal, options.scale, drops ? options.dropout : 0};
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
