#pragma once

// A body of one engine waits for another engine.
#include <algorithm>
#include <chrono>
#include <optional>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/given_thread.h>
#include <sluice/engine/detail/group_state.h>

namespace sluice::detail {

/// While it lives, the body of another engine that waits has given away its places, and another thread replaces its
/// own.
class OtherEngineWaits {
 public:
  explicit OtherEngineWaits(const Core& awaited) {
    ThisThread& here = this_thread();
    if (here.task == nullptr || here.core == nullptr || here.core == &awaited)
      return;
    places_.emplace(*here.task);
    thread_.emplace(here, here.core->cpu());
  }

 private:
  std::optional<GivenPlaces> places_;
  std::optional<GivenThread> thread_;
};

/// What bodies on this thread, which waits, keep from running: serial engines' other tasks, whose turn it has.
class LeftToThisThread {
 public:
  explicit LeftToThisThread(Core& awaited) : awaited_(awaited) {
    visit([this](Core& core) { slice_ = std::min(slice_, core.cpu().slice()); });
  }
  std::chrono::nanoseconds slice() const noexcept { return slice_; }
  void run() const {
    awaited_.cpu().while_waiting();
    visit([](Core& core) { core.cpu().while_waiting(); });
  }

 private:
  // The engines of the bodies below, but for the one that is waited for.
  template <class Visit>
  void visit(Visit visit) const {
    const ThisThread& here = this_thread();
    const auto visit_other = [&](const TaskNode* task) {
      if (task != nullptr && task->core != &awaited_)
        visit(*task->core);
    };
    visit_other(here.task);
    for (const TaskBelow* below = here.below; below != nullptr; below = below->next)
      visit_other(below->task);
  }

  Core& awaited_;
  std::chrono::nanoseconds slice_ = awaited_.cpu().slice();
};

}  // namespace sluice::detail
