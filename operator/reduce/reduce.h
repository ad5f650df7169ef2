#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>

namespace sluice {

// What a row is told beside axes and keepdims.
#define SLUICE_PARAMETER_none
#define SLUICE_PARAMETER_ddof std::int64_t ddof = 0,

/// Reductions over any set of axes: sum, mean, prod, max, min, variance, standard_deviation, l1_norm, l2_norm,
/// max_norm, logsumexp, nansum, any, all, count_nonzero; what each is stands in reduce.def, a row each. `axes` empty =
/// all of them; negative axes count from the back; `keepdims` keeps the reduced axes as extent 1. Rules are NumPy's:
/// sum and prod of integers and bool are int64, max and min keep the type, other numbers are float32 for integers.
/// float16 and bfloat16 add up in float. `ddof` of variance and standard_deviation: what their divisor is less than the
/// number of terms; with no terms more than that they are NaN or infinite. All of them throw IndexError for an axis out
/// of range, ValueError for one named twice, max and min also where there is nothing to reduce. They give the same bits
/// on every run, and do not block.
#define REDUCTION(name, types, nothing, parameter, ...) \
  SLUICE_API NDArray name(                              \
      const NDArray& x,                                 \
      const Shape& axes = {},                           \
      bool keepdims = false,                            \
      SLUICE_PARAMETER_##parameter SourceLocation site = SourceLocation::current());
#include <sluice/operator/reduce/reduce.def>
#undef REDUCTION
#undef SLUICE_PARAMETER_none
#undef SLUICE_PARAMETER_ddof

/// Index (int64) of the largest element along `axis`; of the first one where several tie, of the first NaN if there
/// is one. Not differentiable. Throws ValueError for an axis of extent 0. The operator of that name also takes several
/// axes, or none for all: the index then counts their elements row by row.
SLUICE_API NDArray
argmax(const NDArray& x, int axis, bool keepdims = false, SourceLocation site = SourceLocation::current());
/// Of all elements, counted row by row (numpy.argmax without an axis).
SLUICE_API NDArray argmax(const NDArray& x, SourceLocation site = SourceLocation::current());
/// Index (int64) of the smallest element along `axis`; otherwise as argmax().
SLUICE_API NDArray
argmin(const NDArray& x, int axis, bool keepdims = false, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray argmin(const NDArray& x, SourceLocation site = SourceLocation::current());

}  // namespace sluice
