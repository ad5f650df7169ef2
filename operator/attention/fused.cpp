#include <algorithm>
#include <cmath>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/attention/composed.h>
#include <sluice/operator/attention/fused.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_chunk = 8;         // elements of a half type that are read at once
constexpr std::int64_t k_most_width = 256;  // that a tile holds

bool is_width(std::int64_t width) {
  return width > 0 && width % k_chunk == 0 && width <= k_most_width;
}

const FusedAttentionAttributes& told(const Attributes& attributes) {
  return attributes.as<FusedAttentionAttributes>();
}

// q, k and v, as (B, H, L, E) each.
Specs heads_of(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const std::int64_t shared = told(attributes).kv_heads;
  require<ValueError>(shared >= 0, [&] { return message(op.name, ": ", shared, " heads of keys"); });
  Specs heads;
  for (const ArraySpec& input : inputs.first(told(attributes).operands()))
    heads.push_back(input);
  if (shared == 0)
    return heads;
  const Shape& all = inputs[0].shape;
  require<ShapeError>(all.ndim() == 4 && shared <= all[2] / 2 && all[2] > 2 * shared, [&] {
    return message(op.name, ": ", all, " is not (batch, length, heads of q and twice ", shared, " of k and v, width)");
  });
  heads.resize(3, inputs[0]);
  heads[0].shape = {all[0], all[2] - 2 * shared, all[1], all[3]};
  heads[1].shape = heads[2].shape = {all[0], shared, all[1], all[3]};
  return heads;
}

void check_operands(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_attention_operands(op, inputs);
  require<DTypeError>(is_half(inputs[0].dtype), [&] {
    return message(op.name, ": takes q, k and v of float16 or bfloat16, not ", inputs[0].dtype);
  });
  require<ShapeError>(fits_fused_attention(inputs), [&] {
    return message(
        op.name,
        ": the widths of q ",
        inputs[0].shape,
        " and v ",
        inputs[2].shape,
        " must be multiples of ",
        k_chunk,
        " up to ",
        k_most_width);
  });
  const double scale = attributes.as<FusedAttentionAttributes>().scale;
  require<ValueError>(std::isfinite(scale), [&] { return message(op.name, ": scale must be finite, not ", scale); });
}

void check_mask(const Operator& op, const ArraySpec& mask, const Shape& scores) {
  require<DTypeError>(is_half(mask.dtype) || mask.dtype == DType::float32, [&] {
    return message(op.name, ": a mask is of float16, bfloat16 or float32, not ", mask.dtype);
  });
  bool fits = mask.shape.ndim() == 4;
  for (int axis = 0; fits && axis < 4; ++axis)
    fits = mask.shape[axis] == scores[axis] || mask.shape[axis] == 1;
  require<ShapeError>(fits, [&] {
    return message(op.name, ": a mask of shape ", mask.shape, " does not broadcast to scores of shape ", scores);
  });
}

void check_count(const Operator& op, std::size_t given, std::size_t least) {
  require<ValueError>(given == least || given == least + 1, [&] {
    return message(op.name, ": takes ", least, " inputs and maybe a mask, was given ", given);
  });
}

Shape heads_last(const Shape& shape) {
  return {shape[0], shape[2], shape[1], shape[3]};
}

Shape scores_of(const Specs& heads) {
  const Shape& q = heads[0].shape;
  return {q[0], q[1], q[2], heads[1].shape[2]};
}

Specs forward_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const std::size_t mask = told(attributes).operands();
  check_count(op, inputs.size(), mask);
  const Specs heads = heads_of(op, inputs, attributes);
  check_operands(op, heads, attributes);
  if (inputs.size() > mask)
    check_mask(op, inputs[mask], scores_of(heads));
  const Shape& q = heads[0].shape;
  return {
      {{q[0], q[2], q[1], heads[2].shape[3]}, inputs[0].dtype, inputs[0].device},
      {{q[0], q[1], q[2]}, DType::float32, inputs[0].device}};
}

Specs backward_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const std::size_t first = told(attributes).operands(), mask = first + 3;
  check_count(op, inputs.size(), mask);
  const Specs heads = heads_of(op, inputs, attributes);
  check_operands(op, heads, attributes);
  if (inputs.size() > mask)
    check_mask(op, inputs[mask], scores_of(heads));
  const Shape& q = heads[0].shape;
  const Shape y{q[0], q[2], q[1], heads[2].shape[3]};
  check_like(op.name, "y", inputs[first], y, inputs[0].dtype);
  check_like(op.name, "statistics", inputs[first + 1], {q[0], q[1], q[2]}, DType::float32);
  check_like(op.name, "the gradient of y", inputs[first + 2], y, inputs[0].dtype);
  if (told(attributes).packed())
    return {inputs[0]};
  Specs gradients = heads;
  for (ArraySpec& gradient : gradients)
    gradient.shape = heads_last(gradient.shape);
  return gradients;
}

ComposedAttention composed(
    std::span<const NDArray> inputs, std::size_t mask, const Attributes& attributes, SourceLocation site) {
  const FusedAttentionAttributes& how = told(attributes);
  const Arrays heads =
      how.packed() ? packed_apart(inputs[0], how.kv_heads, site) : Arrays{inputs[0], inputs[1], inputs[2]};
  const NDArray added = inputs.size() > mask ? inputs[mask] : NDArray();
  return {.q = heads[0], .k = heads[1], .v = heads[2], .mask = added, .causal = how.causal, .scale = how.scale};
}

// The gradients of q, k and v as that of the array that they are parts of; maybe behind it a mask's.
Arrays packed(const Arrays& gradients, const ComposedAttention& call, SourceLocation site) {
  Arrays parts;
  for (std::size_t i = 0; i < 3; ++i) {
    const NDArray part = gradients[i].defined() ? gradients[i] : zeros_like(call.v, site);
    parts.push_back(part.swapaxes(1, 2, site));
  }
  Arrays whole{concat(parts, 2, site)};
  if (gradients.size() > 3)
    whole.push_back(gradients[3]);
  return whole;
}

// Where an operator is composed alone nobody has inferred, and so counted, before.
Arrays compose_forward(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const std::size_t mask = told(attributes).operands();
  check_count(attention_fused_op, inputs.size(), mask);
  Arrays made = attention_with_statistics(composed(inputs, mask, attributes, site), site);
  made[0] = made[0].swapaxes(1, 2, site).copy(site);  // without gaps, as inference says
  return made;
}
Arrays compose_backward(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const std::size_t first = told(attributes).operands(), mask = first + 3;
  check_count(attention_fused_backward_op, inputs.size(), mask);
  const NDArray head = inputs[first + 2].swapaxes(1, 2, site);
  const ComposedAttention call = composed(inputs, mask, attributes, site);
  Arrays made = attention_gradients(call, head, {}, false, site);
  if (told(attributes).packed())
    return packed(made, call, site);
  for (NDArray& gradient : made)
    gradient = gradient.swapaxes(1, 2, site).copy(site);
  return made;
}

// Where one is not for this call, its gradients are composed.
bool has_backward_kernel([[maybe_unused]] const GradientCall& call) {
#if SLUICE_CUDA
  const NDArray& first = call.inputs[0];
  if (!first.device().is_gpu())
    return true;
  const FusedAttentionAttributes& how = told(call.attributes);
  const Specs heads = heads_of(call.op, specs_of(call.inputs), call.attributes);
  AttentionProblem problem =
      attention_problem(AttentionPass::backward, heads[0].shape, heads[1].shape, heads[2].shape, first.dtype(), how);
  if (call.inputs.size() > how.operands()) {
    const NDArray& mask = call.inputs[how.operands()];
    problem.add_mask(unseen_shape(mask), mask.dtype());
  }
  return attention_has_kernel(first.engine(), first.device(), problem);
#else
  return true;
#endif
}

Arrays gradient(const GradientCall& call) {
  const NDArray &head = call.output_grads[0], &statistics_head = call.output_grads[1];
  const SourceLocation site = SourceLocation::current();
  Arrays grads(call.inputs.size());
  if (!head.defined() && !statistics_head.defined())
    return grads;
  const FusedAttentionAttributes& how = told(call.attributes);
  const std::size_t mask = how.operands();
  const bool is_masked = call.inputs.size() > mask, wants_mask = is_masked && call.wanted[mask];
  const bool is_plain = head.defined() && !statistics_head.defined() && !wants_mask && !autograd::is_recording();
  Arrays made;
  if (is_plain && has_backward_kernel(call)) {
    Arrays given;
    for (const NDArray& operand : call.inputs.first(mask))
      given.push_back(operand);
    for (const NDArray& made_of : {call.outputs[0], call.outputs[1], head})
      given.push_back(made_of);
    if (is_masked)
      given.push_back(call.inputs[mask]);
    made = invoke(attention_fused_backward_op, given, call.attributes, site);
    for (std::size_t i = 0; i < made.size() && !how.packed(); ++i)
      made[i] = made[i].swapaxes(1, 2, site);
  } else {
    const ComposedAttention again = composed(call.inputs, mask, call.attributes, site);
    const NDArray of_y = head.defined() ? head.swapaxes(1, 2, site) : NDArray();
    made = attention_gradients(again, of_y, statistics_head, wants_mask, site);
    if (how.packed())
      made = packed(made, again, site);
  }
  std::move(made.begin(), made.end(), grads.begin());
  return grads;
}

// Rows of neighbours, each where a chunk may begin.
bool takes_strides(std::size_t, const Shape& shape, const Shape& strides) {
  bool takes = shape.ndim() == 4 && strides[3] == 1;
  for (int axis = 0; takes && axis < 3; ++axis)
    takes = shape[axis] == 1 || (strides[axis] > 0 && strides[axis] % k_chunk == 0);
  return takes;
}

}  // namespace

bool fits_fused_attention(std::span<const ArraySpec> inputs) {
  return is_half(inputs[0].dtype) && is_width(inputs[0].shape[3]) && is_width(inputs[2].shape[3]);
}

Shape joined_strides(const Shape& shape) {
  const Shape apart = contiguous_strides(heads_last(shape));
  return {apart[0], apart[2], apart[1], apart[3]};
}

Shape packed_strides(const Shape& shape, std::int64_t heads) {
  return joined_strides({shape[0], heads, shape[2], shape[3]});
}

AttentionProblem attention_problem(
    AttentionPass pass,
    const Shape& q,
    const Shape& k,
    const Shape& v,
    DType dtype,
    const FusedAttentionAttributes& how) {
  AttentionProblem problem{.pass = pass, .dtype = dtype, .causal = how.causal, .q = q, .k = k, .v = v};
  problem.q_strides = contiguous_strides(q);
  problem.k_strides = contiguous_strides(k);
  problem.v_strides = contiguous_strides(v);
  problem.y_strides = problem.head_strides = joined_strides(problem.y());
  problem.dq_strides = joined_strides(q);
  problem.dk_strides = joined_strides(k);
  problem.dv_strides = joined_strides(v);
  if (how.packed()) {
    problem.q_strides = problem.dq_strides = packed_strides(q, q[1] + 2 * how.kv_heads);
    problem.k_strides = problem.v_strides = packed_strides(k, q[1] + 2 * how.kv_heads);
    problem.dk_strides = problem.dv_strides = problem.k_strides;
  }
  return problem;
}

void AttentionProblem::add_mask(const Shape& shape, DType type) {
  mask_dtype = type;
  mask = pass == AttentionPass::forward ? shape : Shape{shape[0], shape[1], q[2], k[2]};
  mask_strides = contiguous_strides(mask);
}

const Operator attention_fused_op{
    .name = "attention_fused",
    .inputs = -1,
    .outputs = 2,
    .attributes = &attribute_type<FusedAttentionAttributes>,
    .infer = forward_infer,
    .kernels = {on_gpu(SLUICE_GPU_KERNEL(attention_fused_gpu))},
    .composition = compose_forward,
    .gradient = gradient,
    .saved_inputs = 0b1111,
    .saved_outputs = 0b11,
    .strided_inputs = 0b111,
    .takes_strides = takes_strides,
};

const Operator attention_fused_backward_op{
    .name = "attention_fused_backward",
    .inputs = -1,
    .outputs = -1,
    .attributes = &attribute_type<FusedAttentionAttributes>,
    .infer = backward_infer,
    .kernels = {on_gpu(SLUICE_GPU_KERNEL(attention_fused_backward_gpu))},
    .composition = compose_backward,
    .strided_inputs = 0b101111,
    .takes_strides = takes_strides,
};

}  // namespace sluice::detail
