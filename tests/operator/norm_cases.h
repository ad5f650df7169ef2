#pragma once

// Normalisations among the cases of differentiable_cases.h.
#include <sluice/operator/invoke.h>
#include <sluice/operator/norm/norm.h>

#include "tests/operator/differentiable_case.h"

namespace sluice::test::case_parts {

// What plans make of batch norm and a relu.
inline void add_norm_relu(Cases& cases) {
  for (const bool sum : {false, true}) {
    const auto f = [=](const auto& v) {
      const NDArray mean = zeros_like(v[1]).detach(), var = ones_like(v[1]).detach();
      Arrays inputs{v[0], v[1], v[2], mean, var};
      if (sum)
        inputs.push_back(v[3]);
      return invoke(
          sluice::detail::batch_norm_relu_op,
          inputs,
          parse_attributes(
              sluice::detail::batch_norm_relu_op, "eps=1e-05, momentum=0.9, axis=1, fix_gamma=false, batch_stats=true"),
          {})[0];
    };
    std::vector<Shape> shapes{{2, 3, 2, 3}, {3}, {3}};
    if (sum)
      shapes.push_back({2, 3, 2, 3});
    cases.push_back({"batch_norm_relu", shapes, f, -1, 1, 30});
  }
}

inline void add_row_norms(Cases& cases) {
  for (const int axis : {0, 1, 2}) {
    const Shape x{3, 4, 5}, of_axis{x[axis]};
    cases.push_back(
        {"layer_norm", {x, of_axis, of_axis}, [=](const auto& v) { return layer_norm(v[0], v[1], v[2], axis, 0.1); }});
    cases.push_back({"rms_norm", {x, of_axis}, [=](const auto& v) { return rms_norm(v[0], v[1], axis, 0.1); }});
  }
  // Rows that a GPU keeps in registers.
  const Shape even{2, 8}, row{8};
  cases.push_back(
      {"layer_norm even", {even, row, row}, [](const auto& v) { return layer_norm(v[0], v[1], v[2], -1, 0.1); }});
  cases.push_back({"rms_norm even", {even, row}, [](const auto& v) { return rms_norm(v[0], v[1], -1, 0.1); }});
  for (const Shape& empty : {Shape{0, 4}, Shape{3, 0}}) {
    const Shape last{empty[1]};
    cases.push_back(
        {"layer_norm of none", {empty, last, last}, [](const auto& v) { return layer_norm(v[0], v[1], v[2]); }});
    cases.push_back({"rms_norm of none", {empty, last}, [](const auto& v) { return rms_norm(v[0], v[1]); }});
  }
}

inline void add_groups(Cases& cases) {
  const Shape x{2, 4, 3}, plane{2, 4, 2, 4}, channels{4};
  for (const std::int64_t groups : {1, 2}) {
    const auto f = [=](const auto& v) { return group_norm(v[0], v[1], v[2], groups, 0.1); };
    cases.push_back({"group_norm", {x, channels, channels}, f});
    cases.push_back({"group_norm of planes", {plane, channels, channels}, f});
  }
  for (const Shape& shape : {x, plane, Shape{0, 4, 3}}) {
    cases.push_back({"instance_norm", {shape, channels, channels}, [](const auto& v) {
                       return instance_norm(v[0], v[1], v[2], 0.1);
                     }});
    cases.push_back(
        {"local_response_norm", {shape}, [](const auto& v) { return local_response_norm(v[0], 3, {.alpha = 0.5}); }});
    for (const L2Mode mode : {L2Mode::instance, L2Mode::channel, L2Mode::spatial})
      cases.push_back({"l2_normalization", {shape}, [=](const auto& v) { return l2_normalization(v[0], mode, 0.1); }});
  }
  const auto some = [](const NDArray& beside) { return numbers({1, 0, 1, 1}, {4, 1}, beside); };
  for (const int axis : {1, 2}) {
    cases.push_back({"masked_softmax", {x}, [=](const auto& v) { return masked_softmax(v[0], some(v[0]), axis, 2); }});
    cases.push_back({"masked_log_softmax", {x}, [=](const auto& v) {
                       return where(some(v[0]) != 0, masked_log_softmax(v[0], some(v[0]), axis), 0);
                     }});
  }
}

}  // namespace sluice::test::case_parts
