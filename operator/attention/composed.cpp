#include <algorithm>
#include <limits>

#include <sluice/engine/error.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/attention/composed.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/random/kernels.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/softmax/softmax.h>

namespace sluice::detail {

namespace {

constexpr double k_hidden = -std::numeric_limits<double>::infinity();

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
    return heads == groups ? x : x.reshape(with_open_rows(shape), site);
  }
  NDArray apart(const NDArray& x, std::int64_t width, SourceLocation site) const {
    return heads == groups ? x : x.reshape(with_open_rows({batch, heads, queries, width}), site);
  }
};

Extents extents_of(const NDArray& q, const NDArray& k) {
  const Shape of_q = extents_beside_batch(q), of_k = extents_beside_batch(k);
  return {unseen_shape(q)[0], of_q[1], of_k[1], of_q[2], of_k[2]};
}

/// Scores, and which of them count: undefined where all do.
struct Scores {
  NDArray sums, counts;

  NDArray weights(SourceLocation site) const {
    return counts.defined() ? masked_softmax(sums, counts, -1, 1, site) : softmax(sums, -1, site);
  }
};

Scores scores_of(const ComposedAttention& call, const Extents& n, SourceLocation site) {
  const std::int64_t width = unseen_shape(call.q)[3];
  const NDArray queries = n.grouped(multiply(call.q, call.scale, site), width, site);
  Scores scores{n.apart(matmul(queries, call.k.swapaxes(2, 3, site), site), n.keys, site), NDArray()};
  const NDArray& mask = call.mask;
  if (mask.defined() && is_floating(mask.dtype())) {
    scores.sums = add(scores.sums, mask, site);
    scores.counts = not_equal(mask, k_hidden, site);
  } else if (mask.defined()) {
    scores.counts = not_equal(mask, 0, site);
  }
  if (call.causal) {
    const NDArray seen = causal_mask(n.queries, n.keys, call.q.device(), site);
    scores.counts = scores.counts.defined() ? logical_and(scores.counts, seen, site) : seen;
  }
  return scores;
}

// Half types widened.
ComposedAttention wide(const ComposedAttention& call, SourceLocation site) {
  ComposedAttention widened = call;
  for (NDArray* x : {&widened.q, &widened.k, &widened.v}) {
    if (size_of(x->dtype()) < sizeof(float))
      *x = x->astype(float32, site);
  }
  return widened;
}

}  // namespace

void check_attention_operands(const Operator& op, std::span<const ArraySpec> inputs) {
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

Arrays packed_apart(const NDArray& packed, std::int64_t kv_heads, SourceLocation site) {
  const std::int64_t heads = extents_beside_batch(packed)[2] - 2 * kv_heads;
  // Slices, which graphs know to be views.
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return packed.slice(2, begin, end, 1, site).swapaxes(1, 2, site);
  };
  return {part(0, heads), part(heads, heads + kv_heads), part(heads + kv_heads, heads + 2 * kv_heads)};
}

NDArray attention_composed(const ComposedAttention& given, SourceLocation site) {
  const ComposedAttention call = wide(given, site);
  const Extents n = extents_of(call.q, call.k);
  const std::int64_t of_values = unseen_shape(call.v)[3];
  NDArray weights = scores_of(call, n, site).weights(site).astype(call.v.dtype(), site);
  if (call.dropout > 0)
    weights = invoke(k_dropout, {&weights, 1}, Attributes::of(DropoutAttributes{call.dropout}), site)[0];
  const NDArray y = matmul(n.grouped(weights, n.keys, site), call.v, site);
  return n.apart(y, of_values, site).astype(given.v.dtype(), site);
}

Arrays attention_with_statistics(const ComposedAttention& given, SourceLocation site) {
  const ComposedAttention call = wide(given, site);
  const Extents n = extents_of(call.q, call.k);
  const Scores scores = scores_of(call, n, site);
  const NDArray shown = scores.counts.defined() ? where(scores.counts, scores.sums, k_hidden, site) : scores.sums;
  const NDArray statistics = logsumexp(shown, {-1}, false, site);
  const NDArray y = matmul(n.grouped(scores.weights(site), n.keys, site), call.v, site);
  return {n.apart(y, unseen_shape(call.v)[3], site).astype(given.v.dtype(), site), statistics};
}

Arrays attention_gradients(
    const ComposedAttention& given,
    const NDArray& given_head,
    const NDArray& statistics_head,
    bool wants_mask,
    SourceLocation site) {
  const ComposedAttention call = wide(given, site);
  const Extents n = extents_of(call.q, call.k);
  const std::int64_t width = unseen_shape(call.q)[3], of_values = unseen_shape(call.v)[3];
  const NDArray weights = scores_of(call, n, site).weights(site);
  NDArray of_weights, dv;
  if (given_head.defined()) {
    const NDArray head = n.grouped(given_head.astype(call.v.dtype(), site), of_values, site);
    dv = matmul(n.grouped(weights, n.keys, site), head, true, false, site).astype(given.v.dtype(), site);
    of_weights = n.apart(matmul(head, call.v, false, true, site), n.keys, site);
    of_weights = subtract(of_weights, sum(multiply(of_weights, weights, site), {-1}, true, site), site);
  }
  if (statistics_head.defined()) {
    const NDArray each = statistics_head.astype(call.q.dtype(), site).expand_dims(3, site);
    of_weights = of_weights.defined() ? add(of_weights, each, site) : each;
  }
  const NDArray of_scores = multiply(weights, of_weights, site), across = n.grouped(of_scores, n.keys, site);
  const NDArray dq = multiply(n.apart(matmul(across, call.k, site), width, site), call.scale, site);
  const NDArray dk = multiply(matmul(across, n.grouped(call.q, width, site), true, false, site), call.scale, site);
  Arrays grads{dq.astype(given.q.dtype(), site), dk.astype(given.k.dtype(), site), dv};
  if (wants_mask)
    grads.push_back(sum_to_shape(of_scores, unseen_shape(call.mask), site).astype(call.mask.dtype(), site));
  return grads;
}

}  // namespace sluice::detail
