// How the engine's rate grows with threads: many pushers with Vars of their own, one pusher with many workers, and a
// Var that every task reads. `outside` pushers are threads beside all workers. `nested` pushers are tasks, so N of them
// and the N workers are the same threads; `bursts` are nested ones that push 256 tasks at a time and then themselves,
// so that the backlog stays in the cache.
#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/api.h>

#include "tests/bench/support/bench.h"
#include "tests/bench/support/board.h"

namespace {

using namespace sluice;
using bench::Board;
using bench::Pattern;

/// 1, 2, 4, ... and `most` itself.
std::vector<int> doubling(int most) {
  std::vector<int> counts;
  for (int n = 1; n < most; n *= 2)
    counts.push_back(n);
  counts.push_back(most);
  return counts;
}

enum class Pusher { outside, nested, bursts };

struct Setting {
  int pushers, workers;
  Pusher kind;

  std::string variant() const {
    if (kind == Pusher::outside)
      return message("outside-", pushers, "p-", workers, "w");
    return message(kind == Pusher::nested ? "nested-" : "bursts-", pushers, "p");
  }
};

/// Pushes steps [begin, end) of one pusher.
using PushSteps = std::function<void(int pusher, std::size_t begin, std::size_t end)>;

/// A task that pushes a burst, and then itself for the rest.
struct Burst {
  Engine& engine;
  const PushSteps& push;
  std::atomic<int>& unfinished;
  int pusher;
  std::size_t begin, end;

  void operator()() {
    const std::size_t stop = std::min(begin + 256, end);
    push(pusher, begin, stop);
    begin = stop;
    if (begin < end)
      engine.push({.name = "pusher"}, *this);
    else if (unfinished.fetch_sub(1) == 1)
      unfinished.notify_all();
  }
};

/// Has all pushers push `steps` steps each; returns when they have.
void from_pushers(Engine& engine, const Setting& setting, std::size_t steps, const PushSteps& push) {
  if (setting.kind == Pusher::outside) {
    std::vector<std::thread> threads;
    for (int i = 1; i < setting.pushers; ++i)
      threads.emplace_back([&, i] { push(i, 0, steps); });
    push(0, 0, steps);
    for (std::thread& thread : threads)
      thread.join();
  } else if (setting.kind == Pusher::nested) {
    std::vector<TaskHandle> handles;
    for (int i = 0; i < setting.pushers; ++i)
      handles.push_back(engine.push({.name = "pusher"}, [&push, i, steps] { push(i, 0, steps); }));
    for (TaskHandle& handle : handles)
      handle.wait();
  } else {
    std::atomic<int> unfinished{setting.pushers};
    for (int i = 0; i < setting.pushers; ++i)
      engine.push({.name = "pusher"}, Burst{engine, push, unfinished, i, 0, steps});
    for (int left = unfinished.load(); left > 0; left = unfinished.load())
      unfinished.wait(left);
    engine.wait_all();  // the last burst still touches `unfinished`
  }
}

void report_rate(
    bench::Report& report, const std::string& workload, const Setting& setting, bench::Timing timing, double tasks) {
  const std::string variant = setting.variant();
  report.add(workload, variant, "task", timing.median / tasks * 1e9, "ns", timing.min / tasks * 1e9);
  report.add(workload, variant, "rate", tasks / timing.median * 1e-6, "Mtasks/s", tasks / timing.min * 1e-6);
}

/// Each pusher pushes the whole pattern on Vars of its own.
void own_vars(bench::Report& report, const std::string& workload, const Pattern& pattern, const Setting& setting) {
  if (!report.wants(workload, setting.variant()))
    return;
  Engine engine({.workers = setting.workers});
  std::deque<Board> boards;
  const bench::Timing timing = bench::time_on_boards(report, engine, pattern, setting.pushers, boards, [&](auto& all) {
    from_pushers(engine, setting, pattern.steps.size(), [&](int i, std::size_t begin, std::size_t end) {
      bench::push_steps(engine, pattern, all[static_cast<std::size_t>(i)], 0, begin, end);
    });
  });
  bench::expect_serial(report, pattern, boards, workload + " " + setting.variant());
  report_rate(report, workload, setting, timing, static_cast<double>(pattern.steps.size()) * setting.pushers);
}

/// Every task reads one Var and writes one of its pusher's.
void hot_read(bench::Report& report, int tasks, const Setting& setting) {
  if (!report.wants("hot-read", setting.variant()))
    return;
  constexpr std::size_t k_vars = 64;
  Engine engine({.workers = setting.workers});
  const Var hot = engine.new_var();
  const std::uint64_t step = 3;
  const Pattern own{"own", static_cast<int>(k_vars), {}};
  std::deque<Board> boards;
  const bench::Timing timing = bench::time_on_boards(report, engine, own, setting.pushers, boards, [&](auto& all) {
    const auto steps = static_cast<std::size_t>(tasks);
    from_pushers(engine, setting, steps, [&](int pusher, std::size_t begin, std::size_t end) {
      Board& board = all[static_cast<std::size_t>(pusher)];
      for (std::size_t i = begin; i < end; ++i) {
        std::uint64_t* item = &board.items[i % k_vars];
        const Var& var = board.vars[i % k_vars];
        engine.push({.name = "reader", .access = {read(hot), write(var)}}, [item, &step] { *item += step; });
      }
    });
  });
  for (const Board& board : boards) {
    std::uint64_t sum = 0;
    for (std::uint64_t item : board.items)
      sum += item;
    report.expect(sum == k_vars + step * static_cast<std::uint64_t>(tasks), "hot-read " + setting.variant());
  }
  report_rate(report, "hot-read", setting, timing, static_cast<double>(tasks) * setting.pushers);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_scaling", "How the rate of empty CPU tasks grows with pushers and workers");
  int tasks = 100000, cores = 0;
  report.flag("--tasks", tasks, "Tasks of each pusher, about").range(64, 100000000);
  report.flag("--cores", cores, "The most threads to use; 0 = as many as there are cores");
  if (!report.parse(argc, argv))
    return report.exit_code();
  if (report.options().smoke)
    tasks = 1000;
  if (cores <= 0)
    cores = Engine().workers();

  const Pattern independent = bench::independent(tasks);
  for (int n : doubling(cores)) {
    const Setting settings[] = {{n, n, Pusher::bursts}, {n, n, Pusher::nested}, {n, cores, Pusher::outside}};
    for (const Setting& setting : settings)
      own_vars(report, "own-vars", independent, setting);
    for (const Setting& setting : settings)
      hot_read(report, tasks, setting);
  }
  for (int workers : doubling(std::max(1, cores - 1))) {
    for (const Pattern& pattern : bench::all_patterns(tasks))
      own_vars(report, "one-" + pattern.name, pattern, {1, workers, Pusher::outside});
  }
  return report.finish();
}
