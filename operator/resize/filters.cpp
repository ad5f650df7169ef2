#include <algorithm>

#include <sluice/ndarray/create.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/resize/filters.h>

namespace sluice::detail {

namespace {

NDArray counted(std::int64_t n, DType dtype, const NDArray& beside, SourceLocation site) {
  return arange(0, static_cast<double>(n), 1, {.dtype = dtype, .device = beside.device()}, site);
}

// ((a x + b) x + c) x + d
NDArray cubic(const NDArray& x, double a, double b, double c, double d, SourceLocation site) {
  NDArray y = add(multiply(x, a, site), b, site);
  y = add(multiply(y, x, site), c, site);
  return add(multiply(y, x, site), d, site);
}
// Keys' spline within 1 of its middle, and from there to 2.
NDArray spline_near(const NDArray& x, double a, SourceLocation site) {
  return cubic(x, a + 2, -(a + 3), 0, 1, site);
}
NDArray spline_far(const NDArray& x, double a, SourceLocation site) {
  return cubic(x, a, -5 * a, 8 * a, -4 * a, site);
}

// What each of `in` pixels weighs in each of `out`: (out, in), rows that add up to 1.
NDArray weights_of(const NDArray& x, const ResizedAxis& of, bool is_cubic, SourceLocation site) {
  const auto in = static_cast<double>(of.in), out = static_cast<double>(of.out);
  const double scale = !of.corners ? in / out : of.out > 1 ? (in - 1) / (out - 1) : 0;
  const NDArray middle = multiply(add(counted(of.out, float64, x, site), 0.5, site), scale, site).expand_dims(1, site);
  const NDArray pixel = add(counted(of.in, float64, x, site), 0.5, site);
  const NDArray apart = multiply(abs(subtract(pixel, middle, site), site), 1 / std::max(scale, 1.0), site);
  NDArray weight = maximum(subtract(1, apart, site), 0, site);
  if (is_cubic) {
    constexpr double a = -0.5;
    const NDArray beyond = where(less(apart, 2, site), spline_far(apart, a, site), 0, site);
    weight = where(less(apart, 1, site), spline_near(apart, a, site), beyond, site);
  }
  return divide(weight, sum(weight, {1}, true, site), site);
}

}  // namespace

NDArray mixed_by_cubic(const NDArray& x, const ResizedAxis& of, SourceLocation site) {
  const NDArray i = counted(of.out, int64, x, site);
  const std::int64_t unit = of.corners ? std::max<std::int64_t>(of.out - 1, 1) : 2 * of.out;
  NDArray steps = multiply(i, of.corners ? of.in - 1 : 2 * of.in, site);
  if (!of.corners)
    steps = add(steps, of.in - of.out, site);
  const NDArray lower = floor_divide(steps, unit, site);
  const NDArray part = divide(mod(steps, unit, site).astype(float64, site), static_cast<double>(unit), site);
  const NDArray rest = subtract(1, part, site);
  constexpr double a = -0.75;
  const NDArray weights[] = {
      spline_far(add(part, 1, site), a, site),
      spline_near(part, a, site),
      spline_near(rest, a, site),
      spline_far(add(rest, 1, site), a, site)};
  NDArray total;
  for (int tap = 0; tap < 4; ++tap) {
    const NDArray place = clip(add(lower, tap - 1, site), 0, of.in - 1, site);
    const DType wide = wide_type(x.dtype());
    const NDArray weight = weights[tap].astype(wide, site).reshape(of.axis == 2 ? Shape{-1, 1} : Shape{-1}, site);
    const NDArray term = multiply(take(x, place, of.axis, IndexMode::raise, site), weight, site);
    total = tap == 0 ? term : add(total, term, site);
  }
  return total;
}

NDArray mixed_by_filter(const NDArray& x, const ResizedAxis& of, bool cubic, SourceLocation site) {
  const DType wide = wide_type(x.dtype());
  const NDArray weights = weights_of(x, of, cubic, site).astype(wide, site), from = x.astype(wide, site);
  return of.axis == 2 ? matmul(weights, from, site) : matmul(from, weights.transpose({1, 0}, site), site);
}

}  // namespace sluice::detail
