#include <algorithm>
#include <limits>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/linalg/decompositions.h>
#include <sluice/operator/linalg/gradients.h>
#include <sluice/operator/linalg/steps.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice {

namespace {

using detail::TriangularAttributes;
using detail::unseen_shape;

struct CutoffAttributes {
  double rcond = -1;

  template <class V>
  void visit(V&& v) {
    v.field("rcond", rcond);
  }
};

bool cast_to_solvable(const RawCall& call, NormalCall& normal) {
  DType dtype = call.inputs[0].dtype();
  for (const NDArray& input : call.inputs.subspan(1))
    dtype = promote(dtype, input.dtype());
  return detail::cast_inputs(call, detail::wide_type(dtype), normal);
}

// Leading axes broadcast.
bool alike_batches(const RawCall& call, NormalCall& normal) {
  const bool cast = cast_to_solvable(call, normal);
  Shape a = unseen_shape(call.inputs[0]), b = unseen_shape(call.inputs[1]);
  if (a.ndim() < 2 || b.ndim() < 2)
    return cast;
  const auto batch_of = [](Shape shape) {
    shape.erase(shape.ndim() - 1);
    shape.erase(shape.ndim() - 1);
    return shape;
  };
  const Shape of_a = batch_of(a), of_b = batch_of(b);
  if (of_a == of_b)
    return cast;
  const Shape batch = broadcast_shape(of_a, of_b, call.op.name);
  if (!cast) {
    normal.inputs.assign(call.inputs.begin(), call.inputs.end());
    normal.attributes = call.attributes;
  }
  for (NDArray& input : normal.inputs) {
    const Shape& own = unseen_shape(input);
    Shape wide = batch;
    wide.push_back(own[own.ndim() - 2]);
    wide.push_back(own.back());
    if (!(wide == own))
      input = input.broadcast_to(wide, call.site);
  }
  return true;
}

// -- Shapes ----------------------------------------------------------------------------------------------------------
void check_matrices(const Operator& op, const ArraySpec& x) {
  const Shape& shape = x.shape;
  require<DTypeError>(
      x.dtype == float32 || x.dtype == float64, [&] { return message(op.name, ": no kernel for ", x.dtype); });
  require<ShapeError>(shape.ndim() >= 2, [&] { return message(op.name, ": needs matrices, not shape ", shape); });
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  require<UnsupportedError>(shape.back() <= most && shape[shape.ndim() - 2] <= most, [&] {
    return message(op.name, ": matrices of shape ", shape, " are larger than LAPACK counts");
  });
}

void check_square(const Operator& op, const ArraySpec& x) {
  check_matrices(op, x);
  require<ShapeError>(x.shape.back() == x.shape[x.shape.ndim() - 2], [&] {
    return message(op.name, ": needs square matrices, not shape ", x.shape);
  });
}

/// The spec of the matrices' batch with other axes behind it.
ArraySpec with_last(const ArraySpec& x, std::initializer_list<std::int64_t> extents) {
  ArraySpec spec = x;
  spec.shape.erase(spec.shape.ndim() - 1);
  spec.shape.erase(spec.shape.ndim() - 1);
  for (const std::int64_t extent : extents)
    spec.shape.push_back(extent);
  spec.value = 0;
  return spec;
}

Specs infer_alike(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  check_square(op, inputs[0]);
  return {inputs[0]};
}

Specs infer_solution(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const ArraySpec &a = inputs[0], &b = inputs[1];
  check_square(op, a);
  check_matrices(op, b);
  const std::int64_t rows = b.shape[b.shape.ndim() - 2], columns = b.shape.back();
  require<ShapeError>(rows == a.shape.back() && with_last(a, {rows, columns}).shape == b.shape, [&] {
    return message(op.name, ": a right side of shape ", b.shape, " does not fit matrices of shape ", a.shape);
  });
  return {b};
}

template <int outputs>
Specs infer_determinant(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  check_square(op, inputs[0]);
  return Specs(outputs, with_last(inputs[0], {}));
}

Specs infer_qr(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const ArraySpec& x = inputs[0];
  check_matrices(op, x);
  const std::int64_t m = x.shape[x.shape.ndim() - 2], n = x.shape.back(), k = std::min(m, n);
  return {with_last(x, {m, k}), with_last(x, {k, n})};
}

Specs infer_svd(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const ArraySpec& x = inputs[0];
  check_matrices(op, x);
  const std::int64_t m = x.shape[x.shape.ndim() - 2], n = x.shape.back(), k = std::min(m, n);
  return {with_last(x, {m, k}), with_last(x, {k}), with_last(x, {k, n})};
}

Specs infer_eigh(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  check_square(op, inputs[0]);
  const std::int64_t n = inputs[0].shape.back();
  return {with_last(inputs[0], {n}), inputs[0]};
}

Specs infer_pinv(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const ArraySpec& x = inputs[0];
  check_matrices(op, x);
  return {with_last(x, {x.shape.back(), x.shape[x.shape.ndim() - 2]})};
}

Specs infer_lstsq(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const ArraySpec &a = inputs[0], &b = inputs[1];
  check_matrices(op, a);
  check_matrices(op, b);
  const std::int64_t rows = a.shape[a.shape.ndim() - 2], columns = b.shape.back();
  require<ShapeError>(with_last(a, {rows, columns}).shape == b.shape, [&] {
    return message(op.name, ": a right side of shape ", b.shape, " does not fit matrices of shape ", a.shape);
  });
  return {with_last(a, {a.shape.back(), columns})};
}

// -- Kernels ---------------------------------------------------------------------------------------------------------
template <detail::Decomposition decomposition>
void on_workers(const KernelCall& call) {
  detail::run_on_cpu(call, decomposition);
}
#if SLUICE_CUDA
template <detail::Decomposition decomposition>
void on_stream(const KernelCall& call) {
  detail::run_on_gpu(call, decomposition);
}
#endif

// Libraries may wait for a GPU, and allocate: such a call is no part of a CUDA graph.
template <detail::Decomposition decomposition>
constexpr Operator decomposed(const char* name, Infer infer, Gradient gradient, Mask inputs, Mask outputs) {
  Operator op{};
  op.name = name;
  op.normalise = cast_to_solvable;
  op.infer = infer;
  op.kernels = {on_cpu(on_workers<decomposition>), on_gpu(SLUICE_GPU_KERNEL(on_stream<decomposition>))};
  op.gradient = gradient;
  op.saved_inputs = inputs;
  op.saved_outputs = outputs;
  op.capturable = false;
  return op;
}

template <detail::Decomposition decomposition>
constexpr Operator solved(const char* name, Gradient gradient) {
  Operator op = decomposed<decomposition>(name, infer_solution, gradient, 0b01, 0b1);
  op.inputs = 2;
  op.normalise = alike_batches;
  return op;
}

constexpr Operator with_attributes(Operator op, const AttributeType* attributes, int outputs = 1) {
  op.attributes = attributes;
  op.outputs = outputs;
  return op;
}

constexpr const AttributeType* k_no_attributes = &attribute_type<NoAttributes>;

// -- Pseudo-inverses, of singular values ------------------------------------------------------------------------------
extern const Operator k_pinv, k_lstsq;

Arrays pseudo_inverse(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const double given = attributes.as<CutoffAttributes>().rcond;
  const NDArray& x = inputs[0];
  const Shape shape = unseen_shape(x);
  const std::int64_t m = shape[shape.ndim() - 2], n = shape.back();
  const double epsilon = x.dtype() == float64 ? 0x1p-52 : 0x1p-23;
  const double rcond = given >= 0 ? given : epsilon * static_cast<double>(std::max(m, n));
  if (std::min(m, n) == 0)
    return {x.swapaxes(-1, -2, site).copy(site)};
  const Svd parts = svd(x, site);
  const NDArray kept = greater(parts.s, multiply(max(parts.s, {-1}, true, site), rcond, site), site);
  const NDArray scales = where(kept, reciprocal(where(kept, parts.s, 1, site), site), 0, site);
  const NDArray scaled = multiply(parts.u, scales.expand_dims(shape.ndim() - 2, site), site);
  return {matmul(scaled, parts.vh, site).swapaxes(-1, -2, site)};
}

Arrays least_squares(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_lstsq(k_lstsq, detail::specs_of(inputs), attributes);
  return {matmul(pinv(inputs[0], attributes.as<CutoffAttributes>().rcond, site), inputs[1], site)};
}

// -- The operators ----------------------------------------------------------------------------------------------------
constinit const Operator k_cholesky =
    decomposed<detail::cholesky_steps>("cholesky", infer_alike, detail::cholesky_gradient, 0, 0b1);
constinit const Operator k_triangular_solve = with_attributes(
    solved<detail::triangular_solve_steps>("triangular_solve", detail::triangular_solve_gradient),
    &attribute_type<TriangularAttributes>);
constinit const Operator k_solve = solved<detail::solve_steps>("solve", detail::solve_gradient);
constinit const Operator k_inverse =
    decomposed<detail::inverse_steps>("inverse", infer_alike, detail::inverse_gradient, 0, 0b1);
constinit const Operator k_det =
    decomposed<detail::det_steps>("det", infer_determinant<1>, detail::det_gradient, 0b1, 0b1);
constinit const Operator k_slogdet = with_attributes(
    decomposed<detail::slogdet_steps>("slogdet", infer_determinant<2>, detail::slogdet_gradient, 0b1, 0),
    k_no_attributes,
    2);
constinit const Operator k_qr =
    with_attributes(decomposed<detail::qr_steps>("qr", infer_qr, detail::qr_gradient, 0, 0b11), k_no_attributes, 2);
constinit const Operator k_svd = with_attributes(
    decomposed<detail::svd_steps>("svd", infer_svd, detail::svd_gradient, 0, 0b111), k_no_attributes, 3);
constinit const Operator k_eigh = with_attributes(
    decomposed<detail::eigh_steps>("eigh", infer_eigh, detail::eigh_gradient, 0, 0b11), k_no_attributes, 2);
constinit const Operator k_pinv{
    .name = "pinv",
    .attributes = &attribute_type<CutoffAttributes>,
    .normalise = cast_to_solvable,
    .infer = infer_pinv,
    .composition = pseudo_inverse,
    .gradient = detail::pinv_gradient,
    .saved_inputs = 0b1,
    .saved_outputs = 0b1,
};
constinit const Operator k_lstsq{
    .name = "lstsq",
    .inputs = 2,
    .attributes = &attribute_type<CutoffAttributes>,
    .normalise = alike_batches,
    .infer = infer_lstsq,
    .composition = least_squares,
};

// A right side of one axis is a column.
NDArray solution(
    const Operator& op, const NDArray& a, const NDArray& b, const Attributes& attributes, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    if (detail::object_of(b, op.name).shape.ndim() != 1)
      return invoke_one(op, {a, b}, attributes, site);
    return invoke_one(op, {a, b.expand_dims(1, site)}, attributes, site).squeeze(-1, site);
  });
}

Arrays parts_of(const Operator& op, const NDArray& x, SourceLocation site) {
  return invoke(op, std::span(&x, 1), {}, site);
}

}  // namespace

constinit const Operator detail::k_det_backward =
    decomposed<detail::inverse_steps>("det_backward", infer_alike, detail::inverse_gradient, 0, 0b1);

detail::OperatorList detail::decomposition_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_cholesky,
      &k_triangular_solve,
      &k_solve,
      &k_inverse,
      &k_det,
      &k_det_backward,
      &k_slogdet,
      &k_qr,
      &k_svd,
      &k_eigh,
      &k_pinv,
      &k_lstsq};
  return list;
}

NDArray cholesky(const NDArray& x, SourceLocation site) {
  return invoke_one(k_cholesky, {x}, {}, site);
}

NDArray triangular_solve(const NDArray& a, const NDArray& b, const TriangularOptions& options, SourceLocation site) {
  const TriangularAttributes how{options.lower, options.transpose, options.unit_diagonal};
  return solution(k_triangular_solve, a, b, Attributes::of(how), site);
}

NDArray solve(const NDArray& a, const NDArray& b, SourceLocation site) {
  return solution(k_solve, a, b, {}, site);
}

NDArray inverse(const NDArray& x, SourceLocation site) {
  return invoke_one(k_inverse, {x}, {}, site);
}

NDArray det(const NDArray& x, SourceLocation site) {
  return invoke_one(k_det, {x}, {}, site);
}

SignAndLogDet slogdet(const NDArray& x, SourceLocation site) {
  const Arrays parts = parts_of(k_slogdet, x, site);
  return {parts[0], parts[1]};
}

Qr qr(const NDArray& x, SourceLocation site) {
  const Arrays parts = parts_of(k_qr, x, site);
  return {parts[0], parts[1]};
}

Svd svd(const NDArray& x, SourceLocation site) {
  const Arrays parts = parts_of(k_svd, x, site);
  return {parts[0], parts[1], parts[2]};
}

Eigh eigh(const NDArray& x, SourceLocation site) {
  const Arrays parts = parts_of(k_eigh, x, site);
  return {parts[0], parts[1]};
}

NDArray pinv(const NDArray& x, double rcond, SourceLocation site) {
  return invoke_one(k_pinv, {x}, Attributes::of(CutoffAttributes{rcond}), site);
}

NDArray lstsq(const NDArray& a, const NDArray& b, double rcond, SourceLocation site) {
  return solution(k_lstsq, a, b, Attributes::of(CutoffAttributes{rcond}), site);
}

}  // namespace sluice
