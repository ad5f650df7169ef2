#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/operator/graph/detail/arena.h>
#include <sluice/operator/graph/detail/derived.h>

namespace sluice::graph {

/// What comes of a graph's constants alone, kept from run to run and made again once one of them was written: for all
/// arenas of a plan, as the constants themselves are. Any thread may call it.
class DerivedValues {
 public:
  /// Null where the graph has nothing of that kind. Throws OutOfMemory. Nothing is made yet.
  static std::shared_ptr<DerivedValues> of(const Graph& graph, Engine& engine);
  DerivedValues(DerivedSplit split, Engine& engine);
  DerivedValues(const DerivedValues&) = delete;
  DerivedValues& operator=(const DerivedValues&) = delete;

  /// The graph without what makes them, where they are constants.
  const Graph& rest() const noexcept { return split_.rest; }
  bool is_current() const { return arena_->is_current(); }
  std::size_t bytes() const noexcept;

  /// ready: what makes them was pushed if that must be, and who pushes now comes behind it. busy: another thread is
  /// about to, and this one may not wait. outdated: a constant is other memory now.
  enum class Renewal : std::uint8_t { ready, busy, outdated };
  Renewal renew(bool may_wait, SourceLocation site);

 private:
  /// A constant, and the writes of its memory that what is kept has seen.
  struct Source {
    const NDArray* array = nullptr;
    const void* memory = nullptr;
    std::atomic<std::uint64_t> pushed{0}, done{0};
  };

  bool has_seen_all() const noexcept;
  bool has_failed();
  void make(SourceLocation site);

  DerivedSplit split_;
  Engine& engine_;
  std::unique_ptr<Arena> arena_;
  std::vector<Source> sources_;       // as many as ever
  Task proof_ = {};                   // reads all that is kept
  std::atomic<bool> is_made_{false};  // and nothing of it failed
  std::mutex mutex_;                  // for those below, and for who pushes
  bool is_pushed_ = false;
  TaskHandle proven_;
};

}  // namespace sluice::graph
