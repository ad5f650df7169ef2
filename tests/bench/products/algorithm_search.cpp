#include "tests/bench/products/algorithm_search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "tests/bench/products/cublaslt.h"

namespace sluice::bench {

namespace {

// What a listed algorithm can be told.
struct Abilities {
  std::vector<std::uint32_t> tiles, stages;
  std::uint32_t custom = 0, schemes = 0, swizzle = 0;
  bool splits = false;

  explicit Abilities(const cublasLtMatmulAlgo_t& algorithm) {
    const CublasLt& lt = CublasLt::get();
    const auto list = [&](cublasLtMatmulAlgoCapAttributes_t what) {
      std::size_t bytes = 0;
      std::vector<std::uint32_t> values;
      if (lt.cublasLtMatmulAlgoCapGetAttribute(&algorithm, what, nullptr, 0, &bytes) == CUBLAS_STATUS_SUCCESS) {
        values.resize(bytes / sizeof(std::uint32_t));
        if (!values.empty())
          lt.cublasLtMatmulAlgoCapGetAttribute(&algorithm, what, values.data(), bytes, &bytes);
      }
      if (values.empty())
        values.push_back(0);  // not to be chosen
      return values;
    };
    const auto number = [&](cublasLtMatmulAlgoCapAttributes_t what) {
      std::uint32_t value = 0;
      std::size_t written = 0;
      lt.cublasLtMatmulAlgoCapGetAttribute(&algorithm, what, &value, sizeof value, &written);
      return value;
    };
    tiles = list(CUBLASLT_ALGO_CAP_TILE_IDS);
    stages = list(CUBLASLT_ALGO_CAP_STAGES_IDS);
    custom = number(CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX);
    schemes = number(CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK);
    swizzle = number(CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT);
    splits = number(CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) != 0;
  }
};

class Search {
 public:
  Search(const ProductShape& shape, DType dtype, double seconds)
      : product_(shape, dtype), start_(Clock::now()), seconds_(seconds) {}

  SearchResult run(const std::vector<std::uint64_t>& chosen) {
    const std::vector<Choice> ours =
        product_.predictions(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, LtProduct::k_workspace);
    require<UnsupportedError>(!ours.empty(), [] { return std::string("cuBLASLt predicts no algorithm"); });
    first_ = ours.front();
    first_.seconds = product_.graph_seconds(first_, 8, 3, false, k_forever);
    for (const Choice& choice : ours)
      time(choice);
    for (const std::size_t workspace : {LtProduct::k_workspace, std::size_t{4} << 20, std::size_t{0}}) {
      for (const Choice& choice : product_.predictions(CUBLASLT_REDUCTION_SCHEME_MASK, workspace))
        time(choice);
    }
    try_listed(0.45);
    change_best(0.8);
    report(ours);
    if (!chosen.empty())
      compare(chosen);
    return result_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double k_forever = std::numeric_limits<double>::infinity();
  static constexpr std::size_t k_careful = 10, k_changed = 16;

  bool before(double share) const {
    return std::chrono::duration<double>(Clock::now() - start_).count() < share * seconds_;
  }
  static bool is_in_order(const Choice& choice) {
    return choice.config.split == 1 || choice.config.scheme == CUBLASLT_REDUCTION_SCHEME_NONE ||
           choice.config.scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  }

  // Briefly, once a configuration.
  void time(Choice choice) {
    if (!seen_.insert(choice.config).second)
      return;
    const double best = found_.empty() ? first_.seconds : found_.front().seconds;
    const int runs = std::clamp(static_cast<int>(50e-6 / best), 1, 8);
    choice.seconds = product_.graph_seconds(choice, runs, 2, false, 1.5 * best);
    ++result_.timed;
    if (choice.seconds <= 0)
      return;
    const auto slower = [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; };
    found_.insert(std::upper_bound(found_.begin(), found_.end(), choice, slower), choice);
  }
  void try_config(const Config& config) {
    if (seen_.count(config) != 0)
      return;
    Choice choice;
    ++result_.checked;
    if (product_.take(config, choice))
      time(choice);
  }

  // All tiles and stages that are listed, in an order drawn at random so that the time is shared out evenly; then again
  // with options and clusters drawn at random.
  void try_listed(double share) {
    struct Listed {
      Config config;
      std::uint32_t most_custom;
    };
    std::vector<Listed> all;
    for (const int id : product_.ids()) {
      cublasLtMatmulAlgo_t algorithm{};
      if (!product_.init(id, algorithm))
        continue;
      const Abilities can(algorithm);
      for (const std::uint32_t tile : can.tiles) {
        for (const std::uint32_t stages : can.stages)
          all.push_back({{.id = id, .tile = tile, .stages = stages}, can.custom});
      }
    }
    std::mt19937 engine(7);
    std::shuffle(all.begin(), all.end(), engine);
    for (bool first = true; !all.empty() && before(share); first = false) {
      for (std::size_t i = 0; i < all.size() && before(share); ++i) {
        Config config = all[i].config;
        if (!first) {
          config.custom = std::uniform_int_distribution<std::uint32_t>(0, all[i].most_custom)(engine);
          config.cluster = std::uniform_int_distribution<std::uint16_t>(0, CUBLASLT_CLUSTER_SHAPE_END - 1)(engine);
        }
        try_config(config);
      }
    }
  }

  // One change at a time, always of the best one that was not changed yet.
  void change_best(double share) {
    std::set<Config> changed;
    while (before(share)) {
      const auto end = found_.begin() + static_cast<std::ptrdiff_t>(std::min(found_.size(), k_changed));
      const auto next =
          std::find_if(found_.begin(), end, [&](const Choice& c) { return changed.count(c.config) == 0; });
      if (next == end)
        return;
      const Config config = next->config;
      changed.insert(config);
      for (const Config& other : changes_of(config)) {
        if (!before(share))
          return;
        try_config(other);
      }
    }
  }

  std::vector<Config> changes_of(const Config& config) const {
    cublasLtMatmulAlgo_t algorithm{};
    if (!product_.init(config.id, algorithm))
      return {};
    const Abilities can(algorithm);
    std::vector<Config> changes;
    const auto add = [&](const auto& change) {
      Config other = config;
      change(other);
      changes.push_back(other);
    };
    for (std::uint32_t swizzle = 0; swizzle <= can.swizzle; ++swizzle)
      add([&](Config& c) { c.swizzle = swizzle; });
    for (const std::int32_t split : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128}) {
      for (const std::uint32_t scheme : {0U, 1U, 2U, 4U}) {
        if ((split == 1) == (scheme == 0) && can.splits && (scheme & can.schemes) == scheme) {
          add([&](Config& c) {
            c.split = split;
            c.scheme = scheme;
          });
        }
      }
    }
    for (std::uint16_t cluster = 0; cluster < CUBLASLT_CLUSTER_SHAPE_END; ++cluster)
      add([&](Config& c) { c.cluster = cluster; });
    for (std::uint16_t inner = 0; inner < CUBLASLT_MATMUL_INNER_SHAPE_END; ++inner)
      add([&](Config& c) { c.inner = inner; });
    for (const std::uint32_t tile : can.tiles)
      add([&](Config& c) { c.tile = tile; });
    for (const std::uint32_t stages : can.stages)
      add([&](Config& c) { c.stages = stages; });
    for (std::uint32_t custom = 0; custom <= std::min(can.custom, 128U); ++custom)
      add([&](Config& c) { c.custom = custom; });
    return changes;
  }

  // us of a product, the middle of many.
  double careful(const Choice& choice) const {
    const int runs = std::clamp(static_cast<int>(2e-3 / choice.seconds), 1, 20);
    return product_.graph_seconds(choice, runs, 11, true, k_forever) * 1e6;
  }

  void report(const std::vector<Choice>& ours) {
    result_.predicted = careful(first_);
    const auto lower = [](double& least, double value) { least = least == 0 ? value : std::min(least, value); };
    // The same configurations as found_ has them, with their times.
    std::size_t of_ours = 0;
    for (const Choice& choice : found_) {
      const auto is_it = [&](const Choice& c) { return !(c.config < choice.config) && !(choice.config < c.config); };
      if (of_ours < 3 && std::any_of(ours.begin(), ours.end(), is_it)) {
        lower(result_.predictions, careful(choice));
        ++of_ours;
      }
    }
    std::size_t taken = 0, in_order = 0;
    const Choice* best = nullptr;
    for (const Choice& choice : found_) {
      const bool counts = is_in_order(choice) && in_order < k_careful;
      if ((taken >= k_careful && !counts) || !product_.agrees(choice, first_))
        continue;
      const double time = careful(choice);
      if (result_.best == 0 || time < result_.best) {
        result_.best = time;
        best = &choice;
      }
      if (counts) {
        lower(result_.in_order, time);
        ++in_order;
      }
      if (++taken >= 3 * k_careful)
        break;
    }
    if (best != nullptr) {
      result_.what = best->config.text();
      result_.eager = product_.eager_seconds(*best) * 1e6;
      best_ = *best;
    }
  }

  // The middle of five turns each, so that both meet the same clocks.
  void compare(const std::vector<std::uint64_t>& words) {
    Choice choice;
    if (!product_.take(words, choice) || result_.best == 0)
      return;
    choice.seconds = best_.seconds;  // only for how often it is run
    std::vector<double> ours, theirs;
    for (int turn = 0; turn < 5; ++turn) {
      ours.push_back(careful(choice));
      theirs.push_back(careful(best_));
    }
    std::sort(ours.begin(), ours.end());
    std::sort(theirs.begin(), theirs.end());
    result_.chosen = ours[2];
    result_.best = theirs[2];
  }

  LtProduct product_;
  Clock::time_point start_;
  double seconds_;
  Choice first_, best_;
  std::vector<Choice> found_;  // the quickest first
  std::set<Config> seen_;
  SearchResult result_;
};

}  // namespace

SearchResult search_algorithms(
    const ProductShape& shape, DType dtype, double seconds, const std::vector<std::uint64_t>& chosen) {
  return Search(shape, dtype, seconds).run(chosen);
}

}  // namespace sluice::bench
