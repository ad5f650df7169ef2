#pragma once

// One call of an operator without a gradient.
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>

namespace sluice::test {

struct PlainCase {
  std::string op;
  /// Of the inputs; of those of no type the test chooses it.
  std::vector<std::pair<Shape, std::optional<DType>>> inputs;
  std::function<Arrays(const Arrays&, DType)> f;
  double low = -3, high = 3;
};

}  // namespace sluice::test
