// Attention as graphs whose operations cuDNN knows to be one kernel of tiles: it looks for these very operations, in
// this order, so that nothing here can be put more simply.
#include <sluice/operator/attention/plan_cuda.h>

namespace sluice::detail {
namespace {

using Part = CudnnGraph::Part;
constexpr std::int64_t k_alignment = 16;

Shape turned(const Shape& shape) {
  return {shape[0], shape[1], shape[3], shape[2]};
}
Shape rows_of(const Shape& scores) {
  return {scores[0], scores[1], scores[2], 1};
}

class AttentionGraph {
 public:
  explicit AttentionGraph(const AttentionProblem& problem) : p_(problem) {}

  void build_forward() {
    const Part q = operand(AttentionId::q, p_.q, p_.q_strides);
    const Part k = operand(AttentionId::k, turned(p_.k), turned(p_.k_strides));
    const Part v = operand(AttentionId::v, p_.v, p_.v_strides);
    const Part y = operand(AttentionId::y, p_.y(), p_.y_strides);
    const Part scores = masked(added(scaled_scores(q, k)));
    const Part most = rows(), total = rows(), statistics = kept_rows(AttentionId::statistics);
    g_.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, most);
    const Part powers = g_.pointwise(CUDNN_POINTWISE_EXP, g_.pointwise(CUDNN_POINTWISE_SUB, scores, most));
    g_.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, total);
    g_.pointwise(CUDNN_POINTWISE_ADD, most, g_.pointwise(CUDNN_POINTWISE_LOG, total), statistics);
    const Part weights = g_.between(p_.scores(), cudnn_type(p_.dtype));
    g_.pointwise(CUDNN_POINTWISE_DIV, powers, total, weights);
    g_.product(weights, v, y);
  }

  void build_backward() {
    const Part q = operand(AttentionId::q, p_.q, p_.q_strides);
    const Part k = operand(AttentionId::k, turned(p_.k), turned(p_.k_strides));
    const Part v = operand(AttentionId::v, turned(p_.v), turned(p_.v_strides));
    const Part y = operand(AttentionId::y, p_.y(), p_.y_strides);
    const Part head = operand(AttentionId::head, p_.y(), p_.head_strides);
    const Part sums = row_sums(y, head);
    const Part scores = added(scaled_scores(q, k));
    const Part below = g_.pointwise(CUDNN_POINTWISE_SUB, scores, kept_rows(AttentionId::statistics));
    const Part weights = g_.pointwise(CUDNN_POINTWISE_EXP, masked(below));
    summed_over_queries(weights, head, operand(AttentionId::dv, p_.v, p_.dv_strides), p_.v);
    const Part of_weights = g_.between(p_.scores());
    g_.product(head, v, of_weights);
    const Part less = g_.pointwise(CUDNN_POINTWISE_SUB, of_weights, sums);
    const Part of_scores = g_.pointwise(CUDNN_POINTWISE_MUL, g_.pointwise(CUDNN_POINTWISE_MUL, less, weights), scale_);
    summed_over_queries(of_scores, q, operand(AttentionId::dk, p_.k, p_.dk_strides), p_.k);
    const Part keys = g_.between(p_.k, cudnn_type(p_.dtype), p_.k_strides);
    g_.reshape(k, keys);
    g_.product(of_scores, keys, operand(AttentionId::dq, p_.q, p_.dq_strides));
  }

  CudnnGraph take() { return std::move(g_); }

 private:
  Part operand(std::int64_t id, const Shape& extents, const Shape& strides) {
    return g_.array(id, p_.dtype, extents, strides, k_alignment);
  }
  Part rows() { return g_.between(rows_of(p_.scores())); }
  Part kept_rows(std::int64_t id) {
    const Shape shape = rows_of(p_.scores());
    return g_.array(id, DType::float32, shape, contiguous_strides(shape), p_.statistics_alignment);
  }

  Part scaled_scores(Part q, Part k) {
    const Part sums = g_.between(p_.scores());
    g_.product(q, k, sums);
    scale_ = g_.number(AttentionId::scale, 4);
    return g_.pointwise(CUDNN_POINTWISE_MUL, sums, scale_);
  }
  Part added(Part scores) {
    if (!p_.mask_dtype)
      return scores;
    const Part mask = g_.array(AttentionId::mask, *p_.mask_dtype, p_.mask, p_.mask_strides, p_.mask_alignment);
    return g_.pointwise(CUDNN_POINTWISE_ADD, scores, mask);
  }
  Part masked(Part scores) {
    if (!p_.causal)
      return scores;
    const Part queries = g_.places(scores, 2), keys = g_.places(scores, 3);
    return g_.where_not_before(queries, keys, scores, g_.number(AttentionId::hidden, 4));
  }

  // Of each query, the sum of y times its gradient: what the softmax takes from the gradients of its weights.
  Part row_sums(Part y, Part head) {
    const Part products = g_.pointwise(CUDNN_POINTWISE_MUL, head, y), sums = rows();
    g_.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
    const Part kept = kept_rows(AttentionId::row_sums);
    g_.pointwise(CUDNN_POINTWISE_MUL, sums, g_.number(AttentionId::one, 4), kept);
    return kept;
  }
  // left^T right, of heads that share keys the sum.
  void summed_over_queries(Part left, Part right, Part to, const Shape& shape) {
    const Shape scores = p_.scores(), strides = contiguous_strides(scores);
    const Part across = g_.between(turned(scores), cudnn_type(p_.dtype), turned(strides));
    g_.reshape(left, across);
    if (scores[1] == shape[1])
      return g_.product(across, right, to);
    const Part each = g_.between({shape[0], scores[1], shape[2], shape[3]}, cudnn_type(p_.dtype));
    g_.product(across, right, each);
    g_.reduce(CUDNN_REDUCE_TENSOR_ADD, each, to);
  }

  const AttentionProblem& p_;
  CudnnGraph g_;
  Part scale_ = 0;
};

}  // namespace

CudnnGraph attention_graph(const AttentionProblem& problem) {
  AttentionGraph graph(problem);
  if (problem.pass == AttentionPass::forward)
    graph.build_forward();
  else
    graph.build_backward();
  return graph.take();
}

}  // namespace sluice::detail
