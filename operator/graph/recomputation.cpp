#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <sluice/operator/graph/detail/recomputable.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/memory_plan.h>
#include <sluice/operator/graph/passes.h>

namespace sluice::graph {

namespace {

// How long stretches of values that are made again together may be: two steps for each halving of all there are.
constexpr int k_stretches = 20;
// Plans made to find out what need not be made again after all.
constexpr std::size_t k_most_trials = 128;

/// Which values to make again, so that what lies between those that are kept is no more than some bytes.
class Choice {
 public:
  Choice(const Recomputable& known, bool heavy_too)
      : known_(known),
        graph_(known.graph()),
        heavy_too_(heavy_too),
        again_(graph_.values.size()),
        kept_until_(graph_.values.size()),
        seen_(graph_.values.size()) {}

  std::vector<bool> run(double stretch) {
    for (std::size_t at = 0; at < graph_.nodes.size(); ++at) {
      for (const Result& result : graph_.nodes[at].results) {
        const Recomputable::Root& root = known_.root(result.value);
        if (!result.made || graph_.nodes[at].is_view() || root.work == Work::never ||
            (root.work == Work::heavy && !heavy_too_))
          continue;
        again_[result.value] = true;  // what nobody reads late is, if somebody needs it for others
        if (root.late_begin != Recomputable::k_forever)
          again_[result.value] = gains(result.value, stretch);
      }
    }
    return std::move(again_);
  }

 private:
  // Of what is made again with it no more than `stretch`, and nothing as large kept for it that could go.
  bool gains(ValueId id, double stretch) {
    const std::size_t at = known_.root(id).late_begin;
    std::size_t again = 0, kept = 0;
    std::vector<ValueId> open{id}, longer;
    ++stamp_;
    while (!open.empty()) {
      const std::size_t maker = known_.maker(open.back());
      open.pop_back();
      if (known_.unchanged_until(maker) < at)
        return false;
      for (const ValueId operand : known_.operands(maker)) {
        const ValueId root = graph_.root(operand);
        const Recomputable::Root& of = known_.root(root);
        const std::size_t there_until = again_[root] ? of.early_end : std::max(of.last_use, kept_until_[root]);
        if (there_until >= at || std::exchange(seen_[root], stamp_) == stamp_)
          continue;
        if (!again_[root]) {
          kept += of.bytes;
          longer.push_back(root);
          continue;
        }
        again += of.late_begin == Recomputable::k_forever ? 0 : of.bytes;
        open.push_back(root);
      }
      if (static_cast<double>(again) > stretch || kept >= known_.root(id).bytes)
        return false;
    }
    for (const ValueId root : longer)
      kept_until_[root] = at;
    return true;
  }

  const Recomputable& known_;
  const Graph& graph_;
  const bool heavy_too_;
  std::vector<bool> again_;
  std::vector<std::size_t> kept_until_;  // for what is made again
  std::vector<std::size_t> seen_;
  std::size_t stamp_ = 0;
};

/// A choice and what becomes of it.
struct Trial {
  std::vector<bool> again = {};
  Recomputed made = {};
  std::size_t bytes = 0;
};

/// Looks for the cheapest choice that fits a budget, otherwise for the one of the least memory.
class Search {
 public:
  Search(const Graph& graph, const RecomputationOptions& options) : options_(options), known_(graph, options) {
    best_ = tried(std::vector<bool>(graph.values.size()));
    for (ValueId id = 0; id < graph.values.size(); ++id) {
      if (graph.root(id) == id && known_.root(id).late_begin != Recomputable::k_forever)
        total_ += known_.root(id).bytes;
    }
  }

  /// Whether something is gained.
  bool run() {
    const std::size_t before = best_.bytes;
    for (const bool heavy_too : {false, true}) {
      if (!fits(best_))
        try_stretches(heavy_too);
    }
    return best_.bytes < before;
  }
  Graph take() { return std::move(best_.made.graph); }

 private:
  double stretch(int i) const { return i == 0 ? 0 : static_cast<double>(total_) * std::exp2((i - k_stretches) / 2.0); }

  bool fits(const Trial& trial) const { return trial.bytes <= options_.budget; }

  // Short stretches cost less, but from the choice of the least memory more may be kept after all.
  void try_stretches(bool heavy_too) {
    std::optional<Trial> first;
    for (int i = 0; i <= k_stretches; ++i) {
      Trial trial = tried(Choice(known_, heavy_too).run(stretch(i)));
      if (fits(trial) && !first)
        first = trial;
      if (trial.bytes < best_.bytes)
        best_ = std::move(trial);
    }
    if (first || heavy_too)
      keep_more(best_);
    if (first)
      keep_more(*first);
    if (first && first->made.cost < best_.made.cost)
      best_ = *std::move(first);
  }

  Trial tried(std::vector<bool> again) const {
    Trial trial{.again = std::move(again)};
    trial.made = recomputed(known_, trial.again);
    trial.bytes = planned_bytes(trial.made.graph, Sharing::in_order, options_.keep_derived);
    return trial;
  }

  // The dearest first, many at once, then fewer.
  void keep_more(Trial& best) const {
    std::vector<ValueId> open = made_again(best.again);
    std::size_t trials = 0;
    for (std::size_t many = open.size(); many > 0; many /= 2) {
      for (std::size_t from = 0; from < open.size() && trials < k_most_trials; ++trials) {
        const std::size_t to = std::min(from + many, open.size());
        std::vector<bool> again = best.again;
        for (std::size_t i = from; i < to; ++i)
          again[open[i]] = false;
        Trial trial = tried(std::move(again));
        if (trial.bytes > std::max(options_.budget, best.bytes) || trial.made.cost > best.made.cost) {
          from = to;
          continue;
        }
        best = std::move(trial);
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(from), open.begin() + static_cast<std::ptrdiff_t>(to));
      }
    }
  }

  // By what they cost for a byte that need not be kept.
  std::vector<ValueId> made_again(const std::vector<bool>& again) const {
    std::vector<std::pair<double, ValueId>> found;
    for (ValueId id = 0; id < again.size(); ++id) {
      const Recomputable::Root& root = known_.root(id);
      if (again[id] && root.late_begin != Recomputable::k_forever)
        found.emplace_back(
            -known_.cost(known_.maker(id)) / static_cast<double>(std::max<std::size_t>(root.bytes, 1)), id);
    }
    std::sort(found.begin(), found.end());
    std::vector<ValueId> sorted;
    for (const auto& [cost, id] : found)
      sorted.push_back(id);
    return sorted;
  }

  const RecomputationOptions options_;
  const Recomputable known_;
  std::size_t total_ = 0;  // bytes that might be made again
  Trial best_;
};

}  // namespace

Graph with_recomputation(const Graph& graph, const RecomputationOptions& options) {
  if (options.budget == 0)
    return graph;
  const Graph apart = with_shapes_apart(graph);
  Search search(apart, options);
  if (!search.run())
    return graph;
  Graph made = search.take();
  verify(made);
  return made;
}

}  // namespace sluice::graph
