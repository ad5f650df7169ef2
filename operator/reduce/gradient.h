#pragma once

#include <cstdint>

#include <sluice/operator/elementwise/arrays.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/reduce/plan.h>

// What the gradients of the rows in reduce.def are written with.
namespace sluice {

/// y, or 1 where it is 0: what is divided by it is 0 there as well.
inline NDArray one_for_zero(const NDArray& y) {
  return where(y == 0, 1, y);
}
/// The nearest finite number of y's type; NaN stays.
NDArray finite(const NDArray& y);

namespace detail {

extern const Operator k_divide_by_terms;

/// One pull of a reduction's gradient: what of it depends on the axes and on x. No extent of x stands in the calls that
/// are made, so that they serve other batch sizes when they are replayed; only the second gradient of a product is made
/// for its number of terms.
class ReductionGradient {
 public:
  ReductionGradient(const GradientCall& call, const Shape& axes, bool keepdims, std::int64_t ddof) noexcept
      : call_(call), axes_(axes), keepdims_(keepdims), ddof_(ddof) {}

  /// Something of the result's shape, with reduced axes put back as 1 as far as broadcasting does not do it by itself.
  NDArray aligned(const NDArray& reduced) const;
  /// Something aligned, as a view of x's shape.
  NDArray stretched(const NDArray& aligned) const;
  /// Divided by the number of terms less ddof.
  NDArray per_term(const NDArray& aligned) const;
  /// x less its mean.
  NDArray centred(const NDArray& x) const;
  /// dy in even shares to the elements that are y; beside a NaN, which wins, to the NaNs.
  NDArray shared(const NDArray& x, const NDArray& y, const NDArray& dy) const;
  /// dy in the proportions of x, which is not negative; of zeros alone 0.
  NDArray in_shares(const NDArray& x, const NDArray& dy) const;
  /// Each element's gradient in a product: dy times the product of the others, wherever that fits, beside zeros and
  /// infinities too. A NaN's own may be NaN.
  NDArray of_product(const NDArray& x, const NDArray& dy) const;

 private:
  NDArray recorded_of_product(const NDArray& x, const NDArray& dy) const;

  const GradientCall& call_;
  const Shape& axes_;
  bool keepdims_;
  std::int64_t ddof_;
};

}  // namespace detail
}  // namespace sluice
