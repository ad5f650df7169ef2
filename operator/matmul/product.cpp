
#include <sluice/ndarray/iterate.h>
#include <sluice/operator/matmul/dense_attributes.h>
#include <sluice/operator/matmul/product.h>
#include <sluice/operator/matmul/small_product.h>

namespace sluice::detail {
namespace {

// A matmul operand as batch axes and a matrix; a 1-D one becomes a row (left) or a column (right).
struct Operand2D {
  Shape batch, batch_strides;
  std::int64_t rows = 1, columns = 1;
  Matrix matrix;
};

Operand2D split(const TensorView& view, bool transpose, bool left) {
  Operand2D result;
  result.matrix.data = view.data;
  const int ndim = view.shape.ndim();
  if (ndim == 1) {
    (left ? result.columns : result.rows) = view.shape[0];
    (left ? result.matrix.column : result.matrix.row) = view.strides[0];
    return result;
  }
  for (int axis = 0; axis < ndim - 2; ++axis) {
    result.batch.push_back(view.shape[axis]);
    result.batch_strides.push_back(view.strides[axis]);
  }
  const int row_axis = transpose ? ndim - 1 : ndim - 2;
  const int column_axis = transpose ? ndim - 2 : ndim - 1;
  result.rows = view.shape[row_axis];
  result.columns = view.shape[column_axis];
  result.matrix.row = view.strides[row_axis];
  result.matrix.column = view.strides[column_axis];
  return result;
}

// Strides of extents 1 mean nothing; libraries want plausible ones.
void settle_strides(Matrix& matrix, std::int64_t rows, std::int64_t columns) {
  if (rows == 1 && columns == 1) {
    matrix.row = matrix.column = 1;
  } else if (rows == 1) {
    matrix.row = matrix.column == 1 ? columns : 1;
  } else if (columns == 1) {
    matrix.column = matrix.row == 1 ? rows : 1;
  }
}

bool is_plain(const Matrix& matrix, std::int64_t rows, std::int64_t columns) {
  return is_row_major(matrix, rows, columns) || is_column_major(matrix, rows, columns);
}

// One right matrix for a batch whose rows follow each other: a taller left matrix. Before its strides are settled,
// because the number of rows says how far apart its columns must be.
void fold_batch(GemmProblem& p) {
  if (p.batch <= 1 || p.b.batch != 0)
    return;
  Matrix a = p.a, c = p.c;
  if (p.m == 1) {  // any distance between the matrices is one between rows
    a.row = a.batch;
    c.row = c.batch;
  } else if (a.batch != p.m * a.row || c.batch != p.m * c.row) {
    return;
  }
  settle_strides(a, p.m * p.batch, p.k);
  if (!is_plain(a, p.m * p.batch, p.k))
    return;
  p.a = a;
  p.c = c;
  p.m *= p.batch;
  p.batch = 1;
}

}  // namespace

BatchedProduct batched_product(
    const TensorView& a, const TensorView& b, const TensorView& c, const MatmulAttributes& attributes) {
  const Operand2D left = split(a, attributes.transpose_a, true);
  const Operand2D right = split(b, attributes.transpose_b, false);
  BatchedProduct product;
  GemmProblem& p = product.inner;
  p.dtype = c.dtype;
  p.m = left.rows;
  p.k = left.columns;
  p.n = right.columns;
  p.a = left.matrix;
  p.b = right.matrix;
  p.c = {c.data, p.n, 1, 0};

  const Shape batch = broadcast_shape(left.batch, right.batch, "matmul");
  const Shape a_strides = broadcast_strides(left.batch, left.batch_strides, batch, "matmul");
  const Shape b_strides = broadcast_strides(right.batch, right.batch_strides, batch, "matmul");
  Shape c_strides = contiguous_strides(batch);
  for (int axis = 0; axis < c_strides.ndim(); ++axis)
    c_strides[axis] *= p.m * p.n;
  const auto plan = plan_strided<3>(batch, {&a_strides, &b_strides, &c_strides});
  for (int axis = 0; axis + 1 < plan.ndim; ++axis) {
    product.outer.push_back(plan.extents[axis]);
    product.a.push_back(plan.strides[0][axis]);
    product.b.push_back(plan.strides[1][axis]);
    product.c.push_back(plan.strides[2][axis]);
  }
  p.batch = plan.inner();
  p.a.batch = plan.inner_stride(0);
  p.b.batch = plan.inner_stride(1);
  p.c.batch = plan.inner_stride(2);
  fold_batch(p);
  settle_strides(p.a, p.m, p.k);
  settle_strides(p.b, p.k, p.n);
  return product;
}

bool is_row_major(const Matrix& matrix, std::int64_t rows, std::int64_t columns) noexcept {
  return matrix.column == 1 && (matrix.row >= columns || rows == 1);
}
bool is_column_major(const Matrix& matrix, std::int64_t rows, std::int64_t columns) noexcept {
  return matrix.row == 1 && (matrix.column >= rows || columns == 1);
}
bool is_plain(const GemmProblem& p) noexcept {
  return is_plain(p.a, p.m, p.k) && is_plain(p.b, p.k, p.n);
}
bool is_small_product(const GemmProblem& p) noexcept {
  constexpr double most = 8e6;  // multiplications: some microseconds of a large GPU
  constexpr std::int64_t deepest = 1024, most_batches = 65535, most_rows = 65535 * 16;  // of a grid
  const double products =
      static_cast<double>(p.batch) * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  return is_floating(p.dtype) && products <= most && p.k <= deepest && p.batch <= most_batches && p.m <= most_rows &&
         p.row_bias == nullptr && p.c.column == 1 && !p.c_in_accumulator;
}
bool is_plain(const Shape& shape, const Shape& strides) noexcept {
  const int last = shape.ndim() - 1;
  if (last < 0)
    return true;
  const std::int64_t rows = last == 0 ? 1 : shape[last - 1], columns = shape[last];
  Matrix matrix{nullptr, last == 0 ? 0 : strides[last - 1], strides[last], 0};
  settle_strides(matrix, rows, columns);
  return is_plain(matrix, rows, columns);
}

GemmProblem dense_problem(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const TensorView& weight = call.inputs[1];
  GemmProblem p;
  p.dtype = x.dtype;
  p.n = weight.shape[0];
  p.k = weight.shape[1];
  p.m = p.n == 0 ? 0 : call.outputs[0].size / p.n;
  p.a = {x.data, p.k, 1, 0};
  p.b = {weight.data, 1, p.k, 0};
  p.c = {call.outputs[0].data, p.n, 1, 0};
  settle_strides(p.b, p.k, p.n);
  if (call.inputs.size() > 2)
    p.column_bias = call.inputs[2].data;
  p.relu = call.attributes.as<DenseAttributes>().relu;
  return p;
}

GemmProblem dense_backward_weights_problem(const KernelCall& call) {
  const TensorView& dy = call.inputs[0];
  const TensorView& x = call.inputs[1];
  const TensorView& weight_grad = call.outputs[0];
  GemmProblem p;
  p.dtype = dy.dtype;
  p.m = weight_grad.shape[0];
  p.n = weight_grad.shape[1];
  p.k = p.m == 0 ? 0 : dy.size / p.m;
  p.a = {dy.data, 1, p.m, 0};
  p.b = {x.data, p.n, 1, 0};
  p.c = {weight_grad.data, p.n, 1, 0};
  settle_strides(p.a, p.m, p.k);
  settle_strides(p.b, p.k, p.n);
  return p;
}

}  // namespace sluice::detail
