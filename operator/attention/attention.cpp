#include <cmath>
#include <limits>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/attention/attention.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/random/dropout.h>
#include <sluice/operator/softmax/softmax.h>

// Made of two products and a softmax, whose gradients it has.
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

void check_operands(const Operator& op, std::span<const ArraySpec> inputs) {
  require<ValueError>(inputs.size() == 3 || inputs.size() == 4, [&] {
    return message(op.name, ": takes q, k, v and maybe a mask, was given ", inputs.size(), " inputs");
  });
  const ArraySpec &q = inputs[0], &k = inputs[1], &v = inputs[2];
  require<DTypeError>(is_floating(q.dtype) && k.dtype == q.dtype && v.dtype == q.dtype, [&] {
    return message(op.name, ": takes q, k and v of one floating type, not ", q.dtype, ", ", k.dtype, " and ", v.dtype);
  });
  const Shape &qs = q.shape, &ks = k.shape, &vs = v.shape;
  const bool has_axes = qs.ndim() == 4 && ks.ndim() == 4 && vs.ndim() == 4;
  const bool fits = has_axes && qs[0] == ks[0] && qs[0] == vs[0] && ks[1] == vs[1] && ks[2] == vs[2] && qs[3] == ks[3];
  require<ShapeError>(fits, [&] {
    return message(
        op.name,
        ": q ",
        qs,
        ", k ",
        ks,
        " and v ",
        vs,
        " must be (batch, heads, length, width), of one batch, k of q's width, v of k's heads and length");
  });
  require<ShapeError>(qs[1] == ks[1] || (ks[1] > 0 && qs[1] % ks[1] == 0), [&] {
    return message(op.name, ": the ", qs[1], " heads of q ", qs, " are not a multiple of the ", ks[1], " of k ", ks);
  });
}

Specs infer_attention(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_operands(op, inputs);
  const auto& how = attributes.as<AttentionAttributes>();
  require<ValueError>(how.dropout >= 0 && how.dropout <= 1, [&] {
    return message(op.name, ": dropout must be between 0 and 1, not ", how.dropout);
  });
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

// Which keys a query sees, by their places.
NDArray causal_mask(std::int64_t queries, std::int64_t keys, Device device, SourceLocation site) {
  const ArrayOptions how{.dtype = int64, .device = device};
  const NDArray query = arange(0, static_cast<double>(queries), 1, how, site).expand_dims(1, site);
  return greater_equal(query, arange(0, static_cast<double>(keys), 1, how, site), site);
}

/// The extents of a call; of the batch what it is now.
struct Extents {
  std::int64_t batch, heads, groups, queries, keys;

  // Heads of a group as one longer sequence, and back.
  NDArray grouped(const NDArray& x, std::int64_t width, SourceLocation site) const {
    const Shape shape{batch, groups, heads / std::max<std::int64_t>(groups, 1) * queries, width};
    return heads == groups ? x : x.reshape(detail::with_open_rows(shape), site);
  }
  NDArray apart(const NDArray& x, std::int64_t width, SourceLocation site) const {
    return heads == groups ? x : x.reshape(detail::with_open_rows({batch, heads, queries, width}), site);
  }
};

Extents extents_of(const NDArray& q, const NDArray& k) {
  const Shape of_q = detail::extents_beside_batch(q), of_k = detail::extents_beside_batch(k);
  return {detail::unseen_shape(q)[0], of_q[1], of_k[1], of_q[2], of_k[2]};
}

// The softmax of the scores of keys that count, 0 for the others.
NDArray weights_of(const NDArray& scores, const NDArray& mask, bool causal, const Extents& n, SourceLocation site) {
  NDArray sums = scores, counts;
  if (mask.defined() && is_floating(mask.dtype())) {
    sums = add(scores, mask, site);
    counts = not_equal(mask, -std::numeric_limits<double>::infinity(), site);
  } else if (mask.defined()) {
    counts = not_equal(mask, 0, site);
  }
  if (causal) {
    const NDArray seen = causal_mask(n.queries, n.keys, scores.device(), site);
    counts = counts.defined() ? logical_and(counts, seen, site) : seen;
  }
  return counts.defined() ? masked_softmax(sums, counts, -1, 1, site) : softmax(sums, -1, site);
}

Arrays attend(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_attention(detail::k_attention, detail::specs_of(inputs), attributes);
  const auto& how = attributes.as<AttentionAttributes>();
  const NDArray &q = inputs[0], &k = inputs[1], &v = inputs[2];
  const Extents n = extents_of(q, k);
  const std::int64_t width = detail::unseen_shape(q)[3], of_values = detail::unseen_shape(v)[3];
  const double scale = how.scale.value_or(1 / std::sqrt(static_cast<double>(width)));
  // Before the product, where half types have room.
  const NDArray queries = n.grouped(multiply(q, scale, site), width, site);
  const NDArray scores = n.apart(matmul(queries, k.swapaxes(2, 3, site), site), n.keys, site);
  const NDArray mask = inputs.size() > 3 ? inputs[3] : NDArray();
  NDArray weights = weights_of(scores, mask, how.causal, n, site).astype(v.dtype(), site);
  if (how.dropout > 0)
    weights = dropout(weights, how.dropout, site);
  return {n.apart(matmul(n.grouped(weights, n.keys, site), v, site), of_values, site)};
}

}  // namespace

namespace detail {

constinit const Operator k_attention{
    .name = "scaled_dot_product_attention",
    .inputs = -1,
    .attributes = &attribute_type<AttentionAttributes>,
    .infer = infer_attention,
    .composition = attend,
};

OperatorList attention_operators() noexcept {
  static constexpr const Operator* list[] = {&k_attention};
  return list;
}

}  // namespace detail

NDArray scaled_dot_product_attention(
    const NDArray& q, const NDArray& k, const NDArray& v, const AttentionOptions& options, SourceLocation site) {
  const AttentionAttributes how{options.causal, options.scale, options.dropout};
  if (options.mask.defined())
    return invoke_one(detail::k_attention, {q, k, v, options.mask}, Attributes::of(how), site);
  return invoke_one(detail::k_attention, {q, k, v}, Attributes::of(how), site);
}

NDArray split_heads(const NDArray& x, std::int64_t heads, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const Shape shape = detail::object_of(x, "split_heads").shape;
    require<ShapeError>(shape.ndim() == 3 && heads >= 1 && shape[2] % heads == 0, [&] {
      return message("split_heads: x of shape ", shape, " must be (batch, length, ", heads, " heads * width)");
    });
    detail::extents_beside_batch(x);
    const Shape apart{shape[0], shape[1], heads, shape[2] / heads};
    return x.reshape(detail::with_open_rows(apart), site).swapaxes(1, 2, site);
  });
}

NDArray join_heads(const NDArray& x, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const Shape shape = detail::object_of(x, "join_heads").shape;
    require<ShapeError>(
        shape.ndim() == 4, [&] { return message("join_heads: x must be (batch, heads, length, width), not ", shape); });
    detail::extents_beside_batch(x);
    const Shape joined{shape[0], shape[2], shape[1] * shape[3]};
    return x.swapaxes(1, 2, site).reshape(detail::with_open_rows(joined), site);
  });
}

}  // namespace sluice
