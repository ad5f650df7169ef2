#include <algorithm>
#include <array>
#include <string_view>

#include <sluice/operator/attention/fused.h>
#include <sluice/operator/control/attributes.h>
#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/fused.h>
#include <sluice/operator/conv/passes.h>
#include <sluice/operator/conv/pooled.h>
#include <sluice/operator/conv/unpooled_relu.h>
#include <sluice/operator/fused/fused.h>
#include <sluice/operator/fused/reduction.h>
#include <sluice/operator/graph/flops.h>
#include <sluice/operator/matmul/activation_bias.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/matmul/product.h>
#include <sluice/operator/pool/geometry.h>
#include <sluice/operator/pool/pool.h>
#include <sluice/operator/reduce/plan.h>
#include <sluice/operator/rnn/problem.h>
#include <sluice/operator/update/attributes.h>

namespace sluice::graph {

namespace {

/// The shapes of a node's arrays.
struct Shapes {
  const Node& node;
  const Graph& graph;

  const Shape& input(std::size_t i) const { return graph.values[node.inputs[i]].spec.shape; }
  const Shape& result(std::size_t i) const { return graph.values[node.results[i].value].spec.shape; }
};

/// How many operations stand behind each element of one array of a node.
struct PerElement {
  std::string_view op;
  std::int64_t count;
};

// Of the first input: those that reduce, and those that give more or less than they are given.
constexpr std::array k_by_input = {
    PerElement{"l1_norm", 2},
    PerElement{"l2_norm", 2},
    PerElement{"max_norm", 2},
    PerElement{"logsumexp", 4},
    PerElement{"nansum", 2},
    PerElement{"softmax_cross_entropy", 4},
    PerElement{"softmax_cross_entropy_backward", 3},
    PerElement{"softmax_cross_entropy_both", 7},
    PerElement{"max_pool2d_backward", 1},
};

// One an element of the second input, the gradient that is added up.
constexpr std::array<std::string_view, 5> k_by_gradient = {
    "take_backward",
    "gather_nd_backward",
    "take_along_axis_backward",
    "pick_backward",
    "negative_log_likelihood_backward"};

// Of each weight, with all states.
constexpr std::array k_by_weight = {
    PerElement{"sgd_update", 7},           PerElement{"nag_update", 9},        PerElement{"adam_update", 15},
    PerElement{"adamw_update", 15},        PerElement{"adabelief_update", 17}, PerElement{"adamax_update", 11},
    PerElement{"nadam_update", 16},        PerElement{"rmsprop_update", 11},   PerElement{"adagrad_update", 9},
    PerElement{"group_adagrad_update", 9}, PerElement{"adadelta_update", 18},  PerElement{"ftrl_update", 17},
    PerElement{"ftml_update", 21},         PerElement{"sgld_update", 8},       PerElement{"dcasgd_update", 13},
    PerElement{"signum_update", 9},        PerElement{"lars_update", 11},      PerElement{"lamb_update", 23},
    PerElement{"lans_update", 45},         PerElement{"lbsgd_update", 11},     PerElement{"adafactor_update", 20},
};

// Of the first result.
constexpr std::array k_by_result = {
    PerElement{"softmax", 5},
    PerElement{"log_softmax", 5},
    PerElement{"softmax_backward", 4},
    PerElement{"log_softmax_backward", 4},
    PerElement{"negative_log_likelihood", 1},
    PerElement{"batch_norm", 6},
    PerElement{"batch_norm_predict", 2},
    PerElement{"batch_norm_relu", 7},
    PerElement{"batch_norm_backward", 9},
    PerElement{"batch_norm_relu_backward", 10},
    PerElement{"batch_norm_add_relu_backward", 11},
    PerElement{"group_norm", 7},
    PerElement{"group_norm_backward", 14},
    PerElement{"instance_norm", 7},
    PerElement{"instance_norm_backward", 14},
    PerElement{"l2_normalization", 3},
    PerElement{"l2_normalization_backward", 7},
    PerElement{"add_layer_norm", 8},
    PerElement{"add_layer_norm_backward", 15},
    PerElement{"add_rms_norm", 5},
    PerElement{"add_rms_norm_backward", 13},
    PerElement{"layer_norm", 7},
    PerElement{"layer_norm_backward", 14},
    PerElement{"rms_norm", 4},
    PerElement{"rms_norm_backward", 12},
    PerElement{"dropout", 1},
    PerElement{"dropout_backward", 1},
    PerElement{"divide_by_terms", 1},
};

template <class Table>
std::int64_t count_in(const Table& table, std::string_view op) {
  const auto found = std::find_if(table.begin(), table.end(), [op](const PerElement& one) { return one.op == op; });
  return found == table.end() ? 0 : found->count;
}

// Each element of y is a sum over one filter.
std::int64_t convolution_flops(const Shape& y, const Shape& weight) {
  const std::int64_t filter = weight[0] == 0 ? 0 : weight.size() / weight[0];
  return 2 * y.size() * filter;
}

std::int64_t product_flops(const Shapes& of) {
  const Node& node = of.node;
  const Operator* const op = node.op;
  const bool bias = node.inputs.size() > 2;
  if (op == &detail::matmul_op || op == &detail::matmul_relu_backward_op) {
    const Shape& a = of.input(0);
    const bool transposed = a.ndim() > 1 && node.attributes.as<detail::MatmulAttributes>().transpose_a;
    const std::int64_t mask = op == &detail::matmul_relu_backward_op ? 1 : 0;
    return of.result(0).size() * (2 * a[transposed ? a.ndim() - 2 : a.ndim() - 1] + mask);
  }
  if (op == &detail::dense_op || op == &detail::dense_relu_op) {
    const std::int64_t extra = (bias ? 1 : 0) + (op == &detail::dense_relu_op ? 1 : 0);
    return of.result(0).size() * (2 * of.input(1)[1] + extra);
  }
  if (op == &detail::dense_backward_weights_op) {
    const std::int64_t gradients = of.input(0).size();
    return 2 * gradients * of.input(1)[1] + (node.results.size() > 1 ? gradients : 0);
  }
  if (detail::gives_bias_sum(op))
    return 2 * of.input(0).size();
  return op == &detail::dense_backward_bias_op ? of.input(0).size() : 0;
}

// As much as the calls that they stand for.
std::int64_t pooled_filter_flops(const Shapes& of) {
  const Operator* const op = of.node.op;
  const bool forward = op == &detail::convolution_relu_pool_op;
  if (!forward && op != &detail::convolution_relu_pool_backward_op)
    return 0;
  const auto& how = of.node.attributes.as<detail::PooledConvolutionAttributes>();
  const Shape &x = of.input(forward ? 0 : 2), &weight = of.input(forward ? 1 : 3);
  const auto p = detail::pooled_geometry(op->name, x, weight, DType::float32, how);
  const Shape y = p.g.y_shape();
  const std::int64_t sums = convolution_flops(y, weight);
  if (!forward)
    return sums * (how.data ? 2 : 1) + y.size() * (how.bias ? 2 : 1) + p.maxima_shape().size();
  const std::int64_t extra = of.node.inputs.size() > 2 ? 2 : 1;
  return sums + extra * y.size() + p.maxima_shape().size() * p.kernel[0] * p.kernel[1];
}

std::int64_t filter_flops(const Shapes& of) {
  const Node& node = of.node;
  const Operator* const op = node.op;
  if (op == &detail::convolution_op || op == &detail::convolution_relu_op) {
    const std::int64_t extra = (node.inputs.size() > 2 ? 1 : 0) + (op == &detail::convolution_relu_op ? 1 : 0);
    return convolution_flops(of.result(0), of.input(1)) + extra * of.result(0).size();
  }
  if (op == &detail::convolution_fused_op) {
    const auto& how = node.attributes.as<detail::ConvolutionFusedAttributes>();
    const std::int64_t extra = static_cast<std::int64_t>(node.inputs.size()) - 2 + (how.relu ? 1 : 0);
    return convolution_flops(of.result(0), of.input(1)) + extra * of.result(0).size();
  }
  if (op == &detail::convolution_backward_data_op)
    return convolution_flops(of.input(0), of.input(1));
  if (op == &detail::convolution_backward_weights_op)
    return convolution_flops(of.input(1), of.input(2)) + (node.results.size() > 1 ? of.input(1).size() : 0);
  if (op == &detail::convolution_relu_backward_op)
    return of.input(0).size() * static_cast<std::int64_t>(node.results.size());
  if (op == &detail::convolution_relu_backward_weights_op)  // a mask, and the sums of a bias
    return convolution_flops(of.input(1), of.input(3)) +
           of.input(1).size() * static_cast<std::int64_t>(node.results.size());
  if (op == &detail::max_pool2d_relu_backward_op)  // what is unpooled, masked and added up
    return of.input(0).size() + of.input(2).size() * 2;
  return pooled_filter_flops(of);
}

// Of what is hidden too: a score, its exponential among a row's, and the sum of values; backward the score again.
std::int64_t attention_flops(const Shapes& of) {
  const Operator* const op = of.node.op;
  if (op != &detail::attention_fused_op && op != &detail::attention_fused_backward_op)
    return 0;
  const auto& how = of.node.attributes.as<detail::FusedAttentionAttributes>();
  Shape q = of.input(0);
  if (how.packed())
    q = {q[0], q[2] - 2 * how.kv_heads, q[1], q[3]};
  const std::int64_t keys = how.packed() ? q[2] : of.input(1)[2];
  const std::int64_t scores = q[0] * q[1] * q[2] * keys, width = q[3], values = how.packed() ? width : of.input(2)[3];
  const bool is_masked = (of.node.inputs.size() - how.operands()) % 3 == 1;
  const std::int64_t score = 2 * width + 1 + (is_masked ? 1 : 0);
  if (op == &detail::attention_fused_op)
    return scores * (score + 5 + 2 * values);
  return scores * (score + 2 + 4 * values + 3 + 4 * width) + 2 * q[0] * q[1] * q[2] * values;
}

// Each weight and bias once a step and sample; going back twice, for inputs and for themselves.
std::int64_t recurrent_flops(const Shapes& of) {
  const Operator* const op = of.node.op;
  const bool is_forward = op == &detail::rnn_op || op == &detail::rnn_lengths_op;
  if (!is_forward && op != &detail::rnn_backward_op && op != &detail::rnn_lengths_backward_op)
    return 0;
  const Shape& x = of.input(0);
  return (is_forward ? 2 : 4) * x[0] * x[1] * of.input(1).size();
}

// `x` is what is pooled, `y` what comes of it: in backward too.
std::int64_t window_flops(const Shapes& of, const Shape& x, const Shape& y) {
  const auto geometry = detail::pool_geometry(of.node.op->name, x, of.node.attributes.as<detail::PoolAttributes>());
  return y.size() * geometry.kernel[0] * geometry.kernel[1];
}

std::int64_t pool_flops(const Shapes& of) {
  const Operator* const op = of.node.op;
  if (op == &detail::max_pool2d_op || op == &detail::avg_pool2d_op)
    return window_flops(of, of.input(0), of.result(0));
  return op == &detail::avg_pool2d_backward_op ? window_flops(of, of.input(1), of.input(0)) : 0;
}

std::int64_t update_flops(const Shapes& of) {
  const Node& node = of.node;
  const detail::UpdateInputs inputs = detail::update_inputs(*node.op, node.attributes);
  if (inputs.lists == 0)
    return 0;
  std::int64_t weights = 0;
  for (std::size_t i = 0; i < (node.inputs.size() - inputs.behind) / inputs.lists; ++i)
    weights += of.input(i).size();
  const std::int64_t without_states = inputs.lists == 2 ? 2 : 0;
  return weights * (count_in(k_by_weight, node.op->name) - without_states);
}

// As many turns as there may be, and the branch that does more.
std::int64_t control_flops(const Shapes& of) {
  const Node& node = of.node;
  if (node.op == &control::k_foreach)
    return of.input(0)[0] * flops(node.attributes.as<control::ForeachAttributes>().body.graph());
  if (node.op == &control::k_while_loop) {
    const auto& loop = node.attributes.as<control::WhileAttributes>();
    return loop.max_iterations * (flops(loop.condition.graph()) + flops(loop.body.graph()));
  }
  if (node.op != &control::k_cond)
    return 0;
  const auto& branches = node.attributes.as<control::CondAttributes>();
  return std::max(flops(branches.then_body.graph()), flops(branches.else_body.graph()));
}

bool is_reduction(const Operator& op) {
  return *op.attributes == attribute_type<detail::ReduceAttributes> ||
         *op.attributes == attribute_type<detail::MomentAttributes>;
}

// Of a program, all of one shape: casts are none, as where they stand alone.
std::int64_t calls_that_count(const fused::Program& program) {
  const std::vector<fused::Call>& calls = program.calls;
  return std::count_if(calls.begin(), calls.end(), [](const fused::Call& call) { return call.op->elementwise; });
}

std::int64_t per_term(const Operator& reduction) {
  const std::int64_t count = count_in(k_by_input, reduction.name);
  return count > 0 ? count : *reduction.attributes == attribute_type<detail::MomentAttributes> ? 4 : 1;
}

std::int64_t fused_flops(const Shapes& of) {
  const Attributes& attributes = of.node.attributes;
  if (of.node.op == &fused::k_fused)
    return calls_that_count(fused::program_of(attributes)) * of.result(0).size();
  Shape terms = of.input(0);
  for (std::size_t i = 1; i < of.node.inputs.size(); ++i)
    terms = broadcast_shape(terms, of.input(i), of.node.op->name);
  const Operator& row = detail::operator_of(fused::reduction_of(attributes).row);
  return (calls_that_count(fused::reduced_program_of(attributes)) + per_term(row)) * terms.size();
}

std::int64_t element_flops(const Shapes& of) {
  const Operator& op = *of.node.op;
  if (&op == &fused::k_fused || &op == &fused::k_fused_reduction)
    return fused_flops(of);
  if (is_reduction(op))
    return of.input(0).size() * per_term(op);
  if (const std::int64_t count = count_in(k_by_input, op.name); count > 0)
    return count * of.input(0).size();
  const std::string_view name = op.name;
  if (std::find(k_by_gradient.begin(), k_by_gradient.end(), name) != k_by_gradient.end())
    return of.input(1).size();
  const std::int64_t count = op.elementwise ? 1 : count_in(k_by_result, name);
  return count == 0 ? 0 : count * of.result(0).size();
}

}  // namespace

std::int64_t flops(const Node& node, const Graph& graph) {
  if (node.is_view())
    return 0;
  const Shapes shapes{node, graph};
  for (const auto family :
       {product_flops, filter_flops, attention_flops, recurrent_flops, pool_flops, update_flops, control_flops}) {
    if (const std::int64_t count = family(shapes); count > 0)
      return count;
  }
  return element_flops(shapes);
}

std::int64_t flops(const Graph& graph) {
  std::int64_t count = 0;
  for (const Node& node : graph.nodes)
    count += flops(node, graph);
  return count;
}

}  // namespace sluice::graph
