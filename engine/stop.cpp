// How an engine stops, and how many tasks it has until then.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <string>
#include <utility>

#include <boost/thread/thread.hpp>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/test_faults.h>

namespace sluice::detail {

namespace {

constexpr auto k_exit_limit = std::chrono::seconds(5);
constexpr auto k_rest_limit = std::chrono::milliseconds(200);     // in a forked child there is nobody who could
constexpr std::uint32_t k_phases = 3, k_runs = 0, k_stopped = 2;  // of stop_phase_, modulo; between them it stops
// How long await_retirement() waits: rounds of so many looks of 1 ms, another one only if the process used a twentieth
// of a processor in the last. A task that computes ends by itself; one that waits may do so for who waits here.
constexpr int k_looks = 100, k_most_rounds = 20;
constexpr std::clock_t k_computing = CLOCKS_PER_SEC * k_looks / 1000 / 20;

bool is_cancelled(const Failure& failure) noexcept {
  try {
    std::rethrow_exception(failure.exception);
  } catch (const Cancelled&) {
    return true;
  } catch (...) {
    return false;
  }
}

void print(std::uint64_t count, const Failure& first) noexcept {
  try {
    std::rethrow_exception(first.exception);
  } catch (const std::exception& error) {  // they all are Errors: see capture_failure()
    std::fprintf(
        stderr,
        "sluice: %llu task%s failed and no wait has told of it; the first:\n%s\n",
        static_cast<unsigned long long>(count),
        count == 1 ? "" : "s",
        error.what());
  }
}

}  // namespace

void Core::stop(Stop how) {
  refuse_in_gpu_body("stop");
  const ThisThread& here = this_thread();
  require<Deadlock>(here.task == nullptr || here.core != this, [&] {
    return message("stop: task \"", here.task->name, "\" would wait for itself");
  });
  if (how == Stop::cancel) {
    cancelling_.store(true);
    cancels_.request_stop();
  }
  stopped_.store(1);
  std::uint32_t phase = stop_phase_.load();
  bool mine = false;
  while (phase % k_phases == k_runs && !mine)
    mine = stop_phase_.compare_exchange_strong(phase, phase + 1);
  if (!mine) {  // whoever came first does it; the engine may run again before this thread looks
    drain([&] { return phase % k_phases == k_stopped || stop_phase_.load() != phase; });
    return;
  }
  cpu_->before_wait();
  while (cpu_->help(32) > 0) {
  }
  {
    take_turn();
    const std::lock_guard one_at_a_time(wait_all_mutex_, std::adopt_lock);
    drain([&] { return live() == 0; });  // not by epochs: what tasks push now has to run too, however long that goes on
  }
  if (gpu() != nullptr) {
    try {
      gpu()->wait_all();
    } catch (...) {  // nobody is left to hear it
    }
  }
  cpu_->stop();
  if (gpu() != nullptr)
    gpu()->stop();
  report_failures();
  ++phase;
  stop_phase_.compare_exchange_strong(phase, phase + 1);
  let_waiters_look();
}

// In a forked child: nobody goes on with a stop that was under way, nor is anything left to wait for.
void Core::keep_stopped() {
  const std::uint32_t phase = stop_phase_.load() % k_phases;
  if (phase == k_runs)
    return;
  cpu_->stop();
  if (phase != k_stopped)
    stop_phase_.fetch_add(1);
}

void Core::end_facade() noexcept {
  const ThisThread& here = this_thread();
  if (here.gpu_body == nullptr && (here.task == nullptr || here.core != this))
    return end();
  // Its tasks go on with the engine inside; the thread that stops it must be none that they need.
  facade_.store(&inside_, std::memory_order_release);
  stopped_.store(1);
  try {
    if (test_faults().most_workers.load(std::memory_order_relaxed) == 0)
      throw ThreadError("planted by a test");
    boost::thread([this] { end(); }).detach();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sluice: no thread stops an engine destroyed inside its own task: %s\n", error.what());
  }
}

void Core::end() noexcept {
  try {
    stop(Stop::drain);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sluice: an engine could not be stopped: %s\n", error.what());
    return;
  }
  facade_.store(nullptr, std::memory_order_release);
  release();
}

void Core::restart() {
  const ThisThread& here = this_thread();
  require<Deadlock>(here.core != this || (here.task == nullptr && here.gpu_body == nullptr), [] {
    return std::string("restart: called inside a task of the engine");
  });
  require(
      stop_phase_.load() % k_phases == k_stopped, [] { return std::string("restart: the engine has not stopped"); });
  if (gpu() != nullptr)
    gpu()->restart();  // first: should it throw, the engine is as it was
  cpu_->restart();
  cancels_ = std::stop_source();
  cancelling_.store(false);
  unready_.store(true);  // there are no threads
  stop_phase_.fetch_add(1);
  stopped_.store(0);
}

void Core::drain_for_exit() {
  // One limit for all engines: the first that is waited for sets it.
  static const auto deadline = std::chrono::steady_clock::now() + k_exit_limit;
  const DrainWaiter waiter(*this);
  std::unique_lock hold(drained_mutex_);
  drained_.wait_for(hold, deadline - std::chrono::steady_clock::now(), [&] { return live() == 0; });
  hold.unlock();
  if (gpu() != nullptr)
    gpu()->rest(std::min(deadline, std::chrono::steady_clock::now() + k_rest_limit));
}

void Core::stop_at_exit() {
  stopped_.store(1);
  drain_for_exit();
  report_failures();
}

// A program that never waits would otherwise end well, whatever went wrong.
void Core::report_failures() noexcept {
  if (!options_.report_failures || era_ != 0)
    return;
  std::uint64_t count = 0;
  FailureRef first, other;
  {
    const std::lock_guard hold(failures_mutex_);
    count = std::exchange(failures_beyond_, 0);
    other = std::exchange(failure_beyond_, nullptr);
    for (const FailureRef& failure : std::exchange(failures_, {})) {
      if (failure->record->reported.load() || failure->record->forgiven.load() || is_cancelled(*failure))
        continue;
      ++count;
      if (first == nullptr || failure->record->push_number < first->record->push_number)
        first = failure;
    }
  }
  if (first == nullptr && other == no_memory_failure())
    first = other;
  if (first != nullptr)
    print(count, *first);
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
  const ThisThread& here = this_thread();
  if (here.task != nullptr || here.draining || live() == 0)
    return false;
  const std::uint64_t before = left();
  // Perhaps nobody else is there to run them. What runs at once, or in a loop, may hold what they wait for.
  if (here.gpu_body == nullptr && here.lists_depth == 0 && !here.in_parallel) {
    cpu_->before_wait();
    cpu_->help(32);
  }
  if (gpu() != nullptr)
    gpu()->flush();
  const DrainWaiter waiter(*this);
  std::unique_lock hold(drained_mutex_);
  bool computes = true;
  for (int round = 0; round < k_most_rounds && computes && live() > 0 && left() == before; ++round) {
    const std::clock_t used = std::clock();
    for (int looks = 0; looks < k_looks && live() > 0 && left() == before; ++looks)
      drained_.wait_for(hold, std::chrono::milliseconds(1));
    computes = std::clock() - used >= k_computing;
  }
  return left() != before;
}

}  // namespace sluice::detail
