#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

#include <sluice/operator/matmul/algorithm_search_cuda.h>

namespace sluice::detail {
namespace {

using Algorithm = cublasLtMatmulAlgo_t;

// What the library says of an algorithm; 0 where it says nothing.
std::uint32_t ability(const Algorithm& algorithm, cublasLtMatmulAlgoCapAttributes_t what) {
  std::uint32_t value = 0;
  std::size_t written = 0;
  cublas_calls.cublasLtMatmulAlgoCapGetAttribute(&algorithm, what, &value, sizeof value, &written);
  return value;
}

// A list of choices; {0}, which stands for none, where it has none.
std::vector<std::uint32_t> choices(const Algorithm& algorithm, cublasLtMatmulAlgoCapAttributes_t what) {
  std::size_t bytes = 0;
  cublas_calls.cublasLtMatmulAlgoCapGetAttribute(&algorithm, what, nullptr, 0, &bytes);
  std::vector<std::uint32_t> values(bytes / sizeof(std::uint32_t));
  if (!values.empty())
    cublas_calls.cublasLtMatmulAlgoCapGetAttribute(&algorithm, what, values.data(), bytes, &bytes);
  return values.empty() ? std::vector<std::uint32_t>{0} : values;
}

// Refused values show in the check of the whole.
template <class T>
void choose(Algorithm& algorithm, cublasLtMatmulAlgoConfigAttributes_t what, const T& value) {
  cublas_calls.cublasLtMatmulAlgoConfigSetAttribute(&algorithm, what, &value, sizeof value);
}

void split(Algorithm& algorithm, std::int32_t parts) {
  choose(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, parts);
  const std::uint32_t scheme = parts == 1 ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  choose(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, scheme);
}

// Whether one is the other but for rounding, which is of sums in another order.
bool are_alike(const std::vector<double>& got, const std::vector<double>& want) {
  double largest = 0;
  for (const double value : want)
    largest = std::isnan(value) ? largest : std::max(largest, std::abs(value));
  const auto alike = [&](double a, double b) {
    return std::abs(a - b) <= 0.02 * largest ||
           (std::isnan(a) && std::isnan(b));  // between c's rows nothing is written
  };
  return got.size() == want.size() && std::equal(got.begin(), got.end(), want.begin(), alike);
}

// Bit for bit: an algorithm that adds up in another order from run to run is none.
bool are_same(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
           return x == y || (std::isnan(x) && std::isnan(y));
         });
}

constexpr std::uint16_t k_clusters = CUBLASLT_CLUSTER_SHAPE_END, k_inner_shapes = CUBLASLT_MATMUL_INNER_SHAPE_END;
constexpr std::uint32_t k_most_options = 128;

}  // namespace

struct AlgorithmSearch::Abilities {
  explicit Abilities(const Algorithm& algorithm)
      : tiles(choices(algorithm, CUBLASLT_ALGO_CAP_TILE_IDS)),
        stages(choices(algorithm, CUBLASLT_ALGO_CAP_STAGES_IDS)),
        options(std::min(ability(algorithm, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX), k_most_options)),
        swizzles(ability(algorithm, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT)),
        splits(
            ability(algorithm, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) != 0 &&
            (ability(algorithm, CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK) & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) !=
                0) {}

  std::vector<std::uint32_t> tiles, stages;
  std::uint32_t options, swizzles;
  bool splits;
};

bool AlgorithmSearch::is_time_left(double share) const {
  return std::chrono::duration<double>(Clock::now() - start_).count() < share * budget_;
}

std::optional<ProductAlgorithm> AlgorithmSearch::quickest(
    const std::vector<ProductAlgorithm>& predicted, double seconds) {
  start_ = Clock::now();
  budget_ = seconds;
  for (const ProductAlgorithm& by : predicted)
    time(by);
  if (found_.empty())
    return {};
  try_listed(0.45);
  change_best(0.85);
  return judge(predicted.front());
}

// Briefly, once each.
void AlgorithmSearch::time(const ProductAlgorithm& by) {
  if (!seen_.emplace(std::begin(by.algorithm.data), std::end(by.algorithm.data)).second)
    return;
  TrialEffort effort;
  if (!found_.empty()) {
    const double best = found_.front().seconds;
    effort = {.runs = std::clamp(static_cast<int>(50e-6 / best), 1, 8), .repeats = 2, .limit = 1.5 * best};
  }
  const auto seconds = trial_.seconds(by, effort);
  if (!seconds.has_value())
    return;
  const auto slower = [](double a, const Timed& b) { return a < b.seconds; };
  found_.insert(std::upper_bound(found_.begin(), found_.end(), *seconds, slower), {*seconds, by});
}

void AlgorithmSearch::offer(const Algorithm& algorithm) {
  if (seen_.count({std::begin(algorithm.data), std::end(algorithm.data)}) != 0)
    return;
  cublasLtMatmulHeuristicResult_t checked{};
  const cublasStatus_t status = cublas_calls.cublasLtMatmulAlgoCheck(
      handle_, plan_.product.get(), plan_.a.get(), plan_.b.get(), plan_.c.get(), plan_.c.get(), &algorithm, &checked);
  if (status == CUBLAS_STATUS_SUCCESS && checked.workspaceSize <= limits_.workspace)
    time({algorithm, checked.workspaceSize});
}

// All that is listed for the types and takes operands that lie so, with each of its tiles and stages.
std::vector<Algorithm> AlgorithmSearch::listed() const {
  const cudaDataType_t type = plan_.type, scale = plan_.scale;
  std::vector<int> ids(1024);
  int count = 0;
  if (cublas_calls.cublasLtMatmulAlgoGetIds(
          handle_, plan_.compute, scale, type, type, type, type, 1024, ids.data(), &count) != CUBLAS_STATUS_SUCCESS)
    return {};
  ids.resize(static_cast<std::size_t>(count));
  std::vector<Algorithm> all;
  for (const int id : ids) {
    Algorithm algorithm{};
    if (cublas_calls.cublasLtMatmulAlgoInit(handle_, plan_.compute, scale, type, type, type, type, id, &algorithm) !=
        CUBLAS_STATUS_SUCCESS)
      continue;
    if (ability(algorithm, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES) > limits_.alignment[0] ||
        ability(algorithm, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES) > limits_.alignment[1] ||
        ability(algorithm, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES) > limits_.alignment[2] ||
        ability(algorithm, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES) > limits_.alignment[2])
      continue;
    const Abilities can(algorithm);
    for (const std::uint32_t tile : can.tiles) {
      choose(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, tile);
      for (const std::uint32_t stages : can.stages) {
        choose(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID, stages);
        all.push_back(algorithm);
      }
    }
  }
  return all;
}

void AlgorithmSearch::try_listed(double share) {
  std::vector<Algorithm> all = listed();
  std::shuffle(all.begin(), all.end(), engine_);  // so that each kind gets its part of the time
  for (bool is_plain = true; !all.empty() && is_time_left(share); is_plain = false) {
    for (auto at = all.begin(); at != all.end() && is_time_left(share); ++at) {
      Algorithm algorithm = *at;
      if (!is_plain) {
        const std::uint32_t most = Abilities(algorithm).options;
        choose(
            algorithm,
            CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION,
            std::uniform_int_distribution<std::uint32_t>(0, most)(engine_));
        choose(
            algorithm,
            CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID,
            std::uniform_int_distribution<std::uint16_t>(0, k_clusters - 1)(engine_));
      }
      offer(algorithm);
    }
  }
}

void AlgorithmSearch::change_best(double share) {
  constexpr std::size_t worth_it = 16;
  std::set<std::vector<std::uint64_t>> changed;
  while (is_time_left(share)) {
    std::size_t at = 0;
    const auto is_changed = [&](const Algorithm& a) {
      return !changed.emplace(std::begin(a.data), std::end(a.data)).second;
    };
    while (at < std::min(found_.size(), worth_it) && is_changed(found_[at].by.algorithm))
      ++at;
    if (at == std::min(found_.size(), worth_it))
      return;
    for (const Algorithm& other : changes_of(found_[at].by.algorithm)) {
      if (!is_time_left(share))
        return;
      offer(other);
    }
  }
}

std::vector<Algorithm> AlgorithmSearch::changes_of(const Algorithm& algorithm) const {
  const Abilities can(algorithm);
  std::vector<Algorithm> changes;
  const auto change = [&](cublasLtMatmulAlgoConfigAttributes_t what, const auto& value) {
    choose(changes.emplace_back(algorithm), what, value);
  };
  if (can.splits) {
    for (const std::int32_t parts : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128})
      split(changes.emplace_back(algorithm), parts);
  }
  for (std::uint32_t swizzle = 0; swizzle <= can.swizzles; ++swizzle)
    change(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, swizzle);
  for (std::uint16_t cluster = 0; cluster < k_clusters; ++cluster)
    change(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster);
  for (std::uint16_t inner = 0; inner < k_inner_shapes; ++inner)
    change(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, inner);
  for (const std::uint32_t tile : can.tiles)
    change(CUBLASLT_ALGO_CONFIG_TILE_ID, tile);
  for (const std::uint32_t stages : can.stages)
    change(CUBLASLT_ALGO_CONFIG_STAGES_ID, stages);
  for (std::uint32_t option = 0; option <= can.options; ++option)
    change(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, option);
  return changes;
}

// The quickest few once more, longer, as briefly timed ones are among the best by luck.
std::optional<ProductAlgorithm> AlgorithmSearch::judge(const ProductAlgorithm& predicted) {
  constexpr std::size_t few = 10;
  const std::vector<double> want = trial_.results(predicted);
  std::optional<Timed> best;
  std::size_t judged = 0;
  for (auto at = found_.begin(); at != found_.end() && judged < few; ++at) {
    const std::vector<double> got = trial_.results(at->by);
    if (!are_alike(got, want) || !are_same(trial_.results(at->by), got))
      continue;
    ++judged;
    const int runs = std::clamp(static_cast<int>(2e-3 / at->seconds), 1, 20);
    const auto seconds = trial_.seconds(at->by, {.runs = runs, .repeats = 11, .middle = true});
    if (seconds.has_value() && (!best.has_value() || *seconds < best->seconds))
      best = Timed{*seconds, at->by};
  }
  return best.has_value() ? std::optional(best->by) : std::nullopt;
}

}  // namespace sluice::detail
