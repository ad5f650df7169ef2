#pragma once

#include <cstdint>

#include <sluice/engine/detail/policy.h>
#include <sluice/engine/detail/random.h>
#include <sluice/engine/detail/spin_lock.h>
#include <sluice/engine/detail/this_thread.h>

namespace sluice::detail {

/// Runs ready tasks on the threads that push and wait, as SerialPolicy does, but in an order and at times drawn from a
/// seed: now and then some of those that are ready, all of them when somebody waits. With one pushing thread the same
/// seed gives the same schedule. For tests: whatever order it picks, a program must not be able to tell.
class ChaosPolicy final : public CpuPolicy {
 public:
  ChaosPolicy(Core& core, std::uint64_t seed) : core_(core), random_(seed) {}

  void submit(TaskNode* task) noexcept override;
  void after_push() override;
  void before_wait() override;
  void while_waiting() override;
  std::chrono::nanoseconds slice() const noexcept override { return std::chrono::milliseconds(1); }
  void before_block() override;
  int all_blocked() override;
  void parallel(std::int64_t n, std::int64_t grain, void* context, RangeFunction run) override;
  void stop() override;
  bool waits_for_gpu() const noexcept override { return true; }
  int workers() const noexcept override { return 1; }
  void visit_runners(const std::function<void(Runner)>& visit) override { visit(runner_.load()); }

 private:
  bool has_turn();
  TaskNode* take();
  bool take_turn(bool everything);
  void run_some(std::uint64_t limit);

  Core& core_;
  AtomicRunner runner_{Runner{}};  // the thread that ran something last
  SpinLock lock_;
  // Under the lock.
  Random random_;
  TaskNode* head_ = nullptr;  // of those that are ready
  TaskNode* tail_ = nullptr;
  std::uint64_t ready_ = 0;
  const ThisThread* turn_ = nullptr;  // the thread that runs for all
  bool everything_ = false;           // somebody waits: whoever runs goes on until nothing is ready
};

}  // namespace sluice::detail
