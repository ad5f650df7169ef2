#pragma once

// Small examples of every operator that has no gradient, those that only compute other operators' gradients among them.
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/update/loss_scale.h>
#include <sluice/operator/update/numbers.h>

#include "tests/operator/plain_case.h"
#include "tests/operator/reduced_programs.h"

namespace sluice::test {

namespace case_parts {

inline std::vector<std::pair<Shape, std::optional<DType>>> alike(std::size_t count, const Shape& shape) {
  return {count, {shape, std::nullopt}};
}

/// A call by name of what takes `count` inputs of a shape.
inline PlainCase by_name(
    const std::string& op, std::vector<std::pair<Shape, std::optional<DType>>> inputs, const std::string& attributes) {
  const auto f = [op, attributes](const Arrays& in, DType) {
    const Operator& found = *find_operator(op);
    return invoke(found, in, parse_attributes(found, attributes), SourceLocation::current());
  };
  return {op, std::move(inputs), f};
}

inline void add_rows(std::vector<PlainCase>& cases) {
  const auto add = [&](PlainCase made, double low, double high) {
    made.low = low;
    made.high = high;
    cases.push_back(std::move(made));
  };
  for (const UnaryCase& row : all_unary_cases()) {
    if (!row.has_gradient())
      add({row.name, alike(1, {3, 4}), [&row](const Arrays& in, DType) { return Arrays{row(in[0])}; }}, -3, 3);
    if (const std::string backward = message(row.name, "_backward"); find_operator(backward) != nullptr)
      add(by_name(backward, alike(3, {3, 4}), ""), row.low, row.high);
  }
  for (const BinaryCase& row : all_binary_cases()) {
    if (!row.has_gradient()) {
      for (const Shape& b : {Shape{3, 4}, Shape{4}}) {
        const auto f = [&row](const Arrays& in, DType) { return Arrays{row(in[0], in[1]), row(in[1], in[0])}; };
        add({row.name, {{{3, 4}, {}}, {b, {}}}, f}, row.low, row.high);
      }
    }
    for (const char* operand : {"_backward_a", "_backward_b"}) {
      if (const std::string backward = message(row.name, operand); find_operator(backward) != nullptr)
        add(by_name(backward, alike(4, {3, 4}), ""), row.low, row.high);
    }
  }
}

inline void add_plain_reductions(std::vector<PlainCase>& cases) {
  for (const ReductionCase& row : reduction_cases()) {
    for (const Shape& axes : {Shape{0}, Shape{1}, Shape{0, 2}}) {
      const auto f = [&row, axes](const Arrays& in, DType) { return Arrays{row.run(in[0], axes, false)}; };
      if (!row.has_gradient())
        cases.push_back({row.name, alike(1, {2, 3, 4}), f});
    }
  }
  for (const int axis : {0, 1, 2}) {
    for (const char* op : {"argmax", "argmin"})
      cases.push_back(by_name(op, alike(1, {2, 3, 4}), message("axes=(", axis, ",)")));
    cases.push_back({"fused_reduction", alike(2, {2, 3, 4}), [axis](const Arrays& in, DType dtype) {
                       const auto program = product_for(Reduction::sum, dtype);
                       return Arrays{reduced(fused::attributes_of(program, {Reduction::sum, {axis}}), in)};
                     }});
  }
}

// Plans make them on a CPU alone, whatever the arrays are on.
inline void add_pooled_convolutions(std::vector<PlainCase>& cases) {
  const auto call = [](const char* op, Arrays in, const char* attributes) {
    for (NDArray& each : in)
      each = each.to(cpu());
    const Operator& found = *find_operator(op);
    return invoke(found, in, parse_attributes(found, attributes), SourceLocation::current());
  };
  const Shape x{2, 3, 6, 5}, weight{4, 3, 3, 2}, bias{4}, maxima{2, 4, 2, 2};
  cases.push_back({"convolution_relu_pool", {{x, {}}, {weight, {}}, {bias, {}}}, [call](const Arrays& in, DType) {
                     return call("convolution_relu_pool", in, "");
                   }});
  cases.push_back(
      {"convolution_relu_pool_backward", {{maxima, {}}, {x, {}}, {weight, {}}}, [call](const Arrays& in, DType) {
         const NDArray places = call("convolution_relu_pool", {in[1], in[2]}, "")[1];
         return call("convolution_relu_pool_backward", {in[0], places, in[1], in[2]}, "bias=true, data=true");
       }});
  // Windows that overlap.
  cases.push_back(
      {"max_pool2d_relu_backward", {{{2, 3, 4, 4}, {}}, {{2, 3, 9, 5}, {}}}, [call](const Arrays& in, DType) {
         const char* const windows = "kernel=(3, 2), stride=(2, 1)";
         const NDArray places = call("max_pool2d", {in[1]}, windows)[1];
         return call("max_pool2d_relu_backward", {in[0], places, in[1]}, windows);
       }});
}

inline void add_parts_of_layers(std::vector<PlainCase>& cases) {
  const std::optional<DType> any, labels = int32;
  const auto add_loss = [&](const char* op, const Shape& third, const char* how) {
    cases.push_back(by_name(op, {{{2, 3}, any}, {{2}, labels}, {third, any}}, how));
    cases.back().low = 0;
    cases.back().high = 2;
  };
  add_loss("softmax_cross_entropy_both", {2}, "axis=1");
  add_loss("softmax_cross_entropy_both", {2}, "axis=1, ignored=1");
  add_loss("weighted_cross_entropy", {3}, "ignored=2, smoothing=0.25");
  add_loss("weighted_likelihood", {3}, "ignored=2");
  cases.push_back(by_name("matmul_relu_backward", {{{3, 4}, any}, {{4, 5}, any}, {{3, 5}, any}}, ""));
  cases.push_back(by_name("dense_backward_bias", alike(1, {5, 4}), ""));
  for (const char* op : {"gelu_backward_bias", "gelu_tanh_backward_bias", "silu_backward_bias"})
    cases.push_back(by_name(op, alike(2, {5, 4}), ""));
  add_pooled_convolutions(cases);
  // Means and inverse deviations stand in float32, or float64 beside it.
  for (const auto& [op, count] : {std::pair{"batch_norm_backward", 5}, {"batch_norm_fold", 4}}) {
    const std::string name = op;
    const auto f = [name](const Arrays& in, DType dtype) {
      const bool whole = name == "batch_norm_fold";
      const DType wide = dtype == float64 ? float64 : float32;
      Arrays given = whole ? Arrays{in[1], in[2], in[3], in[4]} : in;
      if (!whole) {
        given[3] = given[3].astype(wide);
        given[4] = given[4].astype(wide);
      }
      const Operator& found = *find_operator(name);
      return invoke(found, given, parse_attributes(found, ""), SourceLocation::current());
    };
    const Shape image{2, 3, 2, 4}, channels{3};
    std::vector<std::pair<Shape, std::optional<DType>>> inputs = {
        {image, any}, {count == 5 ? image : channels, any}, {channels, any}, {channels, any}, {channels, any}};
    cases.push_back({name, inputs, f, 0.5, 2});
  }
  cases.push_back(
      {"fused", alike(2, {3, 4}), [](const Arrays& in, DType dtype) {
         ProgramBuilder build;
         const fused::Number a = build.input(dtype), b = build.input(dtype);
         const fused::Number both = build.call("add", {build.call("multiply", {a, b}), a});
         const Attributes program = fused::attributes_of(build.with_outputs({both, build.call("abs", {b})}));
         return invoke(*find_operator("fused"), in, program, SourceLocation::current());
       }});
}

// Weights and states have to be dense, gradients need not.
inline void add_updates(std::vector<PlainCase>& cases) {
  const auto add = [&](const char* op, std::size_t arrays, const std::function<void(const Arrays&, const Arrays&)>& f) {
    cases.push_back({op, alike(arrays, {3, 4}), [f](const Arrays& in, DType) {
                       Arrays updated;
                       for (const NDArray& array : in)
                         updated.push_back(array.copy());
                       f(updated, in);
                       return updated;
                     }});
    cases.back().low = 0.5;
  };
  add("sgd_update", 6, [](const Arrays& to, const Arrays& grads) {
    sgd_update(std::span(to).first(2), std::span(grads).subspan(2, 2), std::span(to).last(2), {.momentum = 0.5});
  });
  add("adam_update", 4, [](const Arrays& to, const Arrays& grads) {
    const auto each = [&](std::size_t i) { return std::span(to).subspan(i, 1); };
    adam_update(each(0), std::span(grads).subspan(1, 1), each(2), each(3), {.steps = {2}});
  });
  const auto add_rule = [&]<class Rule>(const char* op, const Rule& rule) {
    add(op, 2 + rule.states().size(), [rule](const Arrays& to, const Arrays& grads) {
      std::vector<std::vector<NDArray>> states;
      for (const NDArray& state : std::span(to).subspan(2))
        states.push_back({state});
      const UpdateOptions options{.weight_decay = 0.1, .steps = {2}};
      optimizer_update(rule, std::span(to).first(1), std::span(grads).subspan(1, 1), states, options);
    });
    for (std::size_t i = 0; i < rule.states().size(); ++i) {
      Shape& shape = cases.back().inputs[2 + i].first;
      shape = update_rules::state_shape(rule, i, shape);
    }
  };
  add_rule("nag_update", update_rules::Nag{});
  add_rule("adamw_update", update_rules::AdamW{});
  add_rule("adabelief_update", update_rules::AdaBelief{});
  add_rule("adamax_update", update_rules::Adamax{});
  add_rule("nadam_update", update_rules::Nadam{});
  add_rule("rmsprop_update", update_rules::RmsProp{.momentum = 0.5});
  add_rule("adagrad_update", update_rules::AdaGrad{});
  add_rule("group_adagrad_update", update_rules::GroupAdaGrad{});
  add_rule("adadelta_update", update_rules::AdaDelta{});
  add_rule("ftrl_update", update_rules::Ftrl{});
  add_rule("ftml_update", update_rules::Ftml{});
  add_rule("sgld_update", update_rules::Sgld{});
  add_rule("dcasgd_update", update_rules::Dcasgd{.momentum = 0.5});
  add_rule("signum_update", update_rules::Signum{});
  add_rule("lars_update", update_rules::Lars{});
  add_rule("lamb_update", update_rules::Lamb{});
  add_rule("lans_update", update_rules::Lans{});
  add_rule("lbsgd_update", update_rules::Lbsgd{.momentum = 0.5, .batch_scale = 2, .warmup_updates = 5});
  add_rule("adafactor_update", update_rules::Adafactor{.momentum = 0.5});
}

inline void add_guards(std::vector<PlainCase>& cases) {
  cases.push_back({"gradient_guard", alike(3, {3, 4}), [](const Arrays& in, DType) {
                     return Arrays{gradient_guard(in, {.max_norm = 1})};
                   }});
  cases.push_back({"loss_scale_update", alike(1, {3}), [](const Arrays& in, DType) {
                     const Device device = in[0].device();
                     const NDArray scale = full({}, 8, {.device = device});
                     const NDArray clean = full({1}, 4, {.dtype = int64, .device = device});
                     sluice::detail::loss_scale_update(scale, clean, in[0].astype(float64), {.growth_interval = 5});
                     return Arrays{scale, clean};
                   }});
}

// What is made of nothing lies as the operator likes: all types, and GPUs beside CPUs.
inline void add_sources(std::vector<PlainCase>& cases) {
  const auto add = [&](const char* op, const std::function<NDArray(const ArrayOptions&)>& f) {
    cases.push_back({op, {{{1}, float32}}, [f](const Arrays& in, DType dtype) {
                       return Arrays{f({.dtype = dtype, .device = in[0].device()})};
                     }});
  };
  add("full", [](const ArrayOptions& as) { return full({3, 4}, 1, as); });
  add("arange", [](const ArrayOptions& as) { return arange(1, 90, 3, as); });
  add("random_uniform", [](const ArrayOptions& as) { return random::uniform(-1, 2, {7, 5}, as); });
  add("random_normal", [](const ArrayOptions& as) { return random::normal(1, 2, {7, 5}, as); });
  add("random_randint", [](const ArrayOptions& as) { return random::randint(0, 100, {7, 5}, as); });
  add("random_bernoulli", [](const ArrayOptions& as) { return random::bernoulli(0.25, {7, 5}, as); });
  add("random_exponential", [](const ArrayOptions& as) { return random::exponential(2, {7, 5}, as); });
  add("random_laplace", [](const ArrayOptions& as) { return random::laplace(1, 2, {7, 5}, as); });
  add("random_gumbel", [](const ArrayOptions& as) { return random::gumbel(1, 2, {7, 5}, as); });
  add("random_truncated_normal", [](const ArrayOptions& as) {
    return random::truncated_normal(0, 1, -1, 2, {7, 5}, as);
  });
  add("random_gamma", [](const ArrayOptions& as) { return random::gamma(2, 1, {7, 5}, as); });
  add("random_beta", [](const ArrayOptions& as) { return random::beta(2, 3, {7, 5}, as); });
  add("random_poisson", [](const ArrayOptions& as) { return random::poisson(20, {7, 5}, as); });
  add("words", [](const ArrayOptions& as) {
    const NDArray to = empty({3}, as);
    constexpr std::int64_t words[] = {0, 1, -1};
    sluice::detail::write_words(words, to, SourceLocation::current());
    return to;
  });
}

}  // namespace case_parts

namespace case_parts {

inline void add_samples(std::vector<PlainCase>& cases) {
  const auto add = [&](const char* op, const std::function<NDArray(const NDArray&, DType)>& f) {
    cases.push_back({op, alike(1, {3, 4}), [f](const Arrays& in, DType dtype) { return Arrays{f(in[0], dtype)}; }});
    cases.back().low = 0.5;
  };
  add("sample_gamma", [](const NDArray& alpha, DType dtype) { return random::gamma(alpha, dtype); });
  add("sample_poisson", [](const NDArray& lam, DType dtype) { return random::poisson(lam, dtype); });
  add("sample_categorical", [](const NDArray& weights, DType) { return random::categorical(weights, 9); });
}

}  // namespace case_parts

inline std::vector<PlainCase> plain_cases() {
  std::vector<PlainCase> cases;
  case_parts::add_rows(cases);
  case_parts::add_plain_reductions(cases);
  case_parts::add_parts_of_layers(cases);
  case_parts::add_updates(cases);
  case_parts::add_guards(cases);
  case_parts::add_sources(cases);
  case_parts::add_samples(cases);
  for (const char* op : {"detach", "fill"})
    cases.push_back(case_parts::by_name(op, case_parts::alike(1, {3, 4}), ""));
  cases.push_back(
      {"one_hot",
       {{{3, 2}, {}}},
       [](const Arrays& in, DType dtype) {
         return Arrays{one_hot(in[0], 4, dtype), one_hot(in[0].astype(int64), 4, dtype)};
       },
       0,
       3});
  return cases;
}

}  // namespace sluice::test
