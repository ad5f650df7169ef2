#include <limits>

#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/linalg/products.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/reduce/calls.h>
#include <sluice/operator/reduce/gradient.h>
#include <sluice/operator/reduce/normal_axes.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/reduce/statistics.h>
#include <sluice/operator/scan/scan.h>
#include <sluice/operator/view/arranged.h>

namespace sluice {

namespace {

using detail::ReduceAttributes;

DType real_type(DType dtype) {
  return detail::operand_type(RowKind::real, dtype);
}

// What is reckoned in, for results of a type.
NDArray in_wide(const NDArray& x, DType result, SourceLocation site) {
  return x.astype(detail::wide_type(result), site);
}

// -- ptp --------------------------------------------------------------------------------------------------------------
Specs infer_range(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  Specs specs = detail::operator_of(Reduction::max).infer(op, inputs, attributes);
  specs[0].dtype = detail::operand_type(RowKind::arithmetic, specs[0].dtype);
  return specs;
}

Arrays range_of(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);

constinit const Operator k_ptp{
    .name = "ptp",
    .attributes = &attribute_type<ReduceAttributes>,
    .normalise = detail::normalise_axes<ReduceAttributes, false>,
    .infer = infer_range,
    .composition = range_of,
};

Arrays range_of(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_range(k_ptp, detail::specs_of(inputs), attributes);
  const auto& a = attributes.as<ReduceAttributes>();
  const NDArray& x = inputs[0];
  return {subtract(max(x, a.axes, a.keepdims, site), min(x, a.axes, a.keepdims, site), site)};
}

// -- cov, corrcoef ----------------------------------------------------------------------------------------------------
struct CovAttributes {
  bool rowvar = true;
  std::int64_t ddof = 1;

  template <class V>
  void visit(V&& v) {
    v.field("rowvar", rowvar);
    v.field("ddof", ddof);
  }
};

struct CorrcoefAttributes {
  bool rowvar = true;

  template <class V>
  void visit(V&& v) {
    v.field("rowvar", rowvar);
  }
};

template <class A>
Specs infer_pairs(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& x = inputs[0];
  require<ShapeError>(x.shape.ndim() == 1 || x.shape.ndim() == 2, [&] {
    return message(op.name, ": x must have one axis or two, variables and observations, not be ", x.shape);
  });
  ArraySpec y{{}, real_type(x.dtype), x.device};
  if (x.shape.ndim() == 2) {
    const std::int64_t variables = x.shape[attributes.as<A>().rowvar ? 0 : 1];
    y.shape = {variables, variables};
  }
  return {y};
}

// Of x as it is given, with variables as rows in the result, and two axes.
NDArray covariances(const NDArray& x, bool rowvar, std::int64_t ddof, SourceLocation site) {
  const bool one = detail::unseen_shape(x).ndim() == 1;
  const NDArray rows = one ? x.expand_dims(0, site) : rowvar ? x : x.T(site);
  const NDArray means = mean(rows, {1}, true, site), centred = subtract(rows, means, site);
  const NDArray products = matmul(centred, centred.T(site), site);
  const Attributes terms = Attributes::of(detail::TermsAttributes{{one || !rowvar ? 0 : 1}, ddof});
  // Of no observations the means are NaN, and so is what they say.
  const NDArray shares = invoke_one(detail::k_divide_by_terms, {products, x}, terms, site);
  return add(shares, multiply(means.detach(), 0, site), site);
}

// As inference says it.
NDArray finished(const NDArray& pairs, const ArraySpec& y, SourceLocation site) {
  const NDArray result = y.shape.empty() ? pairs.squeeze(0, site).squeeze(0, site) : pairs;
  return result.astype(y.dtype, site);
}

Arrays covariance(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);
Arrays correlation(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);

constinit const Operator k_cov{
    .name = "cov",
    .attributes = &attribute_type<CovAttributes>,
    .infer = infer_pairs<CovAttributes>,
    .composition = covariance,
};
constinit const Operator k_corrcoef{
    .name = "corrcoef",
    .attributes = &attribute_type<CorrcoefAttributes>,
    .infer = infer_pairs<CorrcoefAttributes>,
    .composition = correlation,
};

Arrays covariance(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const ArraySpec y = infer_pairs<CovAttributes>(k_cov, detail::specs_of(inputs), attributes)[0];
  const auto& a = attributes.as<CovAttributes>();
  return {finished(covariances(in_wide(inputs[0], y.dtype, site), a.rowvar, a.ddof, site), y, site)};
}

Arrays correlation(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const ArraySpec y = infer_pairs<CorrcoefAttributes>(k_corrcoef, detail::specs_of(inputs), attributes)[0];
  const bool rowvar = attributes.as<CorrcoefAttributes>().rowvar;
  const NDArray pairs = covariances(in_wide(inputs[0], y.dtype, site), rowvar, 1, site);
  const NDArray deviations = sqrt(diagonal(pairs, 0, 0, 1, site), site);
  const NDArray by_row = divide(pairs, deviations.expand_dims(1, site), site);
  return {finished(clip(divide(by_row, deviations, site), -1, 1, site), y, site)};
}

// -- cosine_similarity ------------------------------------------------------------------------------------------------
struct SimilarityAttributes {
  std::int64_t axis = 1;
  double eps = 1e-8;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("eps", eps);
  }
};

Specs infer_similarity(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& how = attributes.as<SimilarityAttributes>();
  require<ValueError>(how.eps > 0, [&] { return message(op.name, ": eps is ", how.eps, ", not above 0"); });
  Shape shape = broadcast_shape(inputs[0].shape, inputs[1].shape, op.name);
  shape.erase(normal_axis(how.axis, shape.ndim(), op.name));
  return {{shape, real_type(promote(inputs[0].dtype, inputs[1].dtype)), inputs[0].device}};
}

Arrays similarity(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);

constinit const Operator k_cosine_similarity{
    .name = "cosine_similarity",
    .inputs = 2,
    .attributes = &attribute_type<SimilarityAttributes>,
    .infer = infer_similarity,
    .composition = similarity,
};

Arrays similarity(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const DType own = infer_similarity(k_cosine_similarity, detail::specs_of(inputs), attributes)[0].dtype;
  const auto& how = attributes.as<SimilarityAttributes>();
  std::vector<NDArray> sides = broadcast_arrays(inputs, site);
  for (NDArray& side : sides) {
    side = in_wide(side, own, site);
    side = divide(side, maximum(l2_norm(side, {how.axis}, true, site), how.eps, site), site);
  }
  return {sum(multiply(sides[0], sides[1], site), {how.axis}, false, site).astype(own, site)};
}

// -- trapezoid --------------------------------------------------------------------------------------------------------
struct TrapezoidAttributes {
  double dx = 1;
  std::int64_t axis = -1;

  template <class V>
  void visit(V&& v) {
    v.field("dx", dx);
    v.field("axis", axis);
  }
};

Specs infer_integral(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(inputs.size() == 1 || inputs.size() == 2, [&] {
    return message(op.name, ": takes y and perhaps x, not ", inputs.size(), " arrays");
  });
  const ArraySpec& y = inputs[0];
  ArraySpec result = y;
  const int axis = normal_axis(attributes.as<TrapezoidAttributes>().axis, y.shape.ndim(), op.name);
  if (inputs.size() > 1) {
    const Shape& x = inputs[1].shape;
    require<ShapeError>(x == y.shape || x == Shape{y.shape[axis]}, [&] {
      return message(op.name, ": x of shape ", x, " is neither of y's shape ", y.shape, " nor of its axis ", axis);
    });
    result.dtype = promote(y.dtype, inputs[1].dtype);
  }
  result.dtype = real_type(result.dtype);
  result.shape.erase(axis);
  return {result};
}

// How far apart entries stand, beside an array of `ndim` axes. Differences of whole numbers are exact.
NDArray widths(const NDArray& x, int axis, int ndim, DType result, SourceLocation site) {
  const bool is_line = detail::unseen_shape(x).ndim() == 1;
  const NDArray places = is_floating(x.dtype()) ? in_wide(x, result, site) : x.astype(int64, site);
  NDArray apart = in_wide(diff(places, 1, is_line ? 0 : axis, site), result, site);
  for (int behind = axis + 1; is_line && behind < ndim; ++behind)
    apart = apart.expand_dims(-1, site);
  return apart;
}

Arrays integral(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);

constinit const Operator k_trapezoid{
    .name = "trapezoid",
    .inputs = -1,
    .attributes = &attribute_type<TrapezoidAttributes>,
    .infer = infer_integral,
    .composition = integral,
};

Arrays integral(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();
  const DType own = infer_integral(k_trapezoid, detail::specs_of(inputs), attributes)[0].dtype;
  const auto& how = attributes.as<TrapezoidAttributes>();
  const NDArray y = in_wide(inputs[0], own, site);
  const int ndim = detail::unseen_shape(y).ndim(), axis = normal_axis(how.axis, ndim, "trapezoid");
  const NDArray heights = add(y.slice(axis, 1, end, 1, site), y.slice(axis, 0, -1, 1, site), site);
  const bool has_places = inputs.size() > 1;
  const NDArray areas = has_places ? multiply(heights, widths(inputs[1], axis, ndim, own, site), site) : heights;
  return {multiply(sum(areas, {axis}, false, site), has_places ? 0.5 : 0.5 * how.dx, site).astype(own, site)};
}

}  // namespace

detail::OperatorList detail::statistics_operators() noexcept {
  static constexpr const Operator* list[] = {&k_ptp, &k_cov, &k_corrcoef, &k_cosine_similarity, &k_trapezoid};
  return list;
}

NDArray ptp(const NDArray& x, const Shape& axes, bool keepdims, SourceLocation site) {
  return invoke_one(k_ptp, {x}, Attributes::of(ReduceAttributes{axes, keepdims}), site);
}

NDArray cov(const NDArray& x, const CovOptions& options, SourceLocation site) {
  return invoke_one(k_cov, {x}, Attributes::of(CovAttributes{options.rowvar, options.ddof}), site);
}

NDArray corrcoef(const NDArray& x, bool rowvar, SourceLocation site) {
  return invoke_one(k_corrcoef, {x}, Attributes::of(CorrcoefAttributes{rowvar}), site);
}

NDArray cosine_similarity(const NDArray& a, const NDArray& b, int axis, double eps, SourceLocation site) {
  return invoke_one(k_cosine_similarity, {a, b}, Attributes::of(SimilarityAttributes{axis, eps}), site);
}

NDArray trapezoid(const NDArray& y, double dx, int axis, SourceLocation site) {
  return invoke_one(k_trapezoid, {y}, Attributes::of(TrapezoidAttributes{dx, axis}), site);
}

NDArray trapezoid(const NDArray& y, const NDArray& x, int axis, SourceLocation site) {
  return invoke_one(k_trapezoid, {y, x}, Attributes::of(TrapezoidAttributes{1, axis}), site);
}

}  // namespace sluice
