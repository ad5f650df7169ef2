#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/detail/failure.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

/// Of an engine: GPU tasks that have failed after they had finished, because their bodies were called late, or once
/// more, and threw, or because their kernels reported bad data (cuda/reports.h). Their Vars say that all is well;
/// whoever is about to believe it asks here by the place that the task has, and need not while none() holds. Filled
/// before that place counts as launched; of kernels, as passed. For any thread.
class LateFailures {
 public:
  /// A Var of a task that may fail late, as it was when the task's place was settled.
  struct Use {
    std::uint64_t var = 0;  // its id
    Position written_at;
    AccessMode mode = AccessMode::read;
  };
  using Uses = boost::container::small_vector<Use, 4>;

  bool none() const noexcept { return none_.load(std::memory_order_relaxed); }
  Uses uses_of(const TaskNode& task);
  /// Where the Var's value was written, as long as the Var itself does not say whether that has failed.
  Position writer_of(const VarCore& var);

  /// The task at `position` has failed, or if it was not `ran`, is skipped for that failure. Throws std::bad_alloc.
  void add(Position position, const FailureRef& failure, bool ran, const Uses& uses);
  /// Why the task there failed; null if it did not.
  FailureRef of_task(Position position);
  /// What is wrong with the value that the task at `written_at` has left in the Var; null if nothing is, or if it has
  /// been forgiven.
  FailureRef of_value(Position written_at, std::uint64_t var);
  /// Why a task that uses these must not run; null if it may.
  FailureRef of_inputs(const Uses& uses);
  /// For the task that has the Var to itself: from now on the Var says what is wrong with it.
  void hand_over(VarCore& var);
  /// How many tasks counted as having written the Var and have failed late.
  std::uint64_t void_versions(std::uint64_t var);

  // Held over a fork.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static constexpr std::size_t k_most = 1 << 16;  // then the oldest is forgotten
  struct Written {
    std::uint64_t var;
    Poison poison;
    bool handed_over = false;
  };
  struct Entry {
    FailureRef failure;
    std::vector<Written> written;
  };
  static std::uint64_t key(Position at) noexcept { return std::uint64_t{at.stream()} << 48 | at.sequence(); }
  Written* find(Position at, std::uint64_t var);
  void forget_oldest();

  std::atomic<bool> none_{true};
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Entry> entries_;  // by position
  std::deque<std::uint64_t> order_;                   // the oldest first
  std::unordered_map<std::uint64_t, std::uint64_t> void_versions_;
};

}  // namespace sluice::detail
