#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/nothing.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sides.h>
#include <sluice/operator/vision/grid_rule.h>
#include <sluice/operator/vision/grid_sample.h>
#include <sluice/operator/vision/samples.h>

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
  const GridPlacesAttributes means{extents[2], extents[3], how.border, how.reflection, how.align_corners};
  const Arrays places = invoke(detail::k_grid_places, {&grid, 1}, Attributes::of(means), site);
  const SampleMode mode = how.nearest ? SampleMode::nearest : SampleMode::bilinear;
  return {detail::sampled(x, places[0], places[1], mode, site).astype(x.dtype(), site)};
}

}  // namespace

namespace detail {

NDArray sampled(const NDArray& x, const NDArray& rows, const NDArray& columns, SampleMode mode, SourceLocation site) {
  const NDArray wide = x.astype(rows.dtype(), site);
  const bool nearest = mode == SampleMode::nearest;
  return invoke_one(
      k_plane_samples,
      {wide, nearest ? rows.detach() : rows, nearest ? columns.detach() : columns},
      Attributes::of(SamplesAttributes{nearest}),
      site);
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
