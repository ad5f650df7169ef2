#include <algorithm>
#include <utility>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/linalg/diagonal.h>
#include <sluice/operator/linalg/products.h>
#include <sluice/operator/reduce/calls.h>
#include <sluice/operator/reduce/plan.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/sink.h>

namespace sluice::detail {

Geometry diagonal_of(const char* op, const Geometry& input, const DiagonalAttributes& which) {
  const int ndim = input.shape.ndim();
  const int first = normal_axis(which.axis1, ndim, op), second = normal_axis(which.axis2, ndim, op);
  require<ValueError>(first != second, [&] {
    return message(op, ": axes ", which.axis1, " and ", which.axis2, " of shape ", input.shape, " are the same");
  });
  const std::int64_t rows = input.shape[first], columns = input.shape[second];
  // Of an offset beyond the matrix nothing is left; it is not added to anything then, so that it cannot overflow.
  const bool beyond = which.offset >= columns || which.offset <= -rows;
  const std::int64_t right = beyond ? 0 : std::max<std::int64_t>(which.offset, 0);
  const std::int64_t down = beyond ? 0 : std::max<std::int64_t>(-which.offset, 0);
  Geometry view = input;
  const std::int64_t step = input.strides[first] + input.strides[second];
  view.offset += right * input.strides[second] + down * input.strides[first];
  for (const int axis : {std::max(first, second), std::min(first, second)}) {
    view.shape.erase(axis);
    view.strides.erase(axis);
  }
  const std::int64_t extent = beyond ? 0 : std::min(rows - down, columns - right);
  view.shape.push_back(extent);
  view.strides.push_back(extent > 1 ? step : 1);
  return view;
}

namespace {

Geometry diagonal_view(const Operator& op, const Geometry& input, const Shape*, const Attributes& attributes) {
  return diagonal_of(op.name, input, attributes.as<DiagonalAttributes>());
}

Arrays diagonal_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return {NDArray()};
  return {invoke_one(k_undiagonal, {dy, shape_only(call.input_specs[0])}, call.attributes, SourceLocation::current())};
}

Specs infer_undiagonal(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec &dy = inputs[0], &whole = inputs[1];
  const Shape part =
      diagonal_of(op.name, {whole.shape, contiguous_strides(whole.shape), 0}, attributes.as<DiagonalAttributes>())
          .shape;
  require<ShapeError>(dy.shape == part, [&] {
    return message(op.name, ": ", dy.shape, " is not the diagonal of shape ", part, " of ", whole.shape);
  });
  return {{whole.shape, dy.dtype, dy.device}};
}

void issue_undiagonal(const IssueCall& call) {
  const NDArray& whole = call.outputs[0];
  // The diagonal may lie in the memory of the destination.
  const NDArray part = overlaps(call.inputs[0], whole) ? call.inputs[0].copy(call.site) : call.inputs[0];
  push_fill(whole, 0, call.site);
  const Geometry view = diagonal_of(call.op.name, geometry_of(whole), call.attributes.as<DiagonalAttributes>());
  push_copy(part, make_view(whole, view.shape, view.strides, view.offset), call.site);
}

Arrays undiagonal_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return Arrays(2);
  return {invoke_one(k_diagonal, {dy}, call.attributes, SourceLocation::current()), NDArray()};
}

// What sum() says of the diagonal.
Specs infer_trace(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& x = inputs[0];
  ArraySpec part = x;
  part.shape =
      diagonal_of(op.name, {x.shape, contiguous_strides(x.shape), 0}, attributes.as<DiagonalAttributes>()).shape;
  const Operator& sums = operator_of(Reduction::sum);
  return sums.infer(sums, {&part, 1}, Attributes::of(ReduceAttributes{{part.shape.ndim() - 1}, false}));
}

Arrays sum_of_diagonal(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_trace(k_trace, specs_of(inputs), attributes);
  return {sum(invoke_one(k_diagonal, {inputs[0]}, attributes, site), {-1}, false, site)};
}

// -- diag -------------------------------------------------------------------------------------------------------------
// Rows and columns of a matrix that has `entries` on that diagonal and nothing beside it.
std::int64_t side_of(const char* op, std::int64_t entries, std::int64_t k) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  require<ShapeError>(k > -most && k < most && entries < most, [&] {
    return message(op, ": a matrix with ", entries, " entries on diagonal ", k, " would have 2^31 rows or more");
  });
  return entries + (k < 0 ? -k : k);
}

Specs infer_diag(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const std::int64_t k = attributes.as<DiagAttributes>().k;
  const Shape& x = inputs[0].shape;
  require<ShapeError>(x.ndim() == 1 || x.ndim() == 2, [&] {
    return message(op.name, ": x must have one axis or two, not be ", x, "; diagonal() takes any two axes");
  });
  ArraySpec y = inputs[0];
  if (x.ndim() == 2) {
    y.shape = diagonal_of(op.name, {x, contiguous_strides(x), 0}, {k, 0, 1}).shape;
  } else {
    const std::int64_t side = side_of(op.name, x[0], k);
    y.shape = {side, side};
  }
  return {y};
}

Arrays made_or_taken(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const NDArray& x = inputs[0];
  ArraySpec whole = infer_diag(k_diag, specs_of(inputs), attributes)[0];
  const Attributes which = Attributes::of(DiagonalAttributes{attributes.as<DiagAttributes>().k, 0, 1});
  if (unseen_shape(x).ndim() == 2)
    return {invoke_one(k_diagonal, {x}, which, site).copy(site)};
  whole.value = 0;
  whole.shape = Shape::filled(2, side_of(k_diag.name, x.shape()[0], attributes.as<DiagAttributes>().k));
  return {invoke_one(k_undiagonal, {x, shape_only(whole)}, which, site)};
}

}  // namespace

const Operator k_diagonal{
    .name = "diagonal",
    .attributes = &attribute_type<DiagonalAttributes>,
    .view = diagonal_view,
    .gradient = diagonal_gradient};
const Operator k_undiagonal{
    .name = "undiagonal",
    .inputs = 2,
    .attributes = &attribute_type<DiagonalAttributes>,
    .infer = infer_undiagonal,
    .issue = issue_undiagonal,
    .gradient = undiagonal_gradient,
    .strided_inputs = k_all,
    .strided_outputs = true,
    .shape_inputs = 0b10};
const Operator k_trace{
    .name = "trace",
    .attributes = &attribute_type<DiagonalAttributes>,
    .infer = infer_trace,
    .composition = sum_of_diagonal};
const Operator k_diag{
    .name = "diag", .attributes = &attribute_type<DiagAttributes>, .infer = infer_diag, .composition = made_or_taken};

}  // namespace sluice::detail

namespace sluice {

NDArray diagonal(const NDArray& x, std::int64_t offset, int axis1, int axis2, SourceLocation site) {
  return invoke_one(detail::k_diagonal, {x}, Attributes::of(detail::DiagonalAttributes{offset, axis1, axis2}), site);
}

NDArray diag(const NDArray& x, std::int64_t k, SourceLocation site) {
  return invoke_one(detail::k_diag, {x}, Attributes::of(detail::DiagAttributes{k}), site);
}

NDArray trace(const NDArray& x, std::int64_t offset, int axis1, int axis2, SourceLocation site) {
  return invoke_one(detail::k_trace, {x}, Attributes::of(detail::DiagonalAttributes{offset, axis1, axis2}), site);
}

}  // namespace sluice
