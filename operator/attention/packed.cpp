// packed_attention: queries, keys and values come as one array, and so does their gradient.
#include <limits>

#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/attention/attend.h>
#include <sluice/operator/attention/composed.h>
#include <sluice/operator/attention/fused.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>

namespace sluice {

namespace {

struct PackedAttributes : detail::AttentionAttributes {
  std::int64_t heads = 1, kv_heads = 0;

  template <class V>
  void visit(V&& v) {
    v.field("heads", heads);
    v.field("kv_heads", kv_heads);
    AttentionAttributes::visit(v);
  }
  std::int64_t shared() const { return kv_heads == 0 ? heads : kv_heads; }
  std::int64_t all() const { return heads + 2 * shared(); }
};

// q, k and v as they are within.
Specs heads_in(const Operator& op, const ArraySpec& packed, const PackedAttributes& how) {
  const Shape& x = packed.shape;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 4;  // all of them are a number, too
  const bool counts = how.heads >= 1 && how.heads <= most && how.kv_heads >= 0 && how.kv_heads <= most;
  require<ShapeError>(x.ndim() == 3 && counts && x[2] % how.all() == 0, [&] {
    return message(
        op.name, ": ", x, " is not (batch, length, (", how.heads, " heads + 2 * ", how.shared(), ") * width)");
  });
  Specs heads(3, packed);
  heads[0].shape = {x[0], how.heads, x[1], x[2] / how.all()};
  heads[1].shape = heads[2].shape = {x[0], how.shared(), x[1], x[2] / how.all()};
  return heads;
}

Specs infer_packed(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(inputs.size() == 1 || inputs.size() == 2, [&] {
    return message(op.name, ": takes one array and maybe a mask, was given ", inputs.size(), " inputs");
  });
  const auto& how = attributes.as<PackedAttributes>();
  Specs apart = heads_in(op, inputs[0], how);
  if (inputs.size() > 1)
    apart.push_back(inputs[1]);
  const Shape y = detail::check_attention(op, apart, how).shape;
  return {{{y[0], y[2], y[1] * y[3]}, inputs[0].dtype, inputs[0].device}};
}

Arrays attend_packed(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_packed(detail::k_packed_attention, detail::specs_of(inputs), attributes);
  const auto& how = attributes.as<PackedAttributes>();
  const Specs heads = heads_in(detail::k_packed_attention, detail::spec_of(inputs[0]), how);
  const NDArray mask = inputs.size() > 1 ? inputs[1] : NDArray();
  detail::extents_beside_batch(inputs[0]);
  const Shape& q = heads[0].shape;
  const NDArray x = inputs[0].reshape(detail::with_open_rows({q[0], q[2], how.all(), q[3]}), site);
  if (detail::attention_is_fused(heads, x.engine(), mask, how, how.shared())) {
    Arrays given{x};
    if (mask.defined())
      given.push_back(detail::attention_added_mask(mask, x.dtype(), site));
    const detail::FusedAttentionAttributes fused{how.causal, how.scale_of(q[3]), how.shared()};
    const NDArray y = invoke(detail::attention_fused_op, given, Attributes::of(fused), site)[0];
    return {y.reshape(detail::with_open_rows({q[0], q[2], q[1] * q[3]}), site)};
  }
  Arrays apart = detail::packed_apart(x, how.shared(), site);
  if (mask.defined())
    apart.push_back(mask);
  return {join_heads(detail::attend(apart, how, site), site)};
}

}  // namespace

namespace detail {

constinit const Operator k_packed_attention{
    .name = "packed_attention",
    .inputs = -1,
    .attributes = &attribute_type<PackedAttributes>,
    .infer = infer_packed,
    .composition = attend_packed,
};

}  // namespace detail

NDArray packed_attention(
    const NDArray& qkv,
    std::int64_t heads,
    std::int64_t kv_heads,
    const AttentionOptions& options,
    SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const PackedAttributes how{detail::attention_told(detail::k_packed_attention, options), heads, kv_heads};
    if (options.mask.defined())
      return invoke_one(detail::k_packed_attention, {qkv, options.mask}, Attributes::of(how), site);
    return invoke_one(detail::k_packed_attention, {qkv}, Attributes::of(how), site);
  });
}

}  // namespace sluice
