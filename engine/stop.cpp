// Limits in time and number: how an engine stops, and how it holds back those who push faster than it runs.
#include <chrono>

#include <sluice/engine/detail/core.h>

namespace sluice::detail {

namespace {

constexpr auto k_exit_limit = std::chrono::seconds(5);
constexpr int k_patience = 10;                  // milliseconds in which nothing ends
constexpr std::uint64_t k_cached_tasks = 2048;  // half of a usual second-level cache
constexpr int k_pace_looks = 16;                // some 10 to 30 us in all

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
    drain([&] { return live() == 0; });  // not by epochs: what tasks push now has to run too, however long that goes on
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
  const DrainWaiter waiter(*this);
  std::unique_lock hold(drained_mutex_);
  drained_.wait_for(hold, k_exit_limit, [&] { return live() == 0; });
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

// Short tasks are pushed at the speed at which they run: a backlog that leaves the cache costs more than it brings.
void Core::keep_pace() {
  if (!cpu_->short_tasks())
    return;
  for (int looks = 0; looks < k_pace_looks && live() > k_cached_tasks; ++looks) {
    for (int i = 0; i < 32; ++i)
      pause_briefly();
  }
}

// Only threads outside tasks rest: a body that rested would hold what the others wait for.
void Core::hold_back() {
  const std::uint64_t limit = options_.max_live_tasks;
  if (limit == 0 || this_thread().task != nullptr || this_thread().draining)
    return;
  const std::uint64_t now = live();
  if (now > k_cached_tasks)
    keep_pace();
  if (now < limit || left() == stuck_at_.load(std::memory_order_relaxed))  // the latter: it has rested in vain already
    return;
  const std::uint64_t enough = limit - limit / 8;
  while (cpu_->help(32) > 0) {
    if (live() <= enough)
      return;
  }
  const DrainWaiter waiter(*this);
  std::unique_lock hold(drained_mutex_);
  std::uint64_t before = left();
  for (int still = 0; live() > enough && still < k_patience; ++still) {
    drained_.wait_for(hold, std::chrono::milliseconds(1), [&] { return live() <= enough; });
    if (const std::uint64_t after = left(); after != before) {
      before = after;
      still = 0;
    }
  }
  if (live() > enough)  // perhaps this thread holds what they wait for
    stuck_at_.store(before, std::memory_order_relaxed);
}

bool Core::await_retirement() {
  if (this_thread().task != nullptr || this_thread().draining || live() == 0)
    return false;
  if (gpu() != nullptr)
    gpu()->flush();
  const DrainWaiter waiter(*this);
  std::unique_lock hold(drained_mutex_);
  const std::uint64_t before = left();
  for (int looks = 0; looks < 100 && live() > 0 && left() == before; ++looks)
    drained_.wait_for(hold, std::chrono::milliseconds(1));
  return left() != before;
}

}  // namespace sluice::detail
