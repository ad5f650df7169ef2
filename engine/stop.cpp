// Limits in time and number: how an engine stops, and how it holds back those who push faster than it runs.
#include <chrono>

#include <sluice/engine/detail/core.h>

namespace sluice::detail {

namespace {

constexpr auto k_exit_limit = std::chrono::seconds(5);
constexpr auto k_patience = std::chrono::milliseconds(10);

}  // namespace

void Core::stop(Stop how) {
  const ThisThread& here = this_thread();
  require<Deadlock>(here.task == nullptr || here.core != this, [&] {
    return message("stop: task \"", here.task->name, "\" would wait for itself");
  });
  if (how == Stop::cancel)
    cancelling_.store(true);
  if (stopped_.exchange(1) != 0)
    return;
  cpu_->before_wait();
  while (cpu_->help(32) > 0) {
  }
  {
    const std::lock_guard one_at_a_time(wait_all_mutex_);
    drain_epoch();
    drain_epoch();
  }
  if (gpu() != nullptr) {
    try {
      gpu()->wait_all();
    } catch (const Error&) {  // nobody is left to hear it
    }
  }
  cpu_->stop();
  if (gpu() != nullptr)
    gpu()->stop();
}

void Core::stop_at_exit() {
  stopped_.store(1);
  std::unique_lock hold(drained_mutex_);
  drain_waiters_.fetch_add(1);
  heavy_fence();
  drained_.wait_for(hold, k_exit_limit, [&] { return epoch_empty(0) && epoch_empty(1); });
  drain_waiters_.fetch_sub(1);
}

std::uint64_t Core::left() const noexcept {
  std::uint64_t left = 0;
  for (const CountShard& shard : counts_)
    left += shard.left[0].get() + shard.left[1].get();
  return left;
}

std::uint64_t Core::live() const noexcept {
  const std::uint64_t gone = left();
  std::uint64_t entered = 0;
  for (const CountShard& shard : counts_)
    entered += shard.entered[0].get() + shard.entered[1].get();
  return entered - gone;
}

// Only threads outside tasks rest: a body that rested would hold what the others wait for.
void Core::hold_back() {
  const std::uint64_t limit = options_.max_live_tasks;
  if (limit == 0 || this_thread().task != nullptr || live() < limit)
    return;
  if (left() == stuck_at_.load(std::memory_order_relaxed))  // it has rested in vain already
    return;
  const std::uint64_t enough = limit - limit / 8;
  while (cpu_->help(32) > 0) {
    if (live() <= enough)
      return;
  }
  std::unique_lock hold(drained_mutex_);
  drain_waiters_.fetch_add(1);
  heavy_fence();
  for (std::uint64_t before = left(); live() > enough; before = left()) {
    drained_.wait_for(hold, k_patience, [&] { return live() <= enough; });
    if (left() == before) {  // perhaps this thread holds what they wait for
      stuck_at_.store(before, std::memory_order_relaxed);
      break;
    }
  }
  drain_waiters_.fetch_sub(1);
}

}  // namespace sluice::detail
