// Rules that say where batches begin and end, and whether there are any.
#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/bench/launch_rules/launch_rules_cuda.h"
#include "tests/bench/support/patterns.h"
#include "tests/bench/support/rounds.h"

namespace launch_rules {

using namespace sluice;
using bench::KernelStep;

namespace {

using Push = std::function<void(Items& items)>;

/// Times what `push` pushes, `count` tasks a round, until it has run. `anew`: each round has an engine of its own,
/// which has learnt nothing.
void time_tasks(
    bench::Report& report, Device device, const std::string& workload, int count, bool anew, const Push& push) {
  if (!report.wants(workload, "engine"))
    return;
  std::optional<Engine> engine;
  std::optional<Items> items;
  const auto prepare = [&] {
    if (engine && !anew)
      return;
    if (items)
      items->check(report, workload);
    items.reset();
    engine.emplace(bench::launched(LaunchMode::batch));
    items.emplace(*engine, device, 64);
  };
  bench::compare(
      report, workload, count, "task", {{"engine", [&] { push(*items); }, [&] { engine->wait_all(); }, prepare}});
  report.add(workload, "engine", "graphs-made", static_cast<double>(engine->counters().graphs_made), "graphs");
  items->check(report, workload);
}

KernelStep step_of(int target, const std::vector<int>& sources = {}) {
  KernelStep step{.target = target, .count = static_cast<int>(sources.size())};
  std::copy(sources.begin(), sources.end(), step.sources);
  return step;
}

/// Step i of a loop in which three branches leave one number, take three steps each and come back.
void push_branching(Items& items, int i) {
  constexpr unsigned k_microseconds = 8;  // the GPU falls behind
  const int at = i % 10;
  if (at == 9)
    items.push(step_of(0, {1, 2, 3}), {.name = "join", .microseconds = k_microseconds});
  else if (at < 3)
    items.push(step_of(1 + at, {0}), {.name = "fork", .microseconds = k_microseconds});
  else
    items.push(step_of(1 + at % 3), {.name = "advance", .microseconds = k_microseconds});
}

std::vector<KernelStep> random_steps(int count, unsigned seed) {
  std::vector<KernelStep> steps;
  for (const bench::Step& step : bench::random_graph(count, 64, seed).steps)
    steps.push_back(step_of(step.target, step.sources));
  return steps;
}

}  // namespace

void loops(bench::Report& report, Device device) {
  struct Loop {
    const char* workload;
    int size, turns;
    bool anew, branches;
  };
  // cut-long is longer than the cache of executables is for graphs that begin at each of its tasks.
  for (const Loop& loop :
       {Loop{"cut-first-50", 50, 40, true, false},
        Loop{"cut-first-77", 77, 40, true, false},
        Loop{"cut-long", 509, 30, false, false},
        Loop{"cut-branches", 130, 50, false, true}}) {
    const int turns = sized(report, loop.turns, 3);
    time_tasks(report, device, loop.workload, loop.size * turns, loop.anew, [&](Items& items) {
      for (int i = 0; i < loop.size * turns; ++i) {
        if (loop.branches)
          push_branching(items, i % loop.size);
        else
          items.push_next({.name = names()[static_cast<std::size_t>(i % loop.size)]});
      }
    });
  }
}

void always_new(bench::Report& report, Device device) {
  const int count = sized(report, 50000, 500);
  const std::vector<KernelStep> steps = random_steps(count, 7);
  std::mt19937 random(7);
  time_tasks(report, device, "always-new", count, false, [&](Items& items) {
    for (const KernelStep& step : steps)
      items.push(step, {.name = names()[random() % 8]});
  });
}

void spoilers(bench::Report& report, Device device) {
  const int count = sized(report, 10000, 160);
  time_tasks(report, device, "spoilers", count, false, [&](Items& items) {
    for (int i = 0; i < count; ++i)
      items.push_next({.name = i % 16 == 15 ? TaskName("spoiler") : TaskName("step"), .spoils = i % 16 == 15});
  });
}

}  // namespace launch_rules
