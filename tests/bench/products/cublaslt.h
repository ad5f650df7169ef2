#pragma once

#include <cstdint>
#include <dlfcn.h>
#include <string>
#include <tuple>
#include <vector>

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <sluice/engine/error.h>

#include "tests/bench/products/algorithm_search.h"

// cuBLASLt without Sluice: loaded here, so that what is measured does not pass through the library under test.
namespace sluice::bench {

#define BENCH_CUBLASLT_CALLS(X)           \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoCapGetAttribute)    \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmulAlgoConfigGetAttribute) \
  X(cublasLtMatmulAlgoConfigSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulAlgoGetIds)             \
  X(cublasLtMatmulAlgoInit)               \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)
struct CublasLt {
#define BENCH_MEMBER(name) decltype(&::name) name = nullptr;
  BENCH_CUBLASLT_CALLS(BENCH_MEMBER)
#undef BENCH_MEMBER
  /// Loaded at the first call. Throws Error.
  static const CublasLt& get();
};

void check(cublasStatus_t status, const char* call);
void check(cudaError_t error, const char* call);

/// A configuration of an algorithm: what can be chosen of it.
struct Config {
  std::int32_t id = 0;
  std::uint32_t tile = 0, stages = 0, custom = 0, swizzle = 0, scheme = 0;
  std::int32_t split = 1;
  std::uint16_t inner = 0, cluster = 0;

  auto tied() const { return std::tie(id, tile, stages, custom, swizzle, scheme, split, inner, cluster); }
  friend bool operator<(const Config& a, const Config& b) { return a.tied() < b.tied(); }
  std::string text() const;
};

/// An algorithm that the library takes for the product.
struct Choice {
  Config config;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;
  double seconds = 0;
};

/// A product described to the library, with operands of its own full of small random numbers.
class LtProduct {
 public:
  LtProduct(const ProductShape& shape, DType dtype);
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;
  ~LtProduct();

  static constexpr std::size_t k_workspace = std::size_t{32} << 20;  // as Sluice gives

  std::vector<int> ids() const;
  /// The algorithm as it is made; false where the library does not have it for these types.
  bool init(int id, cublasLtMatmulAlgo_t& algorithm) const;
  /// False where the library does not take the configuration for this product.
  bool take(const Config& config, Choice& choice) const;
  /// The same of an algorithm's words; their configuration stays unknown.
  bool take(const std::vector<std::uint64_t>& words, Choice& choice) const;
  /// All that the library predicts, the first one first; sums over parts of k as `schemes` allows.
  std::vector<Choice> predictions(std::uint32_t schemes, std::size_t workspace) const;

  /// One call; false where the library refuses it.
  bool run(const Choice& choice) const;
  /// Seconds of one product: the least, or the middle, of `repeats` graphs of `runs` products; negative where it fails.
  /// One that takes longer than `limit` is given up after the first graph.
  double graph_seconds(const Choice& choice, int runs, int repeats, bool middle, double limit) const;
  /// Seconds of a call where the host calls again and again.
  double eager_seconds(const Choice& choice) const;
  /// Whether the product is what another one computes, within rounding, where that is looked at.
  bool agrees(const Choice& choice, const Choice& with) const;

 private:
  bool check_choice(Choice& choice) const;
  void describe(const ProductShape& shape);
  void allocate(const ProductShape& shape);
  void release() noexcept;
  std::vector<float> sample(const Choice& choice) const;

  const CublasLt& lt_;
  cudaDataType_t type_;
  cublasComputeType_t compute_;
  std::size_t element_;
  std::int64_t results_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t layouts_[3] = {};
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  void* operands_[3] = {};  // the library's a, b and c
  void* workspace_ = nullptr;
};

}  // namespace sluice::bench
