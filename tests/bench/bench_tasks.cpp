// What a CPU task costs: five task graphs of nearly empty tasks, pushed and awaited, results compared with a serial
// run.
#include <cstdint>
#include <cstdio>
#include <deque>
#include <limits>
#include <optional>
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

// What the serial run must give, so that a change of the patterns does not go unseen.
struct Pinned {
  int tasks;
  const char* pattern;
  std::uint64_t checksum;
};
constexpr Pinned k_pinned[] = {
    {200000, "independent", 0x0e24234cfa7dd940ULL},
    {200000, "chain", 0x15128576bb4fff48ULL},
    {200000, "stencil", 0x540e5f0461af56f3ULL},
    {200000, "fan-out", 0xe83f208c3f334f03ULL},
    {200000, "random", 0x1b4bf47edc917d8fULL},
    {3300, "independent", 0x65b2bbb48eff5b00ULL},
    {3300, "chain", 0x143a0dc9f6980913ULL},
    {3300, "stencil", 0x71b695df3e62b129ULL},
    {3300, "fan-out", 0xcbbcc080a29e25c7ULL},
    {3300, "random", 0xd907ec69729f6939ULL},
};

struct Variant {
  std::string name;
  int pushers = 1;
  int spin = 0;
  bool attached = false;
};

void push_part(Engine& engine, const Variant& variant, const Pattern& pattern, bench::Board& board) {
  std::optional<AttachScope> attached;
  if (variant.attached)
    attached.emplace(engine);
  push_all(engine, pattern, board, variant.spin);
  if (variant.attached)
    engine.wait_all();
}

void run_pattern(bench::Report& report, Engine& engine, const Variant& variant, const Pattern& pattern) {
  if (!report.wants(pattern.name, variant.name))
    return;
  std::deque<Board> boards;
  const bench::Timing timing = bench::time_on_boards(report, engine, pattern, variant.pushers, boards, [&](auto& all) {
    std::vector<std::thread> threads;
    for (int i = 1; i < variant.pushers; ++i)
      threads.emplace_back([&, i] { push_part(engine, variant, pattern, all[i]); });
    push_part(engine, variant, pattern, all[0]);
    for (std::thread& thread : threads)
      thread.join();
  });
  const double tasks = static_cast<double>(pattern.steps.size()) * variant.pushers;
  bench::expect_serial(report, pattern, boards, "tasks " + pattern.name + " " + variant.name);
  report.add(pattern.name, variant.name, "task", timing.median / tasks * 1e9, "ns", timing.min / tasks * 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_tasks", "Cost of a CPU task on five task graphs");
  int tasks = 200000, spin = 0, workers = 0, pushers = 1;
  report.flag("--tasks", tasks, "Tasks in a graph, about").range(33, 100000000);
  report.flag("--spin", spin, "Turns of a loop inside each task").range(0, std::numeric_limits<int>::max());
  report.flag("--workers", workers, "CPU workers of the engine; 0 = as many as there are cores");
  report.flag("--pushers", pushers, "Pushing threads, each with data of its own").range(1, 256);
  if (!report.parse(argc, argv))
    return report.exit_code();
  if (report.options().smoke)
    tasks = 3300;

  const std::vector<Pattern> patterns = bench::all_patterns(tasks);
  for (const Pinned& pinned : k_pinned) {
    for (const Pattern& pattern : patterns) {
      if (pinned.tasks == tasks && pattern.name == pinned.pattern)
        report.expect(bench::serial_checksum(pattern) == pinned.checksum, "serial run of " + pattern.name);
    }
  }
  for (const char* kind : {"serial", "pool", "attached"}) {
    const bool serial = std::string(kind) == "serial";
    Engine engine({.workers = workers, .cpu_policy = serial ? CpuMode::serial : CpuMode::pool});
    Variant variant{.name = kind, .pushers = pushers, .spin = spin, .attached = std::string(kind) == "attached"};
    if (!serial)
      variant.name += "-" + std::to_string(engine.workers()) + "w";
    if (pushers > 1)
      variant.name += "-" + std::to_string(pushers) + "p";
    for (const Pattern& pattern : patterns)
      run_pattern(report, engine, variant, pattern);
  }
  return report.finish();
}
