#include <algorithm>
#include <cstdint>
#include <limits>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/conv/tensor_tiles.h>
#include <sluice/operator/library/autotune.h>
#include <sluice/operator/library/channel.h>
#include <sluice/operator/library/cublas_cuda.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/shared_library.h>
#include <sluice/operator/matmul/algorithm_cuda.h>
#include <sluice/operator/matmul/precision.h>
#include <sluice/operator/matmul/product.h>
#include <sluice/operator/matmul/row_product.h>
#include <sluice/operator/matmul/small_product.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
namespace {

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return CUDA_R_16F;
    case DType::bfloat16:
      return CUDA_R_16BF;
    case DType::float32:
      return CUDA_R_32F;
    case DType::float64:
      return CUDA_R_64F;
    default:
      throw UnsupportedError(message("matmul: no kernel for ", dtype, " on a GPU"));
  }
}

cublasComputeType_t compute_of(DType dtype) {
  if (dtype == DType::float64)
    return CUBLAS_COMPUTE_64F;
  const bool tf32 = dtype == DType::float32 && current_float32_precision() == Float32Precision::high;
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  cublas_check(
      cublas_calls.cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)),
      "cublasLtMatmulDescSetAttribute");
}
// cuBLAS counts columns first: a row-major (rows, columns) matrix is its (columns, rows).
struct Side {
  std::int64_t rows, columns, leading;
  cublasOperation_t operation;
};

// `matrix` as the transposed product needs it: as it lies if row-major, transposed otherwise.
Side side_of(const Matrix& matrix, std::int64_t rows, std::int64_t columns) {
  if (is_row_major(matrix, rows, columns))
    return {columns, rows, std::max(matrix.row, columns), CUBLAS_OP_N};
  return {rows, columns, std::max(matrix.column, rows), CUBLAS_OP_T};
}

CublasLayout make_layout(const Side& side, const Matrix& matrix, std::int64_t batch, cudaDataType_t type) {
  cublasLtMatrixLayout_t raw = nullptr;
  cublas_check(
      cublas_calls.cublasLtMatrixLayoutCreate(
          &raw, type, static_cast<std::uint64_t>(side.rows), static_cast<std::uint64_t>(side.columns), side.leading),
      "cublasLtMatrixLayoutCreate");
  CublasLayout layout(raw);
  const auto set_layout = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    cublas_check(
        cublas_calls.cublasLtMatrixLayoutSetAttribute(raw, attribute, &value, sizeof(value)),
        "cublasLtMatrixLayoutSetAttribute");
  };
  if (batch > 1) {
    set_layout(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set_layout(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch);
  }
  return layout;
}

// Sums of rows are a kernel of their own either way: ours, which a plan may run beside the product.
cublasLtEpilogue_t epilogue_of(const GemmProblem& p) {
  if (p.column_bias != nullptr)
    return p.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return p.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

CublasPlan describe(const GemmProblem& p, cublasLtEpilogue_t epilogue, const void* bias) {
  const cudaDataType_t type = type_of(p.dtype);
  CublasPlan plan;
  plan.compute = compute_of(p.dtype);
  plan.type = type;
  plan.scale = p.dtype == DType::float64 ? CUDA_R_64F : CUDA_R_32F;
  cublasLtMatmulDesc_t raw = nullptr;
  cublas_check(cublas_calls.cublasLtMatmulDescCreate(&raw, plan.compute, plan.scale), "cublasLtMatmulDescCreate");
  plan.product.reset(raw);
  const Side left = side_of(p.b, p.k, p.n);
  const Side right = side_of(p.a, p.m, p.k);
  set(raw, CUBLASLT_MATMUL_DESC_TRANSA, left.operation);
  set(raw, CUBLASLT_MATMUL_DESC_TRANSB, right.operation);
  set(raw, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (bias != nullptr)
    set(raw, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  plan.a = make_layout(left, p.b, p.batch, type);
  plan.b = make_layout(right, p.a, p.batch, type);
  plan.c = make_layout({p.n, p.m, std::max(p.c.row, p.n), CUBLAS_OP_N}, p.c, p.batch, type);
  return plan;
}

CacheKey key_of(const GemmProblem& p, cublasLtEpilogue_t epilogue, const void* bias) {
  return CacheKey::of(
      static_cast<int>(p.dtype),
      static_cast<int>(compute_of(p.dtype)),
      static_cast<int>(epilogue),
      p.batch,
      p.m,
      p.n,
      p.k,
      p.a.row,
      p.a.column,
      p.a.batch,
      p.b.row,
      p.b.column,
      p.b.batch,
      p.c.row,
      p.c.batch,
      alignment_of(p.a.data),
      alignment_of(p.b.data),
      alignment_of(p.c.data),
      bias == nullptr ? 0 : alignment_of(bias));
}

std::shared_ptr<const CublasPlan> make_plan(
    cublasLtHandle_t handle, const GemmProblem& p, cublasLtEpilogue_t epilogue, const void* bias) {
  if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    CublasPlan fused = describe(p, epilogue, bias);
    fused.fused = true;
    if (choose_algorithm(handle, p, fused, key_of(p, epilogue, bias).text()))
      return std::make_shared<const CublasPlan>(std::move(fused));
  }
  CublasPlan plain = describe(p, CUBLASLT_EPILOGUE_DEFAULT, nullptr);
  const std::string key = key_of(p, CUBLASLT_EPILOGUE_DEFAULT, nullptr).text();
  require<UnsupportedError>(choose_algorithm(handle, p, plain, key), [&] {
    return message(
        "matmul: cuBLASLt has no algorithm for ",
        p.dtype,
        ", m = ",
        p.m,
        ", n = ",
        p.n,
        ", k = ",
        p.k,
        ", batch = ",
        p.batch);
  });
  return std::make_shared<const CublasPlan>(std::move(plain));
}

void run_cublas(const Queue& queue, const GemmProblem& p) {
  cublas_library().require("matmul");
  Cublas& library = Cublas::of(queue);
  const cublasLtEpilogue_t epilogue = epilogue_of(p);
  const void* bias = p.column_bias;
  CacheKey key = key_of(p, epilogue, bias);
  key.add(static_cast<int>(autotune()));
  const auto plan = library.plans().get(key, [&] { return make_plan(library.handle(), p, epilogue, bias); });
  if (plan->fused && bias != nullptr)
    set(plan->product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const Workspace workspace(queue, plan->workspace);
  const cudaStream_t stream = stream_of(queue);
  const float one = 1.0f, zero = 0.0f;
  const double wide_one = 1.0, wide_zero = 0.0;
  const bool wide = p.dtype == DType::float64;
  const void* alpha = wide ? static_cast<const void*>(&wide_one) : &one;
  const void* beta =
      wide ? static_cast<const void*>(p.accumulate ? &wide_one : &wide_zero) : (p.accumulate ? &one : &zero);
  cublas_check(
      cublas_calls.cublasLtMatmul(
          library.handle(),
          plan->product.get(),
          alpha,
          p.b.data,
          plan->a.get(),
          p.a.data,
          plan->b.get(),
          beta,
          p.c.data,
          plan->c.get(),
          p.c.data,
          plan->c.get(),
          &plan->algorithm,
          workspace.data(),
          plan->workspace,
          stream),
      "cublasLtMatmul");
  if (plan->fused)
    return;
  if (p.column_bias != nullptr || p.relu)
    channel_add_gpu(queue, {p.m, p.n, 1, p.dtype}, p.c.data, p.column_bias, p.relu);
}

}  // namespace

void product_gpu(const Queue& queue, const GemmProblem& p, void* row_sums) {
  if (p.batch > 0 && p.m > 0 && p.n > 0 && p.k > 0) {
    if (is_integer(p.dtype))
      return integer_product_gpu(queue, p);
    if (is_small_product(p))
      return small_product_gpu(queue, p, row_sums);
    if (row_sums == nullptr && is_row_product(p))
      return row_product_gpu(queue, p);
    if (row_sums == nullptr && product_by_tiles(queue, p))
      return;
    require<UnsupportedError>(
        is_plain(p), [&] { return message("matmul: on a GPU, operands need rows or columns of neighbours"); });
    if (row_sums != nullptr)
      channel_sum_gpu(queue, {p.k, p.m, 1, p.dtype}, p.a.data, row_sums);
    constexpr std::int64_t k_most_matrices = std::numeric_limits<std::int32_t>::max();  // that cuBLASLt counts
    return for_each_part_of_batch(p, k_most_matrices, [&](const GemmProblem& part) { run_cublas(queue, part); });
  }
  const cudaStream_t stream = stream_of(queue);
  const std::size_t element = size_of(p.dtype);
  if (p.batch * p.m * p.n > 0) {  // a sum over nothing; c is contiguous
    const std::size_t bytes = static_cast<std::size_t>(p.batch * p.m * p.n) * element;
    cuda::cuda_check(cudaMemsetAsync(p.c.data, 0, bytes, stream), "cudaMemsetAsync");
    if (p.column_bias != nullptr)
      channel_add_gpu(queue, {p.m, p.n, 1, p.dtype}, p.c.data, p.column_bias, p.relu);
  }
  if (row_sums != nullptr && p.m > 0)
    channel_sum_gpu(queue, {p.k, p.m, 1, p.dtype}, p.a.data, row_sums);
}

void matmul_gpu(const KernelCall& call) {
  if (call.outputs[0].size == 0)
    return;
  const auto product =
      batched_product(call.inputs[0], call.inputs[1], call.outputs[0], call.attributes.as<MatmulAttributes>());
  for_each_product(product, [&](const GemmProblem& problem) { product_gpu(call.queue, problem); });
}

void dense_gpu(const KernelCall& call) {
  product_gpu(call.queue, dense_problem(call));
}

void dense_backward_weights_gpu(const KernelCall& call) {
  void* bias = call.outputs.size() > 1 ? call.outputs[1].data : nullptr;
  product_gpu(call.queue, dense_backward_weights_problem(call), bias);
}

}  // namespace sluice::detail
