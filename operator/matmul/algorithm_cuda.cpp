#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>
#include <optional>
#include <system_error>
#include <vector>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/error.h>
#include <sluice/operator/library/autotune.h>
#include <sluice/operator/library/kept_choices.h>
#include <sluice/operator/matmul/algorithm_cuda.h>
#include <sluice/operator/matmul/algorithm_search_cuda.h>

namespace sluice::detail {
namespace {

constexpr std::size_t k_workspace_bytes = std::size_t{32} << 20;

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  cublas_check(
      cublas_calls.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
      "cublasLtMatmulPreferenceSetAttribute");
}

CublasPreference make_preference(const GemmProblem& p, std::size_t workspace_bytes) {
  cublasLtMatmulPreference_t raw = nullptr;
  cublas_check(cublas_calls.cublasLtMatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate");
  CublasPreference preference(raw);
  set(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes});
  set(raw, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b.data));
  set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a.data));
  set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.c.data));
  set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c.data));
  return preference;
}

using Results = std::vector<cublasLtMatmulHeuristicResult_t>;

// At most `most` algorithms, the predicted best first; none where the product is not taken.
Results predicted(
    cublasLtHandle_t handle, const GemmProblem& p, const CublasPlan& plan, int most, std::size_t workspace_bytes) {
  const CublasPreference preference = make_preference(p, workspace_bytes);
  Results results(static_cast<std::size_t>(most));
  int found = 0;
  const cublasStatus_t status = cublas_calls.cublasLtMatmulAlgoGetHeuristic(
      handle,
      plan.product.get(),
      plan.a.get(),
      plan.b.get(),
      plan.c.get(),
      plan.c.get(),
      preference.get(),
      most,
      results.data(),
      &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_INVALID_VALUE && plan.fused))
    return {};
  cublas_check(status, "cublasLtMatmulAlgoGetHeuristic");
  results.resize(static_cast<std::size_t>(found));
  std::erase_if(results, [](const auto& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
  return results;
}

// What is tried. The library predicts some 8 however many it is asked for, so it is asked again with less scratch
// memory: with none it says what does without cutting the sums over k.
Results candidates(cublasLtHandle_t handle, const GemmProblem& p, const CublasPlan& plan, Autotune how) {
  if (how == Autotune::off)
    return predicted(handle, p, plan, 1, k_workspace_bytes);
  const bool all = how == Autotune::exhaustive;
  Results results = predicted(handle, p, plan, all ? 64 : 8, k_workspace_bytes);
  const auto add = [&](int most, std::size_t workspace_bytes) {
    if (results.empty())
      return;
    for (const auto& more : predicted(handle, p, plan, most, workspace_bytes)) {
      const auto same = [&](const auto& known) {
        return std::equal(std::begin(more.algo.data), std::end(more.algo.data), std::begin(known.algo.data));
      };
      if (std::none_of(results.begin(), results.end(), same))
        results.push_back(more);
    }
  };
  if (all)
    add(64, std::size_t{4} << 20);
  add(all ? 64 : 4, 0);
  return results;
}

// An algorithm as text: it stays valid for its version of cuBLAS.
std::string text_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm.data)
    text += message(text.empty() ? "" : " ", word);
  return text;
}

std::optional<cublasLtMatmulAlgo_t> algorithm_of(const std::string& text) {
  cublasLtMatmulAlgo_t algorithm{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::uint64_t& word : algorithm.data) {
    while (at != end && *at == ' ')
      ++at;
    const auto [next, problem] = std::from_chars(at, end, word);
    if (problem != std::errc())
      return {};
    at = next;
  }
  if (at != end)
    return {};
  return algorithm;
}

bool take_kept(cublasLtHandle_t handle, const std::string& key, CublasPlan& plan) {
  const auto kept = KeptChoices::of_process().find(key);
  const auto algorithm = kept.has_value() ? algorithm_of(*kept) : std::nullopt;
  if (!algorithm.has_value())
    return false;
  cublasLtMatmulHeuristicResult_t checked{};
  const cublasStatus_t status = cublas_calls.cublasLtMatmulAlgoCheck(
      handle, plan.product.get(), plan.a.get(), plan.b.get(), plan.c.get(), plan.c.get(), &*algorithm, &checked);
  if (status != CUBLAS_STATUS_SUCCESS || checked.workspaceSize > k_workspace_bytes)
    return false;
  plan.algorithm = *algorithm;
  plan.workspace = checked.workspaceSize;
  return true;
}

// The quickest of those predicted, or of all; none where there is no room for a trial.
std::optional<ProductAlgorithm> quickest(
    cublasLtHandle_t handle, const GemmProblem& p, const CublasPlan& plan, const Results& results, Autotune how) try {
  constexpr double k_search_seconds = 2;
  ProductTrial trial(handle, p, plan);
  std::vector<ProductAlgorithm> predictions;
  for (const auto& result : results)
    predictions.push_back({result.algo, result.workspaceSize});
  if (how == Autotune::exhaustive) {
    const AlgorithmLimits limits{
        {alignment_of(p.b.data), alignment_of(p.a.data), alignment_of(p.c.data)}, k_workspace_bytes};
    return AlgorithmSearch(handle, plan, limits, trial).quickest(predictions, k_search_seconds);
  }
  std::optional<ProductAlgorithm> best;
  std::optional<double> least;
  for (const ProductAlgorithm& by : predictions) {
    const auto seconds = trial.seconds(by);
    if (seconds.has_value() && (!least.has_value() || *seconds < *least)) {
      least = seconds;
      best = by;
    }
  }
  return best;
} catch (const OutOfMemory&) {
  return {};
}

std::string kept_key(const std::string& key, Autotune how) {
  int device = 0;
  cudaDeviceProp about{};
  cuda::cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  cuda::cuda_check(cudaGetDeviceProperties(&about, device), "cudaGetDeviceProperties");
  return message(
      "cublaslt ",
      cublas_calls.cublasLtGetVersion(),
      " on ",
      about.name,
      how == Autotune::exhaustive ? ", searched: product" : ": product",
      key);
}

}  // namespace

std::uint32_t alignment_of(const void* data) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | 256;
  return static_cast<std::uint32_t>(1) << std::countr_zero(address);
}

bool choose_algorithm(cublasLtHandle_t handle, const GemmProblem& p, CublasPlan& plan, const std::string& key) {
  const Autotune how = autotune();
  const std::string kept = how == Autotune::off ? "" : kept_key(key, how);
  if (how != Autotune::off && take_kept(handle, kept, plan))
    return true;
  const Results results = candidates(handle, p, plan, how);
  if (results.empty())
    return false;
  const auto chosen = how == Autotune::off ? std::nullopt : quickest(handle, p, plan, results, how);
  const auto& predicted = results.front();
  plan.algorithm = chosen.has_value() ? chosen->algorithm : predicted.algo;
  plan.workspace = chosen.has_value() ? chosen->workspace : predicted.workspaceSize;
  if (chosen.has_value())  // what was not tried is for the next process to try
    KeptChoices::of_process().keep(kept, text_of(plan.algorithm));
  return true;
}

}  // namespace sluice::detail
