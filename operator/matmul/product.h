#pragma once

#include <algorithm>
#include <span>

#include <sluice/operator/matmul/gemm.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

struct MatmulAttributes {
  bool transpose_a = false;  // of the last two axes; not looked at for 1-D operands
  bool transpose_b = false;

  template <class V>
  void visit(V&& v) {
    v.field("transpose_a", transpose_a);
    v.field("transpose_b", transpose_b);
  }
};

/// Batches of products c = a b whose leading axes broadcast: one GemmProblem and, where the batch axes do not collapse
/// into one, what to repeat it over.
struct BatchedProduct {
  GemmProblem inner;  // the last batch axis is inner.batch
  Shape outer;        // the other batch axes
  Shape a, b, c;      // their strides, elements
};

/// The geometry of matmul for operands of any strides; `c` is contiguous.
BatchedProduct batched_product(
    const TensorView& a, const TensorView& b, const TensorView& c, const MatmulAttributes& attributes);

/// Calls run(problem) for each GemmProblem of the product.
template <class Run>
void for_each_product(const BatchedProduct& product, Run&& run) {
  const std::int64_t count = product.outer.size();
  const auto bytes = static_cast<std::int64_t>(size_of(product.inner.dtype));
  for (std::int64_t linear = 0; linear < count; ++linear) {
    GemmProblem problem = product.inner;
    std::int64_t rest = linear;
    for (int axis = product.outer.ndim() - 1; axis >= 0; --axis) {
      const std::int64_t index = rest % product.outer[axis] * bytes;
      rest /= product.outer[axis];
      problem.a.data = static_cast<char*>(problem.a.data) + index * product.a[axis];
      problem.b.data = static_cast<char*>(problem.b.data) + index * product.b[axis];
      problem.c.data = static_cast<char*>(problem.c.data) + index * product.c[axis];
    }
    run(static_cast<const GemmProblem&>(problem));
  }
}

/// Calls run(problem) for parts of a batch, of `most` matrices at most: libraries count them in 32 bits. c is of the
/// problem's type.
template <class Run>
void for_each_part_of_batch(const GemmProblem& whole, std::int64_t most, Run&& run) {
  const auto bytes = static_cast<std::int64_t>(size_of(whole.dtype));
  for (std::int64_t begin = 0; begin < whole.batch; begin += most) {
    GemmProblem part = whole;
    part.batch = std::min(most, whole.batch - begin);
    for (Matrix* matrix : {&part.a, &part.b, &part.c})
      matrix->data = static_cast<char*>(matrix->data) + begin * matrix->batch * bytes;
    run(static_cast<const GemmProblem&>(part));
  }
}

/// One row or column of `matrix` (rows x columns) is made of neighbours, the other stride reaches over it: what
/// libraries take. Row-major if the first holds.
bool is_row_major(const Matrix& matrix, std::int64_t rows, std::int64_t columns) noexcept;
bool is_column_major(const Matrix& matrix, std::int64_t rows, std::int64_t columns) noexcept;
/// Both operands are of either kind: a problem for a library.
bool is_plain(const GemmProblem& problem) noexcept;
/// An operand of matmul of that shape and strides gives problems that are, transposed or not.
bool is_plain(const Shape& shape, const Shape& strides) noexcept;

/// Runs one problem with the library of the device, or with our own kernel where the library does not take it.
/// `row_sums`, if given, receives the sums of a's rows: (m,), the gradient of a bias; batch is 1 then.
void product_cpu(const Queue& queue, const GemmProblem& problem, void* row_sums = nullptr);
void product_gpu(const Queue& queue, const GemmProblem& problem, void* row_sums = nullptr);

/// oneDNN's product: false where it does not take the problem (another type, no unit stride, built without). It leaves
/// relu to the caller.
bool product_onednn(const Queue& queue, const GemmProblem& problem);

// Kernels of the operators; *_gpu is defined in builds with CUDA.
void matmul_cpu(const KernelCall& call);
void matmul_gpu(const KernelCall& call);
void matmul_relu_backward_cpu(const KernelCall& call);
void matmul_relu_backward_gpu(const KernelCall& call);
void dense_cpu(const KernelCall& call);
void dense_gpu(const KernelCall& call);
void dense_backward_weights_cpu(const KernelCall& call);
void dense_backward_weights_gpu(const KernelCall& call);
void dense_backward_bias_cpu(const KernelCall& call);
void dense_backward_bias_gpu(const KernelCall& call);

/// The products behind dense and its gradient, for any device.
GemmProblem dense_problem(const KernelCall& call);
GemmProblem dense_backward_weights_problem(const KernelCall& call);

}  // namespace sluice::detail
