// How an engine stops, and how many tasks it has until then.
#include <chrono>

#include <sluice/engine/detail/core.h>

namespace sluice::detail {

namespace {

constexpr auto k_exit_limit = std::chrono::seconds(5);

}  // namespace

void Core::stop(Stop how) {
  refuse_in_gpu_body("stop");
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
