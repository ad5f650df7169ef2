// Products that are one contraction, or one multiply.
#include <algorithm>
#include <numeric>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/linalg/contraction.h>
#include <sluice/operator/linalg/diagonal.h>
#include <sluice/operator/linalg/equation.h>
#include <sluice/operator/linalg/products.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/matmul/product.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/own_defaults.h>

namespace sluice {

namespace {

using detail::MatmulAttributes;
using detail::multiplied;
using detail::unseen_shape;

extern const Operator k_kron, k_batch_dot;

/// Axes of a and of b that are summed together.
struct AxesAttributes {
  Shape axes_a = {};
  Shape axes_b = {};

  template <class V>
  void visit(V&& v) {
    v.field("axes_a", axes_a);
    v.field("axes_b", axes_b);
  }
};

// -- One sum over some axes of both ----------------------------------------------------------------------------------
// Which axes dot, inner and vdot sum over; none beside an array without axes.
using Axes = AxesAttributes (*)(const Shape& a, const Shape& b);

AxesAttributes axes_of_dot(const Shape& a, const Shape& b) {
  if (a.empty() || b.empty())
    return {};
  return {{a.ndim() - 1}, {std::max(b.ndim() - 2, 0)}};
}

AxesAttributes axes_of_inner(const Shape& a, const Shape& b) {
  if (a.empty() || b.empty())
    return {};
  return {{a.ndim() - 1}, {b.ndim() - 1}};
}

Shape without(const Shape& shape, const Shape& axes) {
  Shape rest;
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end())
      rest.push_back(shape[axis]);
  }
  return rest;
}

Shape counted(const char* op, const Shape& axes, const Shape& of) {
  Shape normal;
  for (const std::int64_t given : axes) {
    const int axis = normal_axis(given, of.ndim(), op);
    require<ValueError>(std::find(normal.begin(), normal.end(), axis) == normal.end(), [&] {
      return message(op, ": axes ", axes, " name an axis of ", of, " twice");
    });
    normal.push_back(axis);
  }
  return normal;
}

AxesAttributes counted(const char* op, const Shape& a, const Shape& b, const AxesAttributes& axes) {
  const AxesAttributes normal{counted(op, axes.axes_a, a), counted(op, axes.axes_b, b)};
  bool fits = normal.axes_a.ndim() == normal.axes_b.ndim();
  for (int i = 0; fits && i < normal.axes_a.ndim(); ++i)
    fits = a[static_cast<int>(normal.axes_a[i])] == b[static_cast<int>(normal.axes_b[i])];
  require<ShapeError>(fits, [&] {
    return message(
        op, ": axes ", axes.axes_a, " of shape ", a, " and ", axes.axes_b, " of ", b, " cannot be summed together");
  });
  return normal;
}

Specs infer_sum_over(const Operator& op, std::span<const ArraySpec> inputs, const AxesAttributes& given) {
  const Shape &a = inputs[0].shape, &b = inputs[1].shape;
  const AxesAttributes axes = counted(op.name, a, b, given);
  ArraySpec spec = inputs[0];
  spec.shape = without(a, axes.axes_a);
  for (const std::int64_t extent : without(b, axes.axes_b))
    spec.shape.push_back(extent);
  spec.dtype = multiplied(spec.dtype);
  return {spec};
}

NDArray sum_over(const char* op, const NDArray& a, const NDArray& b, const AxesAttributes& given, SourceLocation site) {
  const AxesAttributes axes = counted(op, unseen_shape(a), unseen_shape(b), given);
  std::string of_a(static_cast<std::size_t>(unseen_shape(a).ndim()), ' '),
      of_b(static_cast<std::size_t>(unseen_shape(b).ndim()), ' ');
  std::iota(of_a.begin(), of_a.end(), 'a');
  std::iota(of_b.begin(), of_b.end(), 'A');
  std::string kept = of_a + of_b;
  for (int i = 0; i < axes.axes_a.ndim(); ++i) {
    char& name = of_b[static_cast<std::size_t>(axes.axes_b[i])];
    name = of_a[static_cast<std::size_t>(axes.axes_a[i])];
    kept.erase(kept.find(name), 1);
  }
  return detail::contracted({a, of_a}, {b, of_b}, kept, site).array;
}

template <Axes axes>
Specs infer_axes(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  return infer_sum_over(op, inputs, axes(inputs[0].shape, inputs[1].shape));
}

template <Axes axes>
Arrays summed_dot(std::span<const NDArray> inputs, const Attributes&, SourceLocation site) {
  const AxesAttributes summed = axes(unseen_shape(inputs[0]), unseen_shape(inputs[1]));
  return {sum_over(axes == axes_of_dot ? "dot" : "inner", inputs[0], inputs[1], summed, site)};
}

Specs infer_tensordot(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  return infer_sum_over(op, inputs, attributes.as<AxesAttributes>());
}

Arrays tensordot_of(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  return {sum_over("tensordot", inputs[0], inputs[1], attributes.as<AxesAttributes>(), site)};
}

// -- Arrays as one row -----------------------------------------------------------------------------------------------
Specs infer_vdot(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const Shape &a = inputs[0].shape, &b = inputs[1].shape;
  require<ShapeError>(
      a.size() == b.size(), [&] { return message(op.name, ": ", a, " and ", b, " do not have as many elements"); });
  return {{{}, multiplied(inputs[0].dtype), inputs[0].device}};
}

Arrays dot_of_rows(std::span<const NDArray> inputs, const Attributes&, SourceLocation site) {
  return {sum_over("vdot", inputs[0].reshape({-1}, site), inputs[1].reshape({-1}, site), {{0}, {0}}, site)};
}

Specs infer_outer(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  const Shape shape{inputs[0].shape.size(), inputs[1].shape.size()};
  return {{shape, multiplied(inputs[0].dtype), inputs[0].device}};
}

Arrays outer_of_rows(std::span<const NDArray> inputs, const Attributes&, SourceLocation site) {
  const NDArray a = inputs[0].reshape({-1}, site), b = inputs[1].reshape({-1}, site);
  return {multiply(a.expand_dims(1, site), b.expand_dims(0, site), site)};
}

// -- kron ------------------------------------------------------------------------------------------------------------
Shape with_axes(Shape shape, int ndim) {
  while (shape.ndim() < ndim)
    shape.insert(0, 1);
  return shape;
}

Specs infer_kron(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const int ndim = std::max(inputs[0].shape.ndim(), inputs[1].shape.ndim());
  require<ShapeError>(2 * ndim <= k_max_ndim, [&] {
    return message(op.name, ": ", inputs[0].shape, " and ", inputs[1].shape, " have more than 4 axes");
  });
  ArraySpec spec = inputs[0];
  spec.shape = with_axes(inputs[0].shape, ndim);
  const Shape b = with_axes(inputs[1].shape, ndim);
  for (int axis = 0; axis < ndim; ++axis)
    spec.shape[axis] *= b[axis];
  spec.shape.size();  // says that it fits
  spec.dtype = multiplied(spec.dtype);
  return {spec};
}

Arrays kron_of(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Shape shape = infer_kron(k_kron, detail::specs_of(inputs), attributes)[0].shape;
  NDArray a = inputs[0], b = inputs[1];
  while (unseen_shape(a).ndim() < shape.ndim())
    a = a.expand_dims(0, site);
  while (unseen_shape(b).ndim() < shape.ndim())
    b = b.expand_dims(0, site);
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    a = a.expand_dims(2 * axis + 1, site);
    b = b.expand_dims(2 * axis, site);
  }
  return {multiply(a, b, site).reshape(detail::with_open_rows(shape), site)};
}

// -- batch_dot -------------------------------------------------------------------------------------------------------
Specs infer_batch_dot(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const Shape &a = inputs[0].shape, &b = inputs[1].shape;
  bool fits = a.ndim() >= 3 && a.ndim() == b.ndim();
  for (int axis = 0; fits && axis + 2 < a.ndim(); ++axis)
    fits = a[axis] == b[axis];
  require<ShapeError>(
      fits, [&] { return message(op.name, ": ", a, " and ", b, " are no two batches of as many matrices"); });
  return detail::matmul_op.infer(detail::matmul_op, inputs, attributes);
}

Arrays batch_dot_of(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_batch_dot(k_batch_dot, detail::specs_of(inputs), attributes);
  return {invoke_one(detail::matmul_op, {inputs[0], inputs[1]}, attributes, site)};
}

constexpr Operator product_of_two(const char* name, Infer infer, Composition composition) {
  Operator op{};
  op.name = name;
  op.inputs = 2;
  op.normalise = detail::promote_inputs;
  op.infer = infer;
  op.composition = composition;
  return op;
}

constexpr Operator product_of_two(
    const char* name, Infer infer, Composition composition, const AttributeType& attributes) {
  Operator op = product_of_two(name, infer, composition);
  op.attributes = &attributes;
  return op;
}

// numpy.tensordot's where a call names none.
AxesAttributes last_two_axes() {
  return {{-2, -1}, {0, 1}};
}

constinit const Operator k_dot = product_of_two("dot", infer_axes<axes_of_dot>, summed_dot<axes_of_dot>);
constinit const Operator k_inner = product_of_two("inner", infer_axes<axes_of_inner>, summed_dot<axes_of_inner>);
constinit const Operator k_vdot = product_of_two("vdot", infer_vdot, dot_of_rows);
constinit const Operator k_outer = product_of_two("outer", infer_outer, outer_of_rows);
constinit const Operator k_kron = product_of_two("kron", infer_kron, kron_of);
constinit const Operator k_tensordot =
    product_of_two("tensordot", infer_tensordot, tensordot_of, attribute_type_from<last_two_axes>);
constinit const Operator k_batch_dot =
    product_of_two("batch_dot", infer_batch_dot, batch_dot_of, attribute_type<MatmulAttributes>);

}  // namespace

detail::OperatorList detail::product_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_dot,
      &k_inner,
      &k_vdot,
      &k_outer,
      &k_kron,
      &k_tensordot,
      &k_batch_dot,
      &k_einsum,
      &k_diagonal,
      &k_undiagonal,
      &k_trace,
      &k_diag};
  return list;
}

NDArray dot(const NDArray& a, const NDArray& b, SourceLocation site) {
  return invoke_one(k_dot, {a, b}, {}, site);
}

NDArray inner(const NDArray& a, const NDArray& b, SourceLocation site) {
  return invoke_one(k_inner, {a, b}, {}, site);
}

NDArray vdot(const NDArray& a, const NDArray& b, SourceLocation site) {
  return invoke_one(k_vdot, {a, b}, {}, site);
}

NDArray outer(const NDArray& a, const NDArray& b, SourceLocation site) {
  return invoke_one(k_outer, {a, b}, {}, site);
}

NDArray kron(const NDArray& a, const NDArray& b, SourceLocation site) {
  return invoke_one(k_kron, {a, b}, {}, site);
}

NDArray batch_dot(const NDArray& a, const NDArray& b, bool transpose_a, bool transpose_b, SourceLocation site) {
  return invoke_one(k_batch_dot, {a, b}, Attributes::of(MatmulAttributes{transpose_a, transpose_b}), site);
}

NDArray tensordot(const NDArray& a, const NDArray& b, const Shape& axes_a, const Shape& axes_b, SourceLocation site) {
  return invoke_one(k_tensordot, {a, b}, Attributes::of(AxesAttributes{axes_a, axes_b}), site);
}

NDArray tensordot(const NDArray& a, const NDArray& b, SourceLocation site) {
  return detail::tensordot_of_last(a, b, 2, site);
}

NDArray detail::tensordot_of_last(const NDArray& a, const NDArray& b, std::int64_t axes, SourceLocation site) {
  return located(site, [&]() -> NDArray {
    const int of_a = object_of(a, "tensordot").shape.ndim(), of_b = object_of(b, "tensordot").shape.ndim();
    require<ShapeError>(axes >= 0 && axes <= std::min(of_a, of_b), [&] {
      return message("tensordot: no ", axes, " axes of arrays that have ", of_a, " and ", of_b);
    });
    AxesAttributes summed;
    for (std::int64_t i = 0; i < axes; ++i) {
      summed.axes_a.push_back(of_a - axes + i);
      summed.axes_b.push_back(i);
    }
    return invoke_one(k_tensordot, {a, b}, Attributes::of(summed), site);
  });
}

}  // namespace sluice
