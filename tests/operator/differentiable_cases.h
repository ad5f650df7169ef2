#pragma once

// Small examples of every differentiable operator: a function, the shapes of its inputs and where they are drawn from.
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/control/control.h>
#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/graph/trace.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/pool/geometry.h>

#include "tests/operator/differentiable_case.h"
#include "tests/operator/elementwise_rows.h"
#include "tests/operator/indexing_cases.h"
#include "tests/operator/linalg_cases.h"
#include "tests/operator/loss_cases.h"
#include "tests/operator/neural_cases.h"
#include "tests/operator/norm_cases.h"
#include "tests/operator/reduction_rows.h"

namespace sluice::test {

namespace case_parts {

inline void add_elementwise_cases(Cases& cases) {
  for (const UnaryCase& row : unary_cases()) {
    if (row.has_gradient())
      cases.push_back({row.name, {{3, 4}}, [&row](const auto& v) { return row(v[0]); }, row.low, row.high});
  }
  for (const BinaryCase& row : binary_cases()) {
    if (!row.has_gradient())
      continue;
    const std::string name = row.name;
    const auto add = [&](const char* form, std::vector<Shape> shapes, auto f) {
      cases.push_back({name + form, std::move(shapes), f, row.low, row.high});
    };
    add("", {{2, 3, 4}, {2, 3, 4}}, [&row](const auto& v) { return row(v[0], v[1]); });
    add(" broadcast", {{3, 1}, {2, 1, 4}}, [&row](const auto& v) { return row(v[0], v[1]); });
    add(" scalar", {{3, 4}}, [&row](const auto& v) { return row(v[0], 0.5 * (row.low + 2 * row.high)); });
    add(" of scalar", {{3, 4}}, [&row](const auto& v) { return row(0.5 * (row.low + 2 * row.high), v[0]); });
  }
  const auto chosen = [](const NDArray& x) { return cycled({1, 0, 0, 1}, {x.shape().back()}, x).astype(bool_); };
  cases.push_back({"where", {{3, 4}, {3, 4}}, [=](const auto& v) { return where(chosen(v[0]), v[0], v[1]); }});
  cases.push_back({"where broadcast", {{3, 1}, {4}}, [=](const auto& v) { return where(chosen(v[1]), v[0], v[1]); }});
  cases.push_back({"where scalar", {{3, 4}}, [=](const auto& v) { return where(chosen(v[0]), v[0], 2); }});
  cases.push_back({"where of scalar", {{3, 4}}, [=](const auto& v) { return where(chosen(v[0]), 2, v[0]); }});
  cases.push_back({"clip", {{3, 4}}, [](const auto& v) { return clip(v[0], -0.5, 0.25); }});
  cases.push_back({"leaky_relu", {{3, 4}}, [](const auto& v) { return leaky_relu(v[0], -0.5); }});
  cases.push_back({"elu", {{3, 4}}, [](const auto& v) { return elu(v[0], 0.25); }});
  cases.push_back({"celu", {{3, 4}}, [](const auto& v) { return celu(v[0], 0.25); }});
  cases.push_back({"hard_sigmoid", {{3, 4}}, [](const auto& v) { return hard_sigmoid(v[0], 0.75, 0.25); }});
  cases.push_back({"threshold", {{3, 4}}, [](const auto& v) { return threshold(v[0], 0.1, -2); }});
  for (const Shape& empty : {Shape{0, 4}, Shape{3, 0}}) {
    cases.push_back({"exp of none", {empty}, [](const auto& v) { return exp(v[0]); }});
    cases.push_back({"multiply none", {empty, {1, 1}}, [](const auto& v) { return v[0] * v[1]; }});
  }
}

inline void add_reductions(Cases& cases) {
  for (const ReductionCase& row : reduction_cases()) {
    if (!row.has_gradient())
      continue;
    bool keep = false;
    for (const Shape& axes : {Shape{}, Shape{0}, Shape{1}, Shape{0, 2}}) {
      keep = !keep;
      cases.push_back({message(row.name, " over ", axes), {{2, 3, 4}}, [&row, axes, keep](const auto& v) {
                         return row.run(v[0], axes, keep);
                       }});
      if (row.name == "standard_deviation")  // of two terms, its second gradient takes what is nearly alike apart
        cases.back().noise = 40;
    }
  }
  for (const Shape& empty : {Shape{0, 4}, Shape{3, 0}})
    cases.push_back({"sum of none", {empty}, [](const auto& v) { return sum(v[0], {1}); }});
}

inline void add_rows_and_places(Cases& cases) {
  for (const int axis : {0, 1, 2}) {
    cases.push_back({"softmax", {{2, 3, 4}}, [=](const auto& v) { return softmax(v[0], axis); }});
    cases.push_back({"log_softmax", {{2, 3, 4}}, [=](const auto& v) { return log_softmax(v[0], axis); }});
    cases.push_back({"take", {{3, 3, 4}}, [=](const auto& v) {
                       return take(v[0], numbers({2, 0, 2, 1}, {2, 2}, v[0]), axis);
                     }});
    cases.push_back({"concat", {{2, 3, 4}, {2, 3, 4}}, [=](const auto& v) { return concat({v[0], v[1]}, axis); }});
  }
  for (const int axis : {0, 1}) {
    const auto labels = [=](const NDArray& x) { return cycled({1, 0, 2}, {x.shape()[1 - axis]}, x); };
    cases.push_back({"pick", {{3, 3}}, [=](const auto& v) { return pick(v[0], labels(v[0]), axis); }});
    cases.push_back({"stack", {{2, 3}, {2, 3}}, [=](const auto& v) { return stack({v[0], v[1]}, axis); }});
  }
  const auto moved = [&cases](const char* name, const std::function<NDArray(const NDArray&)>& f) {
    cases.push_back({name, {{2, 3, 4}}, [f](const auto& v) { return f(v[0]); }});
  };
  moved("pad", [](const NDArray& x) { return pad(x, {{1, 0}, {0, 0}, {2, 3}}, PadMode::constant, 2); });
  moved("pad with edges", [](const NDArray& x) { return pad(x, {{1, 2}, {0, 3}, {2, 0}}, PadMode::edge); });
  moved("pad with itself", [](const NDArray& x) { return pad(x, {{1, 0}, {2, 1}, {0, 3}}, PadMode::reflect); });
  moved("pad with itself often", [](const NDArray& x) { return pad(x, {{3, 1}, {1, 9}, {11, 2}}, PadMode::reflect); });
  moved("roll", [](const NDArray& x) { return roll(x, {1, -5}, {0, 2}); });
  moved("flip", [](const NDArray& x) { return flip(x, {0, 2}); });
  moved("tile", [](const NDArray& x) { return tile(x, {2, 3, 1, 2}); });
  moved("repeat", [](const NDArray& x) { return repeat(repeat(x, 3, 1), 2, -1); });
  cases.push_back({"tile of none", {{0, 4}}, [](const auto& v) { return tile(v[0], {2, 3}); }});
  cases.push_back({"repeat no times", {{3, 4}}, [](const auto& v) { return repeat(v[0], 0, 1); }});
  cases.push_back({"softmax of none", {{0, 4}}, [](const auto& v) { return softmax(v[0]); }});
  cases.push_back({"take none", {{3, 4}}, [](const auto& v) { return take(v[0], numbers({}, {0}, v[0])); }});
  cases.push_back({"concat converts", {{2, 3, 4}, {2, 1, 4}}, [](const auto& v) {
                     return concat(std::vector<NDArray>{v[0].astype(float64), v[1]}, 1, v[0].dtype());
                   }});
  cases.push_back({"split", {{2, 5, 3}}, [](const auto& v) {
                     const std::vector<NDArray> parts = split(v[0], {1, 3}, 1);
                     return concat({parts[2], parts[0] * 2, parts[1].swapaxes(0, 1).swapaxes(0, 1)}, 1);
                   }});
  cases.push_back({"split, a part of it", {{2, 6, 3}}, [](const auto& v) {
                     const std::vector<NDArray> parts = split(v[0], 3, 1);
                     return parts[1] * parts[2];
                   }});
  cases.push_back({"split that overlaps", {{2, 5, 3}}, [](const auto& v) {
                     const std::vector<NDArray> parts = split(v[0], {4, 2}, 1);
                     return concat({parts[0], parts[2] * 2}, 1);
                   }});
  cases.push_back({"concat none", {{0, 4}, {2, 4}}, [](const auto& v) { return concat({v[0], v[1]}); }});
  cases.push_back({"dropout", {{3, 4}}, [](const auto& v) { return dropout(v[0], 0.5); }});
}

inline void add_scans_and_orders(Cases& cases) {
  const auto add = [&cases](const char* name, const std::function<NDArray(const NDArray&)>& f) {
    cases.push_back({name, {{2, 3, 4}}, [f](const auto& v) { return f(v[0]); }});
  };
  for (const int axis : {0, 1, 2}) {
    add("cumsum", [=](const NDArray& x) { return cumsum(x, axis, axis == 1); });
    add("cumprod", [=](const NDArray& x) { return cumprod(x, axis, axis == 1); });
    add("cummax", [=](const NDArray& x) { return cummax(x, axis).values; });
    add("cummin", [=](const NDArray& x) { return cummin(x, axis).values; });
    cases.push_back({"linear_recurrence", {{2, 3, 4}, {2, 3, 4}}, [=](const auto& v) {
                       return linear_recurrence(v[0], v[1], axis, axis == 1);
                     }});
  }
  add("diff", [](const NDArray& x) { return diff(x, 2, 1); });
  const auto by_name = [](const char* name, const Arrays& inputs, const char* attributes) {
    const Operator& op = *find_operator(name);
    return invoke(op, inputs, parse_attributes(op, attributes), SourceLocation::current())[0];
  };
  add("take_places", [=](const NDArray& x) {
    const NDArray places = cycled({1, 0, 2, 2, 1, 0, 0, 1}, {x.shape()[0], 1, x.shape()[2]}, x);
    return by_name("take_places", {x, places}, "axis=1");
  });
  add("take_places in runs", [=](const NDArray& x) {
    const NDArray places = cycled({1, 1, 0, 0}, {x.shape()[2]}, x).broadcast_to(x.shape());
    return by_name("take_places", {x, places}, "axis=2, runs=true");
  });
  cases.push_back({"put_places", {{2, 2, 4}}, [=](const auto& v) {
                     const std::int64_t rows = v[0].shape()[0];
                     const std::vector<std::int64_t> two{1, 0, 2, 2, 0, 1, 0, 1, 2, 1, 1, 0, 0, 2, 2, 2};
                     const NDArray places = cycled(two, {rows, 2, 4}, v[0]), to = zeros({rows, 3, 4});
                     return by_name("put_places", {places, v[0], to.to(v[0].device())}, "axis=1");
                   }});
  add("true_entries", [=](const NDArray& x) {
    const NDArray truths = numbers({1, 0, 2, 0, 0, 1}, {6}, x) != 0;
    return by_name("true_entries", {x.reshape({-1}).slice(0, 0, 6), truths}, "count=3");
  });
  add("sort", [=](const NDArray& x) { return by_name("sort", {x}, "axis=1, descending=true"); });
  add("sort_with_indices", [](const NDArray& x) { return sort_with_indices(x, 0).values; });
  add("topk", [](const NDArray& x) { return topk(x, 2).values; });
  cases.push_back({"sort of none", {{3, 0}}, [](const auto& v) { return sort(v[0]); }});
  cases.push_back({"topk of none", {{3, 4}}, [](const auto& v) { return topk(v[0], 0).values; }});
  cases.push_back({"cumsum of none", {{0, 4}}, [](const auto& v) { return cumsum(v[0], 1); }});
  cases.push_back({"cumprod of none", {{3, 0}}, [](const auto& v) { return cumprod(v[0], 1); }});
}

inline void add_views(Cases& cases) {
  cases.push_back({"reshape", {{3, 4}}, [](const auto& v) { return v[0].reshape({2, 6}); }});
  cases.push_back({"moveaxis", {{2, 3, 4}}, [](const auto& v) { return moveaxis(v[0], {0, 1}, {-1, 0}); }});
  for (const std::int64_t k : {-1, 0, 2}) {
    cases.push_back({"tril", {{2, 3, 4}}, [=](const auto& v) { return tril(v[0], k); }});
    cases.push_back({"triu", {{3, 4}}, [=](const auto& v) { return triu(v[0], k); }});
  }
  cases.push_back({"triu of none", {{3, 0}}, [](const auto& v) { return triu(v[0]); }});
  cases.push_back({"frexp", {{3, 4}}, [](const auto& v) { return frexp(v[0]).mantissa; }, 1.1, 1.9});
  cases.push_back({"transpose", {{2, 3, 4}}, [](const auto& v) { return v[0].transpose({1, 2, 0}); }});
  cases.push_back({"slice", {{3, 6}}, [](const auto& v) { return v[0].slice(1, 1, 5, 2); }});
  cases.push_back({"slice none", {{3, 6}}, [](const auto& v) { return v[0].slice(1, 2, 2); }});
  cases.push_back({"broadcast_to", {{3, 1}}, [](const auto& v) { return v[0].broadcast_to({2, 3, 4}); }});
  cases.push_back(
      {"astype",
       {{3, 4}},
       [](const auto& v) { return v[0].astype(v[0].dtype() == float64 ? float32 : float64); },
       -1,
       1,
       1,
       true});
  cases.push_back({"to", {{3, 4}}, [](const auto& v) { return v[0].to(cpu()); }});  // from a GPU
  cases.push_back({"copy", {{3, 4}}, [](const auto& v) { return v[0].copy(); }});
  cases.push_back({"channels_last", {{2, 3, 4, 2}}, [](const auto& v) {
                     return invoke_one(*find_operator("channels_last"), {v[0]}, {}, SourceLocation::current());
                   }});
}

inline void add_products(Cases& cases) {
  const std::vector<std::pair<Shape, Shape>> operands = {{{3, 4}, {4, 5}},
                                                         {{4}, {4, 5}},
                                                         {{3, 4}, {4}},
                                                         {{4}, {4}},
                                                         {{2, 3, 4}, {4}},
                                                         {{2, 3, 4}, {4, 5}},
                                                         {{2, 2, 1}, {1, 2}},
                                                         {{2, 1, 4}, {4, 3}},
                                                         {{5, 1}, {1, 3}},
                                                         {{3, 2, 4}, {3, 4, 2}},
                                                         {{2, 1, 3, 4}, {3, 4, 2}},
                                                         {{1, 4}, {2, 4, 3}},
                                                         {{2, 0}, {0, 3}},
                                                         {{0, 3}, {3, 2}},
                                                         {{2, 3}, {3, 0}},
                                                         {{2, 3, 0}, {0, 4}},
                                                         {{2, 0, 3}, {3, 4}},
                                                         {{0, 2, 3}, {3, 4}},
                                                         {{0}, {0}},
                                                         {{2, 3, 0}, {0}},
                                                         {{0, 2, 3}, {0, 3, 2}},
                                                         {{2, 3, 0}, {2, 0, 4}},
                                                         {{2, 3, 4}, {2, 4, 0}},
                                                         {{2, 3, 4}, {4, 0}}};
  for (const auto& [a, b] : operands)
    cases.push_back({message("matmul ", a, " ", b), {a, b}, [](const auto& v) { return matmul(v[0], v[1]); }});
  cases.push_back({"sum of products", {{3, 4}, {4, 5}}, [](const auto& v) { return sum(matmul(v[0], v[1]), {0}); }});
  cases.push_back({"mean of products", {{3, 4}, {4, 5}}, [](const auto& v) { return mean(matmul(v[0], v[1]), {1}); }});
  const std::vector<std::pair<Shape, Shape>> layers = {
      {{3, 4}, {5, 4}}, {{2, 3, 4}, {5, 12}}, {{0, 4}, {5, 4}}, {{3, 4}, {0, 4}}, {{3, 0}, {5, 0}}, {{3, 4}, {1, 4}}};
  const std::vector<std::pair<Shape, Shape>> wide = {
      {{2, 3, 4}, {5, 4}}, {{4}, {5, 4}}, {{2, 3, 0}, {5, 0}}, {{0}, {5, 0}}, {{2, 0, 4}, {5, 4}}, {{2, 3, 4}, {0, 4}}};
  for (const bool flatten : {true, false}) {
    for (const char* activation : {"", "relu"}) {
      const DenseOptions how{.flatten = flatten, .activation = activation};
      for (const auto& [x, weight] : flatten ? layers : wide) {
        const std::string name = message("dense ", activation, " ", x, " ", weight);
        cases.push_back({name, {x, weight}, [how](const auto& v) { return dense(v[0], v[1], {}, how); }});
        cases.push_back(
            {name + " bias", {x, weight, {weight[0]}}, [how](const auto& v) { return dense(v[0], v[1], v[2], how); }});
      }
    }
  }
  cases.push_back({"dense of a bias alone", {{5}}, dense_of_bias});
  cases.push_back({"sum of dense", {{3, 4}, {5, 4}, {5}}, [](const auto& v) { return sum(dense(v[0], v[1], v[2])); }});
}

// max_pool2d_gather stands in gradients of gradients alone.
inline NDArray gathered_at_maxima(const NDArray& x) {
  const SourceLocation site = SourceLocation::current();
  const sluice::detail::PoolAttributes how{.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}};
  const NDArray from = x.detach();
  const NDArray index = invoke(sluice::detail::max_pool2d_op, std::span(&from, 1), Attributes::of(how), site)[1];
  return invoke_one(sluice::detail::max_pool2d_gather_op, {x, index}, Attributes::of(how), site);
}

// convolution_relu_backward_weights stands in gradients of shallow convolutions on a GPU alone. Inputs x and dy.
inline NDArray masked_weights(const NDArray& x, const NDArray& dy, int output) {
  const std::vector<NDArray> inputs{x, dy, relu(dy.detach()), full({4, x.shape()[1], 3, 3}, 0.5).astype(x.dtype())};
  const sluice::detail::ConvolutionAttributes how{.pad = {1, 1}, .bias = true};
  std::vector<NDArray> there;
  for (const NDArray& input : inputs)
    there.push_back(input.to(x.device()));
  const Operator& op = *find_operator("convolution_relu_backward_weights");
  return invoke(op, there, Attributes::of(how), SourceLocation::current())[output];
}

inline void add_images(Cases& cases) {
  const ConvolutionOptions plain{.pad = {1, 1}}, grouped{.stride = {2, 2}, .groups = 2};
  for (const auto& how : {plain, grouped}) {
    const Shape weight{4, 4 / how.groups, 3, 3};
    cases.push_back(
        {"convolution", {{2, 4, 5, 5}, weight}, [=](const auto& v) { return convolution(v[0], v[1], {}, how); }});
    cases.push_back({"convolution bias", {{2, 4, 5, 5}, weight, {4}}, [=](const auto& v) {
                       return convolution(v[0], v[1], v[2], how);
                     }});
  }
  const ConvolutionOptions with_relu{.pad = {1, 1}, .activation = "relu"};
  const Shape images{2, 4, 5, 5}, filters{4, 4, 3, 3};
  cases.push_back(
      {"convolution_relu", {images, filters}, [=](const auto& v) { return convolution(v[0], v[1], {}, with_relu); }});
  cases.push_back({"convolution_relu bias", {images, filters, {4}}, [=](const auto& v) {
                     return convolution(v[0], v[1], v[2], with_relu);
                   }});
  const Shape channels{4};
  cases.push_back({"convolution_fused", {images, filters, channels, channels, {2, 4, 5, 5}}, [=](const auto& v) {
                     return convolution_fused(v[0], v[1], {widened(v[2]), widened(v[3]), v[4]}, with_relu);
                   }});
  for (const int output : {0, 1}) {
    const std::string name = "convolution_relu_backward_weights";
    cases.push_back({name + (output == 0 ? "" : " bias"), {{2, 3, 5, 5}, {2, 4, 5, 5}}, [=](const auto& v) {
                       return masked_weights(v[0], v[1], output);
                     }});
  }
  cases.push_back({"convolution of none", {{0, 4, 5, 5}, {4, 4, 3, 3}, {4}}, [=](const auto& v) {
                     return convolution(v[0], v[1], v[2], plain);
                   }});
  const PoolOptions small{.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}};
  for (const Shape& x : {Shape{2, 3, 5, 5}, Shape{0, 3, 5, 5}}) {
    cases.push_back({"max_pool2d", {x}, [=](const auto& v) { return max_pool2d(v[0], small); }});
    cases.push_back({"max_pool2d_gather", {x}, [](const auto& v) { return gathered_at_maxima(v[0]); }});
    cases.push_back({"avg_pool2d", {x}, [=](const auto& v) { return avg_pool2d(v[0], small); }});
  }
  for (const bool global : {false, true}) {
    for (const int axis : {1, 3}) {
      const auto f = [=](const auto& v) {
        const NDArray mean = zeros_like(v[1]).detach(), var = ones_like(v[1]).detach();
        const BatchNormOptions how{.axis = axis, .use_global_stats = global};
        return batch_norm(v[0], v[1], v[2], mean, var, how);
      };
      // One number repeated has no variance: what remains of sums that cancel is divided by the root of epsilon.
      cases.push_back({global ? "batch_norm_predict" : "batch_norm", {{2, 3, 2, 3}, {3}, {3}}, f, -1, 1, 30});
    }
    const auto fixed = [=](const auto& v) {
      const NDArray mean = zeros_like(v[1]).detach(), var = ones_like(v[1]).detach();
      return batch_norm(v[0], v[1], v[2], mean, var, {.use_global_stats = global, .fix_gamma = true});
    };
    cases.push_back({"batch_norm of a fixed gamma", {{2, 3, 2, 3}, {3}, {3}}, fixed, -1, 1, 30});
  }
}

// Of a program as a graph, whose loops and branches are nodes.
inline NDArray as_graph(const std::vector<NDArray>& v, const std::function<NDArray(const Arrays&)>& program) {
  graph::Tracer tracer;
  Arrays inputs;
  for (const NDArray& input : v)
    inputs.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
  return graph::evaluate(tracer.trace([&] { return Arrays{program(inputs)}; }), v)[0];
}

inline void add_control(Cases& cases) {
  const auto looped = [](const Arrays& in) {
    return foreach(
               [&](const Arrays& d, const Arrays& s) -> LoopResult {
                 return {{d[0] * s[0]}, {tanh(s[0] + d[0] * in[2])}};
               },
               {in[0]},
               {in[1]})
        .outputs[0];
  };
  const auto counted = [](const Arrays& in) {
    return while_loop(
               [](const Arrays& v) { return v[1] < 3; },
               [&](const Arrays& v) -> LoopResult {
                 return {{v[0] * in[1]}, {sin(v[0]) + in[1], v[1] + 1}};
               },
               {in[0], zeros({}, {.dtype = int32, .device = in[0].device()})},
               4)
        .outputs[0];
  };
  const auto chosen = [](const Arrays& in) {
    return cond(
        sum(in[0]) > -1e9,
        [&](const Arrays& a) { return Arrays{exp(a[0]) * in[1]}; },
        [&](const Arrays& a) { return Arrays{a[0] * in[2]}; },
        {in[0]})[0];
  };
  cases.push_back({"foreach", {{35, 2}, {2}, {2}}, [=](const auto& v) { return as_graph(v, looped); }});
  cases.push_back({"while_loop", {{3, 2}, {2}}, [=](const auto& v) { return as_graph(v, counted); }});
  cases.push_back({"cond", {{3, 2}, {2}, {2}}, [=](const auto& v) { return as_graph(v, chosen); }});
}

}  // namespace case_parts

inline const std::vector<DifferentiableCase>& differentiable_cases() {
  static const std::vector<DifferentiableCase> cases = [] {
    std::vector<DifferentiableCase> made;
    case_parts::add_elementwise_cases(made);
    case_parts::add_reductions(made);
    case_parts::add_rows_and_places(made);
    case_parts::add_class_losses(made);
    case_parts::add_scans_and_orders(made);
    case_parts::add_index_arrays(made);
    case_parts::add_sequences(made);
    case_parts::add_views(made);
    case_parts::add_subscripts(made);
    case_parts::add_mixed_subscripts(made);
    case_parts::add_products(made);
    case_parts::add_images(made);
    case_parts::add_norm_relu(made);
    case_parts::add_row_norms(made);
    case_parts::add_groups(made);
    case_parts::add_neural(made);
    case_parts::add_control(made);
    case_parts::add_diagonals(made);
    case_parts::add_decompositions(made);
    return made;
  }();
  return cases;
}

}  // namespace sluice::test
