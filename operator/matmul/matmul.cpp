#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/matmul/product.h>
#include <sluice/operator/normalise.h>

namespace sluice {
namespace detail {
namespace {

Specs matmul_infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& how = attributes.as<MatmulAttributes>();
  const ArraySpec& a = inputs[0];
  const ArraySpec& b = inputs[1];
  const auto says = [&](const char* what) {
    return [&a, &b, what] { return message("matmul: ", what, ": ", a.shape, " and ", b.shape); };
  };
  require<DTypeError>(a.dtype == b.dtype, [&] { return message("matmul: operands of ", a.dtype, " and ", b.dtype); });
  const bool has_kernel = is_floating(a.dtype) || is_integer(a.dtype);
  require<DTypeError>(has_kernel, [&] { return message("matmul: no kernel for ", a.dtype, " on ", a.device); });
  const int a_ndim = a.shape.ndim();
  const int b_ndim = b.shape.ndim();
  require<ShapeError>(a_ndim > 0 && b_ndim > 0, says("operands need at least one axis"));
  const std::int64_t m = a_ndim == 1 ? 1 : a.shape[how.transpose_a ? a_ndim - 1 : a_ndim - 2];
  const std::int64_t a_depth = a_ndim == 1 ? a.shape[0] : a.shape[how.transpose_a ? a_ndim - 2 : a_ndim - 1];
  const std::int64_t b_depth = b_ndim == 1 ? b.shape[0] : b.shape[how.transpose_b ? b_ndim - 1 : b_ndim - 2];
  const std::int64_t n = b_ndim == 1 ? 1 : b.shape[how.transpose_b ? b_ndim - 2 : b_ndim - 1];
  require<ShapeError>(a_depth == b_depth, says("the summed axes differ"));

  Shape a_batch, b_batch;
  for (int axis = 0; axis + 2 < a_ndim; ++axis)
    a_batch.push_back(a.shape[axis]);
  for (int axis = 0; axis + 2 < b_ndim; ++axis)
    b_batch.push_back(b.shape[axis]);
  Shape shape = broadcast_shape(a_batch, b_batch, "matmul");
  if (a_ndim > 1)
    shape.push_back(m);
  if (b_ndim > 1)
    shape.push_back(n);
  return {{shape, a.dtype, a.device}};
}

NDArray product(const NDArray& a, const NDArray& b, bool transpose_a, bool transpose_b, SourceLocation site) {
  const MatmulAttributes how{.transpose_a = transpose_a, .transpose_b = transpose_b};
  return invoke_one(matmul_op, {a, b}, Attributes::of(how), site);
}

// How many rows an array has as a matrix of its last axis, which may be empty.
std::int64_t rows_of(Shape shape) {
  shape.erase(shape.ndim() - 1);
  return shape.size();
}

Arrays matmul_gradient(const GradientCall& call) {
  const SourceLocation site = SourceLocation::current();
  const auto& how = call.attributes.as<MatmulAttributes>();
  Arrays grads(2);
  NDArray dc = call.output_grads[0];
  if (!dc.defined())
    return grads;
  // 1-D operands as a row and a column, so that only matrices are left.
  const Shape& a_shape = call.input_specs[0].shape;
  const Shape& b_shape = call.input_specs[1].shape;
  const bool row = a_shape.ndim() == 1;
  const bool column = b_shape.ndim() == 1;
  const bool ta = how.transpose_a && !row;
  const bool tb = how.transpose_b && !column;
  if (row)
    dc = dc.expand_dims(unseen_shape(dc).ndim() - (column ? 0 : 1), site);
  if (column)
    dc = dc.expand_dims(unseen_shape(dc).ndim(), site);
  if (call.wanted[0]) {
    const NDArray b = column ? call.inputs[1].expand_dims(1, site) : call.inputs[1];
    const NDArray da = ta ? product(b, dc, tb, true, site) : product(dc, b, false, !tb, site);
    grads[0] = row ? sum_to_shape(da, {1, a_shape[0]}, site).reshape(a_shape, site) : sum_to_shape(da, a_shape, site);
  }
  if (!call.wanted[1])
    return grads;
  const NDArray a = row ? call.inputs[0].expand_dims(0, site) : call.inputs[0];
  if (!ta && !tb && b_shape.ndim() <= 2 && unseen_shape(a).ndim() > 2 && a.is_contiguous()) {
    // One matrix for the whole batch: its rows joined, one product instead of a sum of many.
    const std::int64_t k = b_shape[0], n = unseen_shape(dc).back(), rows = rows_of(unseen_shape(a));
    const NDArray db = product(
        a.reshape(with_open_rows({rows, k}), site), dc.reshape(with_open_rows({rows, n}), site), true, false, site);
    grads[1] = db.reshape(b_shape, site);
  } else {
    const NDArray db = tb ? product(dc, a, true, ta, site) : product(a, dc, !ta, false, site);
    grads[1] =
        column ? sum_to_shape(db, {b_shape[0], 1}, site).reshape(b_shape, site) : sum_to_shape(db, b_shape, site);
  }
  return grads;
}

// Each operand's gradient reads the other operand.
Mask matmul_saved_for(Mask wanted, const Attributes&) {
  return (wanted & 1 ? 0b10 : 0) | (wanted & 2 ? 0b01 : 0);
}

// a, b, y of a relu.
Specs matmul_relu_backward_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  Specs specs = matmul_infer(op, inputs.first(2), attributes);
  require<DTypeError>(is_floating(specs[0].dtype), [&] {
    return message(op.name, ": no kernel for ", specs[0].dtype, " on ", specs[0].device);
  });
  require<ShapeError>(inputs[2].shape == specs[0].shape, [&] {
    return message(op.name, ": a product of shape ", specs[0].shape, " for a relu that gave ", inputs[2].shape);
  });
  require<DTypeError>(inputs[2].dtype == specs[0].dtype, [&] {
    return message(op.name, ": a product of ", specs[0].dtype, " for a relu that gave ", inputs[2].dtype);
  });
  return specs;
}

}  // namespace

const Operator matmul_op{
    .name = "matmul",
    .inputs = 2,
    .attributes = &attribute_type<MatmulAttributes>,
    .normalise = promote_inputs,
    .infer = matmul_infer,
    .kernels = {on_cpu(matmul_cpu), on_gpu(SLUICE_GPU_KERNEL(matmul_gpu))},
    .gradient = matmul_gradient,
    .saved_inputs = k_all,
    .strided_inputs = k_all,
    .saved_for = matmul_saved_for,
    .takes_strides = [](std::size_t, const Shape& shape, const Shape& strides) { return is_plain(shape, strides); },
};
const Operator matmul_relu_backward_op{
    .name = "matmul_relu_backward",
    .inputs = 3,
    .attributes = &attribute_type<MatmulAttributes>,
    .infer = matmul_relu_backward_infer,
    .kernels = {on_cpu(matmul_relu_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(matmul_relu_backward_gpu))},
    .strided_inputs = 0b011,
    .takes_strides = [](std::size_t, const Shape& shape, const Shape& strides) { return is_plain(shape, strides); },
};

}  // namespace detail

NDArray matmul(const NDArray& a, const NDArray& b, SourceLocation site) {
  return detail::product(a, b, false, false, site);
}

NDArray matmul(const NDArray& a, const NDArray& b, bool transpose_a, bool transpose_b, SourceLocation site) {
  return detail::product(a, b, transpose_a, transpose_b, site);
}

}  // namespace sluice
