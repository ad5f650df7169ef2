// What a program costs that mostly sleeps: CPU time of the whole process a task, and how long a task waits for a worker
// that has gone to sleep. The reference is the plainest worker there is: a queue, a mutex and a condition variable.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;
using Clock = std::chrono::steady_clock;

double cpu_microseconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

/// One thread that runs what is posted.
class PlainWorker {
 public:
  PlainWorker() : thread_([this] { serve(); }) {}
  PlainWorker(const PlainWorker&) = delete;
  PlainWorker& operator=(const PlainWorker&) = delete;
  ~PlainWorker() {
    post(nullptr);
    thread_.join();
  }
  void post(std::function<void()> work) {
    {
      const std::lock_guard hold(mutex_);
      queue_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  void serve() {
    for (;;) {
      std::unique_lock hold(mutex_);
      changed_.wait(hold, [&] { return !queue_.empty(); });
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      hold.unlock();
      if (work == nullptr)
        return;
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
};

struct Outcome {
  double cpu_us = 0;  // a task
  std::vector<double> waits;
  int ran = 0;
};

/// One task at a time, `pause` apart; give(body) hands it over.
template <class Give>
Outcome run(int tasks, std::chrono::microseconds pause, Give give) {
  Outcome outcome;
  std::atomic<int> ran{0};
  std::vector<Clock::time_point> pushed(static_cast<std::size_t>(tasks)), began(pushed.size());
  const double before = cpu_microseconds();
  for (std::size_t i = 0; i < pushed.size(); ++i) {
    std::this_thread::sleep_for(pause);
    pushed[i] = Clock::now();
    give([&began, &ran, i] {
      began[i] = Clock::now();
      ran.fetch_add(1, std::memory_order_release);
    });
  }
  while (ran.load(std::memory_order_acquire) < tasks)
    std::this_thread::sleep_for(pause);
  outcome.cpu_us = (cpu_microseconds() - before) / tasks;
  outcome.ran = ran;
  for (std::size_t i = 0; i < pushed.size(); ++i)
    outcome.waits.push_back(std::chrono::duration<double, std::micro>(began[i] - pushed[i]).count());
  std::sort(outcome.waits.begin(), outcome.waits.end());
  return outcome;
}

void report_one(
    bench::Report& report, const std::string& workload, const std::string& variant, std::vector<Outcome>& rounds) {
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::nth_element(
      rounds.begin(), middle, rounds.end(), [](const Outcome& a, const Outcome& b) { return a.cpu_us < b.cpu_us; });
  const std::size_t last = middle->waits.size() - 1;
  report.add(workload, variant, "cpu-a-task", middle->cpu_us, "us", middle->cpu_us);
  report.add(workload, variant, "wait-p50", middle->waits[last / 2], "us", middle->waits.front());
  report.add(workload, variant, "wait-p99", middle->waits[last * 99 / 100], "us", middle->waits.front());
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_idle", "What tasks cost in a program that mostly sleeps");
  int tasks = 2000;
  report.flag("--tasks", tasks, "Tasks a round").range(10, 1000000);
  if (!report.parse(argc, argv))
    return report.exit_code();
  if (report.options().smoke)
    tasks = 20;
  const int rounds = report.options().smoke ? 1 : 5;
  for (const int pause_us : {100, 1000}) {
    const std::string workload = message("every-", pause_us, "us");
    const std::chrono::microseconds pause(pause_us);
    if (!report.wants(workload, "sluice") && !report.wants(workload, "plain"))
      continue;
    std::vector<Outcome> ours, plain;
    for (int round = 0; round < rounds; ++round) {  // in turns: the machine may change its mind
      {
        Engine engine;
        ours.push_back(run(tasks, pause, [&](auto body) { engine.push({.name = "idle"}, body); }));
      }
      PlainWorker worker;
      plain.push_back(run(tasks, pause, [&](auto body) { worker.post(body); }));
      report.expect(ours.back().ran == tasks && plain.back().ran == tasks, workload);
    }
    report_one(report, workload, "sluice", ours);
    report_one(report, workload, "plain", plain);
  }
  return report.finish();
}
