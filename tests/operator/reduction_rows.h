#pragma once

// The rows of reduce.def as a table that tests walk: a new row is tested without an edit here.
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/reduce/rows.h>

#include "tests/operator/reference.h"

namespace sluice::test {

using Reduce = NDArray (*)(const NDArray&, const Shape&, bool, SourceLocation);

struct ReductionCase {
  std::string name;
  ReduceTypes types;
  bool takes_nothing;
  /// Over axes, which may be kept.
  std::function<NDArray(const NDArray&, const Shape&, bool)> run;
  /// The row's own arithmetic in double, one term after the other.
  std::function<double(const std::vector<double>&)> of;

  bool has_gradient() const { return types != ReduceTypes::count && types != ReduceTypes::truth; }
  DType result_type(DType dtype) const {
    if (types == ReduceTypes::count || types == ReduceTypes::truth)
      return types == ReduceTypes::count ? int64 : bool_;
    if (is_floating(dtype) || types == ReduceTypes::kept)
      return dtype;
    return types != ReduceTypes::whole ? float32 : dtype == uint64 ? uint64 : int64;
  }
};

namespace case_parts {

template <Reduction row>
double one_after_the_other(const std::vector<double>& terms) {
  const auto op = sluice::detail::ReductionRow<row>::template state<double>(static_cast<double>(terms.size()), 0);
  auto total = op.identity();
  for (const double term : terms)
    total = op.join(total, op.lift(term));
  return static_cast<double>(op.finish(total));
}

}  // namespace case_parts

inline const std::vector<ReductionCase>& reduction_cases() {
  static const std::vector<ReductionCase> cases = {
#define REDUCTION(row, row_types, of_nothing, ...)                                            \
  {#row,                                                                                      \
   ReduceTypes::row_types,                                                                    \
   OfNothing::of_nothing == OfNothing::start,                                                 \
   [](const NDArray& x, const Shape& axes, bool keepdims) { return row(x, axes, keepdims); }, \
   case_parts::one_after_the_other<Reduction::row>},
#include <sluice/operator/reduce/reduce.def>
#undef REDUCTION
  };
  return cases;
}

/// x over `axes` (not negative), keeping them as 1: of(the terms of each output, in order).
inline Dense reduce_terms(
    const Dense& x, const std::vector<int>& axes, const std::function<double(const std::vector<double>&)>& of) {
  Shape kept = x.shape;
  for (const int axis : axes)
    kept[axis] = 1;
  Dense result(kept, 0);
  std::vector<std::vector<double>> terms(result.values.size());
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    auto index = unravel(x.shape, static_cast<std::int64_t>(i));
    for (const int axis : axes)
      index[static_cast<std::size_t>(axis)] = 0;
    terms[static_cast<std::size_t>(ravel(kept, index))].push_back(x.values[i]);
  }
  for (std::size_t i = 0; i < terms.size(); ++i)
    result.values[i] = of(terms[i]);
  return result;
}

}  // namespace sluice::test
