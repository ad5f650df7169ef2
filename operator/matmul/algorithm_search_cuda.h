#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include <sluice/operator/matmul/product_trial_cuda.h>

namespace sluice::detail {

/// What an algorithm has to know of a product beside its description.
struct AlgorithmLimits {
  std::uint32_t alignment[3] = {};  // of cuBLASLt's a, b and c, in bytes
  std::size_t workspace = 0;        // at most, in bytes
};

/// Looks for the quickest algorithm of a product among all that cuBLASLt lists, not only what it predicts: its tiles
/// and stages in an order drawn at random, then again with options and clusters drawn at random, then one change at a
/// time of the best. Sums over k stay in the compute type and in a fixed order. What is found has to compute what the
/// first prediction does.
class AlgorithmSearch {
 public:
  AlgorithmSearch(cublasLtHandle_t handle, const CublasPlan& plan, const AlgorithmLimits& limits, ProductTrial& trial)
      : handle_(handle), plan_(plan), limits_(limits), trial_(trial) {}

  /// `predicted` holds one or more. Ends after about `seconds`; empty where none of the predicted runs.
  std::optional<ProductAlgorithm> quickest(const std::vector<ProductAlgorithm>& predicted, double seconds);

 private:
  using Clock = std::chrono::steady_clock;
  struct Timed {
    double seconds;
    ProductAlgorithm by;
  };
  struct Abilities;

  bool is_time_left(double share) const;
  std::vector<cublasLtMatmulAlgo_t> listed() const;
  void time(const ProductAlgorithm& by);
  void offer(const cublasLtMatmulAlgo_t& algorithm);
  void try_listed(double share);
  void change_best(double share);
  std::vector<cublasLtMatmulAlgo_t> changes_of(const cublasLtMatmulAlgo_t& algorithm) const;
  std::optional<ProductAlgorithm> judge(const ProductAlgorithm& predicted);

  cublasLtHandle_t handle_;
  const CublasPlan& plan_;
  const AlgorithmLimits limits_;
  ProductTrial& trial_;
  Clock::time_point start_;
  double budget_ = 0;         // seconds
  std::vector<Timed> found_;  // the quickest first
  std::set<std::vector<std::uint64_t>> seen_;
  std::minstd_rand engine_{7};  // so that a search tries the same in the same order
};

}  // namespace sluice::detail
