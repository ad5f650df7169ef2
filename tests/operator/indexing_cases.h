#pragma once

// Cases of indexing by numbers, subscripts and lengths, for differentiable_cases.h and plain_cases.h.
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/gather/indexing.h>
#include <sluice/operator/gather/sequence.h>

#include "tests/operator/differentiable_case.h"

namespace sluice::test::case_parts {

inline void add_index_arrays(Cases& cases) {
  const auto pair = [](const NDArray& x) {  // one entry twice
    return std::vector<NDArray>{numbers({1, 0, 1, 2}, {4}, x), numbers({0, 2, 0, -1}, {2, 2}, x).reshape({4})};
  };
  const auto one = [](const NDArray& x) { return std::vector<NDArray>{numbers({2, 0, 2}, {3}, x)}; };
  for (const int axis : {0, 1}) {
    const Shape pairs = axis == 0 ? Shape{4, 3} : Shape{3, 4};
    cases.push_back({"gather_nd", {{3, 3, 3}}, [=](const auto& v) { return take(v[0], pair(v[0]), axis); }});
    cases.push_back({"index_update_nd", {{3, 3, 3}, pairs}, [=](const auto& v) {
                       return index_update(v[0], pair(v[0]), v[1], axis);
                     }});
    cases.push_back(
        {"index_add_nd", {{3, 3, 3}, pairs}, [=](const auto& v) { return index_add(v[0], pair(v[0]), v[1], axis); }});
    cases.push_back({"index_update", {{3, 3, 4}, {3, 3, 4}}, [=](const auto& v) {
                       return index_update(v[0], one(v[0]), v[1], axis);
                     }});
    cases.push_back({"index_add broadcast", {{3, 3, 4}, {1, 4}}, [=](const auto& v) {
                       return index_add(v[0], one(v[0]), v[1], axis);
                     }});
  }
  for (const int axis : {0, 1, 2}) {
    const auto places = [=](const NDArray& x) {
      Shape shape = x.shape();
      std::swap(shape[0], shape[axis]);
      return cycled({1, 0, 1, 1, -1, 0, 0, 0}, shape, x).swapaxes(0, axis);
    };
    cases.push_back(
        {"take_along_axis", {{2, 2, 2}}, [=](const auto& v) { return take_along_axis(v[0], places(v[0]), axis); }});
    cases.push_back({"put_along_axis", {{2, 2, 2}, {2, 2, 2}}, [=](const auto& v) {
                       return put_along_axis(v[0], places(v[0]), v[1], axis);
                     }});
    cases.push_back({"add_along_axis", {{2, 2, 2}, {2, 2, 2}}, [=](const auto& v) {
                       return add_along_axis(v[0], places(v[0]), v[1], axis);
                     }});
  }
  cases.push_back({"scatter_nd", {{2, 3}}, [](const auto& v) {
                     return scatter_nd(v[0], numbers({1, 0, 0, 2}, {2, 2}, v[0]), {2, 3, 3});
                   }});
  cases.push_back({"embedding", {{4, 3}}, [](const auto& v) {
                     return embedding(numbers({1, 3, 1, 0}, {2, 2}, v[0]), v[0], 3);
                   }});
  cases.push_back({"put", {{3, 4}, {2}}, [](const auto& v) { return put(v[0], numbers({7, 0}, {2}, v[0]), v[1]); }});
  cases.push_back({"masked_fill", {{3, 4}, {4}}, [](const auto& v) {
                     return masked_fill(v[0], numbers({1, 0, 1}, {3}, v[0]).astype(bool_), v[1]);
                   }});
  cases.push_back({"gather_nd of none", {{3, 4}}, [](const auto& v) {
                     return gather_nd(v[0], numbers({}, {2, 0}, v[0]));
                   }});
  cases.push_back({"index_update of none", {{3, 0}, {2, 0}}, [](const auto& v) {
                     return index_update(v[0], {numbers({1, 2}, {2}, v[0])}, v[1]);
                   }});
}

inline void add_subscripts(Cases& cases) {
  cases.push_back({"slice_axes", {{3, 4, 5}}, [](const auto& v) { return v[0][{{{}, {}, -2}, 1, {1, 4}}]; }});
  cases.push_back({"slice_axes none", {{3, 4}}, [](const auto& v) { return v[0][{{}, {2, 2}}]; }});
  cases.push_back({"slice_assign", {{3, 4}, {2}}, [](const auto& v) {
                     NDArray y = v[0] * 2;
                     y.assign({1, {{}, {}, 2}}, v[1]);
                     y.assign({{}, -1}, v[1].slice(0, 0, 1));
                     return y;
                   }});
}

inline void add_mixed_subscripts(Cases& cases) {
  const auto rows = [](const NDArray& x) { return numbers({2, 0, 2}, {3}, x); };
  const auto columns = [](const NDArray& x) { return numbers({-1, 1}, {2, 1}, x); };
  cases.push_back({"slice_axes and take", {{3, 4, 5}}, [=](const auto& v) {
                     return v[0][{{{}, {}, 2}, 1, rows(v[0])}];
                   }});
  cases.push_back({"slice_axes and gather_nd", {{3, 3, 4}}, [=](const auto& v) {
                     return v[0][{rows(v[0]), {1, 3}, k_new_axis, columns(v[0])}];
                   }});
  cases.push_back({"index_assign", {{3, 4, 3}, {2, 3, 2}}, [=](const auto& v) {
                     return index_update(v[0], {rows(v[0]), {1, 3}, columns(v[0])}, v[1]);
                   }});
  cases.push_back({"index_assign in place", {{3, 4}, {3, 1}}, [=](const auto& v) {
                     const NDArray y = v[0] * 2;
                     y.assign({{}, rows(v[0])}, v[1]);
                     y.assign({rows(v[0]), {{}, {}, 3}}, 3);
                     y.add_at({{1, 3}, rows(v[0])}, v[1].slice(0, 1, 3));
                     return y;
                   }});
  cases.push_back({"index_assign of none", {{3, 4}, {2, 0}}, [=](const auto& v) {
                     return index_update(v[0], {{0, 2}, numbers({}, {0}, v[0])}, v[1]);
                   }});
}

inline void add_sequences(Cases& cases) {
  for (const int axis : {0, 1}) {
    const auto lengths = [=](const NDArray& x) { return cycled({1, 3, 2}, {x.shape()[1 - axis]}, x); };
    const auto add = [&](const char* name, const auto& f) {
      cases.push_back({name, {{3, 3, 2}}, [=](const auto& v) { return f(v[0], lengths(v[0])); }});
    };
    add("sequence_mask", [=](const NDArray& x, const NDArray& n) { return sequence_mask(x, n, 2, axis); });
    add("sequence_last", [=](const NDArray& x, const NDArray& n) { return sequence_last(x, n, axis); });
    add("sequence_reverse", [=](const NDArray& x, const NDArray& n) { return sequence_reverse(x, n, axis); });
  }
}

}  // namespace sluice::test::case_parts
