// Rules that keep a push short: whoever pushes has other things to do.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/launch_rules/launch_rules_cuda.h"
#include "tests/bench/support/rounds.h"

namespace launch_rules {

using namespace sluice;
using Clock = std::chrono::steady_clock;

// The host's time is what counts: the GPU needs several times as long.
void backlogs(bench::Report& report, Device device) {
  struct Load {
    const char* workload;
    int tasks, chains;
    bool capturable;
    int cpu_every;  // GPU tasks, the same thread pushes a task for the CPU
    unsigned microseconds;
  };
  for (const Load& load :
       {Load{"backlog-direct", 12000, 1, false, 0, 10},
        Load{"backlog-4-streams", 8000, 4, false, 0, 20},
        Load{"backlog-with-cpu", 8000, 4, false, 8, 20},
        Load{"backlog-batches", 24000, 1, true, 0, 5}}) {
    if (!report.wants(load.workload, "engine"))
      continue;
    const int count = sized(report, load.tasks, 200);
    Engine engine(bench::launched(LaunchMode::batch));
    Items items(engine, device, load.chains);
    const Var cpu_var = engine.new_var();
    std::int64_t done = 0, expected = 0;
    const auto push = [&] {
      for (int i = 0; i < count; ++i) {
        items.push({.target = i % load.chains}, {.microseconds = load.microseconds, .capturable = load.capturable});
        if (load.cpu_every == 0 || i % load.cpu_every != 0)
          continue;
        ++expected;
        engine.push({.name = "count", .access = {write(cpu_var)}}, [&done] { ++done; });
      }
    };
    bench::compare(report, load.workload, count, "task", {{"engine", push, [&] { engine.wait_all(); }}});
    items.check(report, load.workload);
    report.expect(done == expected, message(load.workload, ": tasks on the CPU"));
  }
}

namespace {

/// Times of single pushes, in us.
class Pushes {
 public:
  void push(Items& items) {
    const Clock::time_point start = Clock::now();
    items.push_next();
    taken_.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  /// The one that so many of a thousand are no longer than.
  double of_thousand(std::size_t rank) {
    std::sort(taken_.begin(), taken_.end());
    return taken_[(taken_.size() - 1) * rank / 1000];
  }

 private:
  std::vector<double> taken_;
};

struct Longest {
  std::vector<double> most, nearly;  // of each round: the longest push, and what 999 of 1000 stay below

  void add(Pushes& pushes) {
    nearly.push_back(pushes.of_thousand(999));
    most.push_back(pushes.of_thousand(1000));
  }
  void report(bench::Report& to, const std::string& variant) {
    const auto add = [&](const char* metric, std::vector<double>& values) {
      std::sort(values.begin(), values.end());
      to.add("turn", variant, metric, bench::Rounds::median(values), "us", values[0]);
    };
    add("push-p999", nearly);
    add("push-longest", most);
  }
};

}  // namespace

void neighbours(bench::Report& report, Device device) {
  if (!report.wants("turn", "engine"))
    return;
  Engine engine(bench::launched(LaunchMode::batch));
  Items many(engine, device, 1), few(engine, device, 1);
  Longest of_many, of_few;
  const int rounds = report.options().smoke ? 2 : report.options().repeats;
  for (int round = -1; round < rounds; ++round) {
    Pushes by_many, by_few;
    std::atomic<bool> over{false};
    std::thread endless([&, count = sized(report, 60000, 300)] {
      for (int i = 0; i < count; ++i)
        by_many.push(many);
      over.store(true);
    });
    do {
      for (int i = 0; i < 4; ++i)
        by_few.push(few);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } while (!over.load());
    endless.join();
    engine.wait_all();
    if (round < 0)
      continue;
    of_many.add(by_many);
    of_few.add(by_few);
  }
  of_many.report(report, "engine-many");
  of_few.report(report, "engine-few");
  many.check(report, "turn: many");
  few.check(report, "turn: few");
}

}  // namespace launch_rules
