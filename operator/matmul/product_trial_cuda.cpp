#include <algorithm>
#include <cstring>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/matmul/product_trial_cuda.h>

namespace sluice::detail {
namespace {

enum Operand : std::size_t { k_a, k_b, k_c, k_bias };

// Bytes from the first element of a matrix and its batch to behind the last.
std::size_t reach_of(const Matrix& matrix, std::int64_t rows, std::int64_t columns, const GemmProblem& p) {
  const std::int64_t last = (rows - 1) * matrix.row + (columns - 1) * matrix.column + (p.batch - 1) * matrix.batch;
  return static_cast<std::size_t>(last + 1) * size_of(p.dtype);
}

std::vector<std::size_t> bytes_of(const GemmProblem& p) {
  const std::size_t side = static_cast<std::size_t>(std::max(p.m, p.n)) * size_of(p.dtype);
  return {reach_of(p.a, p.m, p.k, p), reach_of(p.b, p.k, p.n, p), reach_of(p.c, p.m, p.n, p), side};
}

}  // namespace

ProductTrial::ProductTrial(cublasLtHandle_t handle, const GemmProblem& problem, const CublasPlan& plan)
    : handle_(handle),
      dtype_(problem.dtype),
      plan_(plan),
      result_bytes_(reach_of(problem.c, problem.m, problem.n, problem)),
      on_(bytes_of(problem)) {
  if (!plan.fused)
    return;
  void* const values = on_.operand(k_bias);  // others may use the call's own
  cublas_check(
      cublas_calls.cublasLtMatmulDescSetAttribute(
          plan.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &values, sizeof values),
      "cublasLtMatmulDescSetAttribute");
}

void ProductTrial::run(const ProductAlgorithm& by, void* scratch) {
  const float one = 1.0f, zero = 0.0f;
  const double wide_one = 1.0, wide_zero = 0.0;
  const bool wide = dtype_ == DType::float64;
  void* const c = on_.operand(k_c);
  cublas_check(
      cublas_calls.cublasLtMatmul(
          handle_,
          plan_.product.get(),
          wide ? static_cast<const void*>(&wide_one) : &one,
          on_.operand(k_b),
          plan_.a.get(),
          on_.operand(k_a),
          plan_.b.get(),
          wide ? static_cast<const void*>(&wide_zero) : &zero,
          c,
          plan_.c.get(),
          c,
          plan_.c.get(),
          &by.algorithm,
          scratch,
          by.workspace,
          on_.stream()),
      "cublasLtMatmul (trial)");
}

std::optional<double> ProductTrial::seconds(const ProductAlgorithm& by, const TrialEffort& effort) {
  return on_.seconds(
      by.workspace, [&](void* scratch) { run(by, scratch); }, effort);
}

std::vector<double> ProductTrial::results(const ProductAlgorithm& by) {
  constexpr std::size_t part = 4096, parts = 32;
  // What is not written stays a NaN.
  cuda::cuda_check(cudaMemsetAsync(on_.operand(k_c), 0xff, result_bytes_, on_.stream()), "cudaMemsetAsync (trial)");
  if (!on_.once(by.workspace, [&](void* scratch) { run(by, scratch); }))
    return {};
  return by_floating(dtype_, [&]<class T>() {
    const std::size_t count = result_bytes_ / sizeof(T), length = std::min(count, part / sizeof(T));
    const std::size_t taken = length == count ? 1 : parts;
    std::vector<T> read(length);
    std::vector<double> results;
    for (std::size_t i = 0; i < taken; ++i) {  // from the first elements to the last ones
      const std::size_t at = taken == 1 ? 0 : (count - length) * i / (taken - 1);
      on_.read(k_c, at * sizeof(T), length * sizeof(T), read.data());
      for (const T value : read)
        results.push_back(static_cast<double>(static_cast<Compute<T>>(value)));
    }
    return results;
  });
}

}  // namespace sluice::detail
