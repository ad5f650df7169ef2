#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

// Calls of operators by name, as graph files, plugins and other languages make them.
namespace sluice::test {

inline Arrays call_all(const char* name, std::initializer_list<NDArray> inputs, std::string_view attributes = "") {
  const Operator* op = find_operator(name);
  REQUIRE(op != nullptr);
  return invoke(
      *op, std::span(inputs.begin(), inputs.size()), parse_attributes(*op, attributes), SourceLocation::current());
}

inline NDArray call(const char* name, std::initializer_list<NDArray> inputs, std::string_view attributes = "") {
  return call_all(name, inputs, attributes)[0];
}

/// Empty where both are of one type and alike.
inline std::string difference(const NDArray& got, const NDArray& want) {
  return got.dtype() == want.dtype() ? differences(got, want)
                                     : message("is ", got.dtype(), ", expected ", want.dtype());
}

}  // namespace sluice::test
