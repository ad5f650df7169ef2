// What a trace is and what it says of dependencies; how it is written stands in trace_write.cpp and trace_svg.cpp.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include <sluice/engine/trace.h>

namespace sluice {

const char* to_string(TaskOutcome outcome) noexcept {
  constexpr const char* k_names[] = {"unfinished", "ok", "failed", "skipped", "cancelled"};
  return k_names[static_cast<std::size_t>(outcome)];
}

Trace::Trace(
    std::vector<TraceEvent> events,
    std::vector<TraceThread> threads,
    std::int64_t duration,
    std::vector<TraceBatch> batches)
    : events_(std::move(events)), batches_(std::move(batches)), duration_(duration) {
  const auto each_row = [this](auto&& visit) {
    for (TraceEvent& event : events_) {
      for (int* row : {&event.pusher, &event.worker, &event.issuer}) {
        if (*row >= 0)
          visit(*row);
      }
    }
    for (TraceBatch& batch : batches_) {
      if (batch.worker >= 0)
        visit(batch.worker);
    }
  };
  std::vector<int> used(threads.size(), 0);
  each_row([&](int row) { used.at(static_cast<std::size_t>(row)) = 1; });
  std::vector<std::size_t> order;
  for (std::size_t row = 0; row < threads.size(); ++row) {
    if (used[row] != 0)
      order.push_back(row);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const TraceThread &left = threads[a], &right = threads[b];
    const auto kind = [](const TraceThread& thread) { return thread.stream ? 2 : thread.worker ? 1 : 0; };
    if (kind(left) != kind(right) || kind(left) != 1)
      return kind(left) < kind(right);
    return std::pair(left.name.size(), left.name) < std::pair(right.name.size(), right.name);  // 9 before 10
  });
  std::vector<int> row_of(threads.size(), -1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    row_of[order[i]] = static_cast<int>(i);
    threads_.push_back(std::move(threads[order[i]]));
  }
  each_row([&](int& row) { row = row_of[static_cast<std::size_t>(row)]; });
}

std::vector<TraceEdge> Trace::edges() const {
  struct Last {
    std::vector<std::size_t> writers;  // one, or a run that commutes
    std::vector<std::size_t> readers;  // since then
    std::vector<std::size_t> before;   // the run
    bool commute = false;
  };
  std::unordered_map<std::uint64_t, Last> last;
  std::vector<TraceEdge> edges;
  for (std::size_t to = 0; to < events_.size(); ++to) {
    std::map<std::size_t, std::vector<std::uint64_t>> before;  // one edge a pair, whatever the number of Vars
    for (const TraceVar& var : events_[to].vars) {
      Last& seen = last[var.id];
      const bool reads = var.mode == AccessMode::read, commutes = var.mode == AccessMode::commute;
      const bool joins = commutes && seen.commute && seen.readers.empty();
      const std::vector<std::size_t>& last_ones = joins                           ? seen.before
                                                  : reads || seen.readers.empty() ? seen.writers
                                                                                  : seen.readers;
      for (std::size_t from : last_ones)
        before[from].push_back(var.id);
      if (reads)
        seen.readers.push_back(to);
      else if (joins)
        seen.writers.push_back(to);
      else
        seen = {{to}, {}, commutes ? last_ones : std::vector<std::size_t>(), commutes};
    }
    for (auto& [from, vars] : before)
      edges.push_back({from, to, std::move(vars)});
  }
  std::sort(edges.begin(), edges.end(), [](const TraceEdge& a, const TraceEdge& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  return edges;
}

}  // namespace sluice
