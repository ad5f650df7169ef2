#pragma once

#include <sluice/engine/detail/policy.h>
#include <sluice/engine/detail/spin_lock.h>
#include <sluice/engine/detail/this_thread.h>

namespace sluice::detail {

/// Runs every task on the thread that pushes, one at a time, first come, first served, before the outermost push
/// returns. For debugging and as the oracle of tests. With several pushing threads, one of them runs for all; what the
/// issue of another engine's GPU work pushes begins with the next push or wait outside it.
class SerialPolicy final : public CpuPolicy {
 public:
  explicit SerialPolicy(Core& core) : core_(core) {}

  void submit(TaskNode* task) noexcept override;
  void after_push() override;
  bool begin_at_once() noexcept override;
  void end_at_once() override;
  void parallel(std::int64_t n, std::int64_t, void* context, RangeFunction run) override { run(context, 0, n); }
  void while_waiting() override;
  std::chrono::nanoseconds slice() const noexcept override { return std::chrono::milliseconds(1); }
  void before_block() override { drain(); }
  int all_blocked() override;
  void stop() override;
  bool waits_for_gpu() const noexcept override { return true; }
  int workers() const noexcept override { return 1; }
  void visit_runners(const std::function<void(Runner)>& visit) override { visit(runner_.load()); }

 private:
  bool has_turn();
  void drain();
  TaskNode* pop();
  TaskNode* take();
  TaskNode* begin_draining();
  TaskNode* take_or_end_draining();
  void run_turn(TaskNode* task);

  Core& core_;
  AtomicRunner runner_{Runner{}};  // the thread that ran something last
  SpinLock lock_;
  TaskNode* head_ = nullptr;
  TaskNode* tail_ = nullptr;
  const ThisThread* turn_ = nullptr;  // the thread that runs for all
};

}  // namespace sluice::detail
