#pragma once

// Products and what is linear algebra beside them, among the cases of differentiable_cases.h.
#include <string>

#include "tests/operator/differentiable_case.h"

namespace sluice::test::detail {

inline void add_diagonals(Cases& cases) {
  cases.push_back({"diagonal", {{3, 4}}, [](const auto& v) { return diagonal(v[0]); }});
  cases.push_back({"diagonal of a batch", {{3, 2, 4}}, [](const auto& v) { return diagonal(v[0], -1, 2, 0); }});
  cases.push_back({"diagonal beyond", {{3, 4}}, [](const auto& v) { return diagonal(v[0], 4); }});
  cases.push_back({"undiagonal", {{2, 3}}, [](const auto& v) {
                     const Operator& op = *find_operator("undiagonal");
                     const NDArray whole = zeros({3, 2, 4}, {.device = v[0].device()});
                     return invoke_one(op, {v[0], whole}, parse_attributes(op, "axis1=0, axis2=2"), {});
                   }});
  cases.push_back({"trace", {{2, 3, 4}}, [](const auto& v) { return trace(v[0], 1, 1, 2); }});
  cases.push_back({"einsum", {{2, 3, 3}, {3, 4}, {2, 4}}, [](const auto& v) {
                     return einsum("bii,ij,bj->ib", {v[0], v[1], v[2]});
                   }});
}

}  // namespace sluice::test::detail
