#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <sluice/operator/library/cublas_cuda.h>
#include <sluice/operator/library/trial_cuda.h>
#include <sluice/operator/matmul/gemm.h>

namespace sluice::detail {

/// What cuBLASLt runs a product by.
struct ProductAlgorithm {
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;  // bytes
};

/// A described product, run by algorithms that are to be compared, on operands of a trial's own. The host waits.
class ProductTrial {
 public:
  /// Where the product adds a bias, its description names the trial's from now on. Throws as Trial does.
  ProductTrial(cublasLtHandle_t handle, const GemmProblem& problem, const CublasPlan& plan);

  /// Of one product; empty where the algorithm fails.
  std::optional<double> seconds(const ProductAlgorithm& by, const TrialEffort& effort = {});
  /// Some of the results, of all parts of c; empty where the algorithm fails.
  std::vector<double> results(const ProductAlgorithm& by);

 private:
  void run(const ProductAlgorithm& by, void* scratch);

  cublasLtHandle_t handle_;
  DType dtype_;
  const CublasPlan& plan_;
  std::size_t result_bytes_;
  Trial on_;
};

}  // namespace sluice::detail
