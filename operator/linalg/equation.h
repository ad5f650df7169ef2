#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/operator/operator.h>

namespace sluice::detail {

/// What einsum is told, for operands of known shapes: a character for each axis of each operand, in which one may come
/// twice, and for each axis of the result. The axes of "..." are the characters below ' ', counted from the back.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
  std::map<char, std::int64_t> extents;  // of each axis; operands may have 1 there

  Shape result_shape() const;
};

/// Throws ValueError for text that is no equation, ShapeError for operands that do not fit it.
Equation parse_equation(std::string_view text, std::span<const Shape> shapes);

extern const Operator k_einsum;

}  // namespace sluice::detail
