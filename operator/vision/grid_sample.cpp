#include <algorithm>
#include <limits>
#include <vector>

#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/nothing.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/scan/scan.h>
#include <sluice/operator/sides.h>
#include <sluice/operator/vision/grid_sample.h>
#include <sluice/operator/vision/plane_samples.h>

namespace sluice {

namespace {

struct GridSampleAttributes {
  bool nearest = false, border = false, reflection = false, align_corners = false;

  template <class V>
  void visit(V&& v) {
    v.field("nearest", nearest);
    v.field("border", border);
    v.field("reflection", reflection);
    v.field("align_corners", align_corners);
  }
};

Specs infer_grid(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec &x = inputs[0], &grid = inputs[1];
  const auto& how = attributes.as<GridSampleAttributes>();
  require<ValueError>(
      !how.border || !how.reflection, [&] { return message(op.name, ": padding is border or reflection, not both"); });
  require<DTypeError>(is_floating(x.dtype) && is_floating(grid.dtype), [&] {
    return message(op.name, ": takes floating types, not ", x.dtype, " and ", grid.dtype);
  });
  const Shape &xs = x.shape, &gs = grid.shape;
  const bool fits = xs.ndim() == 4 && gs.ndim() == 4 && xs[0] == gs[0] && gs[3] == 2;
  require<ShapeError>(fits && xs[2] >= 1 && xs[3] >= 1, [&] {
    return message(
        op.name, ": x must be (N, C, H, W) of at least a pixel and grid (N, OH, OW, 2), not ", xs, " and ", gs);
  });
  require<ShapeError>(xs[2] <= detail::k_most_of_window && xs[3] <= detail::k_most_of_window, [&] {
    return message(op.name, ": planes of x of shape ", xs, " are too large");
  });
  return {{{xs[0], xs[1], gs[1], gs[2]}, x.dtype, x.device}};
}

// Mirrored at the ends of [low, high].
NDArray reflected(const NDArray& at, double low, double high, SourceLocation site) {
  const double span = high - low;
  if (span <= 0)
    return multiply(at, 0, site);
  const NDArray from = abs(subtract(at, low, site), site), beyond = mod(from, span, site);
  const NDArray turns = mod(floor(divide(from, span, site), site), 2, site);
  return add(where(equal(turns, 0, site), beyond, subtract(span, beyond, site), site), low, site);
}

NDArray kept_inside(const NDArray& at, std::int64_t extent, const GridSampleAttributes& how, SourceLocation site) {
  const auto last = static_cast<double>(extent - 1);
  if (how.border)
    return clip(at, 0, last, site);
  if (!how.reflection)
    return at;
  // What is infinitely far has no mirror image, and is not to come into gradients.
  const NDArray known = isfinite(at, site), from = where(known, at, 0, site);
  const NDArray inside = how.align_corners ? reflected(from, 0, last, site) : reflected(from, -0.5, last + 0.5, site);
  return where(known, clip(inside, 0, last, site), std::numeric_limits<double>::quiet_NaN(), site);
}

// Numbers from -1 to 1 as pixels.
NDArray in_pixels(
    const NDArray& grid, int number, std::int64_t extent, const GridSampleAttributes& how, SourceLocation site) {
  const NDArray at = add(grid.slice(3, number, number + 1, 1, site).squeeze(3, site), 1, site);
  const auto size = static_cast<double>(extent);
  const NDArray pixels = how.align_corners ? multiply(at, (size - 1) / 2, site)
                                           : multiply(subtract(multiply(at, size, site), 1, site), 0.5, site);
  return kept_inside(pixels, extent, how, site);
}

Arrays sample(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_grid(detail::k_grid_sample, detail::specs_of(inputs), attributes);
  const auto& how = attributes.as<GridSampleAttributes>();
  const NDArray& x = inputs[0];
  const Shape extents = detail::extents_beside_batch(x);
  if (extents[1] == 0) {
    const Shape points = detail::extents_beside_batch(inputs[1]);
    return {detail::zeros_from(inputs, {}, {1, 0, points[1], points[2]}, site)};
  }
  const NDArray grid = inputs[1].astype(promote(promote(x.dtype(), inputs[1].dtype()), float32), site);
  const NDArray columns = in_pixels(grid, 0, extents[3], how, site), rows = in_pixels(grid, 1, extents[2], how, site);
  const SampleMode mode = how.nearest ? SampleMode::nearest : SampleMode::bilinear;
  // Border and mirror have brought places inside.
  return {detail::sampled(x, rows, columns, mode, site).astype(x.dtype(), site)};
}

/// The neighbours of places along an axis: which they are, whether they are there, and what they weigh, 0 where not.
struct Neighbour {
  NDArray index, exists, weight;
};

Neighbour neighbour(const NDArray& place, const NDArray& weight, std::int64_t extent, SourceLocation site) {
  const auto last = static_cast<double>(extent - 1);
  const NDArray there = logical_and(greater_equal(place, 0, site), less_equal(place, last, site), site);
  const NDArray index = where(there, place, 0, site).astype(int64, site);
  return {index, there, weight.defined() ? where(there, weight, 0, site) : weight};
}

std::vector<Neighbour> neighbours(const NDArray& at, std::int64_t extent, SampleMode mode, SourceLocation site) {
  if (mode == SampleMode::nearest)
    return {neighbour(round(at.detach(), site), {}, extent, site)};
  const NDArray low = floor(at.detach(), site), part = subtract(at, low, site);
  return {neighbour(low, subtract(1, part, site), extent, site), neighbour(add(low, 1, site), part, extent, site)};
}

// The number of each image, (N, 1, 1), without a look at how many there are.
NDArray images_of(const NDArray& at, const Shape& extents, SourceLocation site) {
  NDArray corner = at.detach();
  for (int axis = 1; axis < 3; ++axis)
    corner = corner.slice(axis, 0, std::min<std::int64_t>(extents[axis], 1), 1, site);
  const NDArray one = add(multiply(corner, 0, site).astype(int64, site), 1, site);
  return subtract(cumsum(equal(one, one, site).astype(int64, site), 0, false, site), 1, site);
}

}  // namespace

namespace detail {

NDArray sampled(const NDArray& x, const NDArray& rows, const NDArray& columns, SampleMode mode, SourceLocation site) {
  const Shape extents = extents_beside_batch(x);
  if (!x.device().is_cpu() || extents[2] > k_most_of_window / extents[3])
    return sampled_by_takes(x, rows, columns, mode, site);
  const Attributes how = Attributes::of(PlaneSamplesAttributes{mode == SampleMode::nearest});
  return invoke_one(k_plane_samples, {x.astype(rows.dtype(), site), rows, columns}, how, site);
}

NDArray sampled_by_takes(
    const NDArray& x, const NDArray& rows, const NDArray& columns, SampleMode mode, SourceLocation site) {
  const Shape extents = extents_beside_batch(x), points = extents_beside_batch(rows);
  const std::int64_t height = extents[2], width = extents[3];
  const NDArray first = multiply(images_of(rows, points, site), height * width, site);
  std::vector<NDArray> places, exist, weights;
  for (const Neighbour& row : neighbours(rows, height, mode, site)) {
    for (const Neighbour& column : neighbours(columns, width, mode, site)) {
      const NDArray in_plane = add(multiply(row.index, width, site), column.index, site);
      places.push_back(add(in_plane, first, site));
      exist.push_back(logical_and(row.exists, column.exists, site));
      if (mode == SampleMode::bilinear)
        weights.push_back(multiply(row.weight, column.weight, site));
    }
  }
  const NDArray pixels = x.transpose({0, 2, 3, 1}, site).reshape({-1, extents[1]}, site);
  // Behind the batch, whose size is open: (N, neighbours, A, B, C).
  const NDArray taken = take(pixels, stack(places, 1, site), 0, IndexMode::clip, site).astype(rows.dtype(), site);
  // Before the product, whose gradients would be NaN of what is beside the image and infinite.
  NDArray there = where(stack(exist, 1, site).expand_dims(4, site), taken, 0, site);
  if (mode == SampleMode::bilinear)
    there = multiply(there, stack(weights, 1, site).expand_dims(4, site), site);
  return sum(there, {1}, false, site).transpose({0, 3, 1, 2}, site);
}

constinit const Operator k_grid_sample{
    .name = "grid_sample",
    .inputs = 2,
    .attributes = &attribute_type<GridSampleAttributes>,
    .infer = infer_grid,
    .composition = sample,
};

}  // namespace detail

NDArray grid_sample(const NDArray& x, const NDArray& grid, const GridSampleOptions& o, SourceLocation site) {
  const GridSampleAttributes how{
      o.mode == SampleMode::nearest,
      o.padding == SamplePadding::border,
      o.padding == SamplePadding::reflection,
      o.align_corners};
  return invoke_one(detail::k_grid_sample, {x, grid}, Attributes::of(how), site);
}

}  // namespace sluice
