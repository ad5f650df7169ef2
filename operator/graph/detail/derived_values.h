#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/operator/graph/detail/derived.h>
#include <sluice/operator/graph/detail/held.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice::graph {

/// What comes of a graph's constants alone, or of nothing, kept from run to run: for all arenas of a plan, as the
/// constants themselves are. What goes together is made again once one of its constants was written, or when it could
/// not be made, for nobody in particular: in no task group, and not stopped with the task that asks. Any thread may
/// call it.
class DerivedValues {
 public:
  /// Null where the graph has nothing of that kind. Throws OutOfMemory. Nothing is made yet.
  static std::shared_ptr<DerivedValues> of(const Graph& graph, Derives what, Engine& engine);
  DerivedValues(DerivedSplit split, Engine& engine);
  DerivedValues(const DerivedValues&) = delete;
  DerivedValues& operator=(const DerivedValues&) = delete;

  /// The graph without what makes them, where they are constants.
  const Graph& rest() const noexcept { return split_.rest; }
  bool is_current() const;
  std::size_t bytes() const noexcept;

  /// ready: what makes them was pushed if that must be, and who pushes now comes behind it. busy: another thread is
  /// about to, and this one may not wait. outdated: a constant is other memory now. Throws what invoke() throws.
  enum class Renewal : std::uint8_t { ready, busy, outdated };
  Renewal renew(bool may_wait, SourceLocation site);

 private:
  /// A constant, and the writes of its memory that what is kept has seen.
  struct ReadConstant {
    Held constant = {};
    std::atomic<std::uint64_t> seen{0};
  };
  /// What goes together.
  struct Part {
    std::vector<std::size_t> nodes = {}, sources = {}, kept = {};  // by their numbers
    std::vector<TaskHandle> proofs = {};                           // each reads one of those kept; none: not pushed
    std::vector<std::uint64_t> failures = {};                      // writes of those kept that had failed before
    bool is_made = false;                                          // and nothing of it failed
  };

  bool has_seen_all() const noexcept;
  bool was_skipped(const Part& part) const noexcept;
  void renew_parts(SourceLocation site);
  void make(const std::vector<Part*>& parts, SourceLocation site);

  DerivedSplit split_;
  Engine& engine_;
  std::vector<std::pair<ValueId, NDArray>> kept_;
  std::vector<ReadConstant> sources_;  // as many as ever
  std::atomic<Float32Precision> precision_{};
  std::atomic<bool> is_made_{false};  // all of it
  std::mutex mutex_;                  // for the parts, and for who pushes
  std::vector<Part> parts_;
};

}  // namespace sluice::graph
