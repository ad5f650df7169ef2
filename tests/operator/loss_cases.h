#pragma once

// Losses of classes: of labels that count and of those that do not, smoothed, of weighted classes.
#include <optional>
#include <utility>

#include "tests/operator/differentiable_case.h"

namespace sluice::test::case_parts {

inline void add_class_losses(Cases& cases) {
  for (const int axis : {0, 1}) {
    const auto labels = [=](const NDArray& x) { return cycled({1, 0, 2}, {x.shape()[1 - axis]}, x); };
    const auto padded = [=](const NDArray& x) { return cycled({1, -100, 2}, {x.shape()[1 - axis]}, x); };
    cases.push_back(
        {"cross entropy", {{3, 3}}, [=](const auto& v) { return softmax_cross_entropy(v[0], labels(v[0]), axis); }});
    cases.push_back(
        {"likelihood", {{3, 3}}, [=](const auto& v) { return negative_log_likelihood(v[0], labels(v[0]), axis); }});
    cases.push_back({"cross entropy, padded", {{3, 3}}, [=](const auto& v) {
                       return softmax_cross_entropy(v[0], padded(v[0]), {.axis = axis, .ignored = -100});
                     }});
    cases.push_back({"cross entropy without a class", {{3, 3}}, [=](const auto& v) {
                       return softmax_cross_entropy(v[0], labels(v[0]), {.axis = axis, .ignored = 0});
                     }});
    cases.push_back({"likelihood, padded", {{3, 3}}, [=](const auto& v) {
                       return negative_log_likelihood(v[0], padded(v[0]), {.axis = axis, .ignored = -100});
                     }});
    cases.push_back({"weighted likelihood", {{3, 3}, {3}}, [=](const auto& v) {
                       return negative_log_likelihood(
                           v[0], padded(v[0]), {.axis = axis, .ignored = -100, .class_weights = v[1]});
                     }});
    for (const std::optional<std::int64_t> ignored : {std::optional<std::int64_t>(), std::optional<std::int64_t>(1)}) {
      cases.push_back({"smoothed cross entropy", {{3, 3}}, [=](const auto& v) {
                         return softmax_cross_entropy(
                             v[0], labels(v[0]), {.axis = axis, .ignored = ignored, .smoothing = 0.25});
                       }});
      cases.push_back({"weighted cross entropy", {{3, 3}, {3}}, [=](const auto& v) {
                         return softmax_cross_entropy(
                             v[0], labels(v[0]), {.axis = axis, .ignored = ignored, .class_weights = v[1]});
                       }});
      cases.push_back(
          {"weighted cross entropy, smoothed", {{3, 3}, {3}}, [=](const auto& v) {
             return softmax_cross_entropy(
                 v[0], labels(v[0]), {.axis = axis, .ignored = ignored, .smoothing = 0.25, .class_weights = v[1]});
           }});
    }
  }
}

}  // namespace sluice::test::case_parts
