// What waiting costs in memory and power: bytes of a queued task, with a million behind one gate, and the CPU time that
// an engine without work burns.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <sluice/engine/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The gate is the pushing task itself: it writes what all others read, so none of them starts before it ends. A task
/// may push without limit, whatever limits an engine sets to threads outside.
void queued_tasks(bench::Report& report, int workers, int tasks, int accesses) {
  const std::string variant = message(accesses, accesses == 1 ? "-access" : "-accesses");
  if (!report.wants("queued-task", variant))
    return;
  Engine engine({.workers = workers});
  const Var gate = engine.new_var();
  std::vector<Var> vars(64);
  for (Var& var : vars)
    var = engine.new_var();
  std::vector<std::uint64_t> counts(vars.size(), 0);
  // One access: the tasks follow each other on the gate's Var. More: they read it and write Vars of their own.
  auto push_all = [&] {
    for (int i = 0; i < tasks; ++i) {
      const std::size_t mine = static_cast<std::size_t>(i) % vars.size();
      AccessList access{accesses == 1 ? write(gate) : read(gate)};
      if (accesses > 1)
        access.push_back(write(vars[mine]));
      for (std::size_t k = 2; k < static_cast<std::size_t>(accesses); ++k)
        access.push_back(read(vars[(mine + k) % vars.size()]));
      engine.push({.name = "queued", .access = access}, [&counts, mine] { ++counts[mine]; });
    }
  };
  const char* const rounds[] = {"first", "second"};  // the second finds the memory of the first
  for (const char* round : rounds) {
    const double before = resident_bytes();
    double grown = 0;
    const auto start = std::chrono::steady_clock::now();
    engine.push({.name = "gate", .access = {write(gate)}}, [&] {
      push_all();
      grown = resident_bytes() - before;
    });
    engine.wait(write(gate));
    engine.wait_all();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.add("queued-task", variant, std::string("bytes-") + round, grown / tasks, "B");
    report.add("queued-task", variant, std::string("time-") + round, seconds / tasks * 1e9, "ns");
    report.add("queued-task", variant, std::string("kept-") + round, (resident_bytes() - before) / tasks, "B");
  }
  std::uint64_t sum = 0;
  for (std::uint64_t count : counts)
    sum += count;
  report.expect(sum == 2 * static_cast<std::uint64_t>(tasks), "queued-task " + variant);
  report.expect(engine.counters().retired == engine.counters().pushed, "all tasks retired");
}

/// CPU time of the whole process while an engine that has worked before has nothing to do.
void idle(bench::Report& report, int workers, int seconds) {
  if (!report.wants("idle", "pool"))
    return;
  Engine engine({.workers = workers});
  const Var var = engine.new_var();
  for (int i = 0; i < 10000; ++i)
    engine.push({.name = "work", .access = {i % 2 == 0 ? read(var) : write(var)}}, [] {});
  engine.wait_all();
  report.expect(var.version() == 5000, "idle: the work before");
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const double burnt = cpu_seconds() - before;
  report.add("idle", message("pool-", engine.workers(), "w"), message("cpu-in-", seconds, "s"), burnt * 1e3, "ms");
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_memory", "Memory of queued tasks, and CPU time of an idle engine");
  int tasks = 1000000, workers = 0, accesses = 2;
  report.flag("--tasks", tasks, "Tasks behind the gate").range(1000, 100000000);
  // One setting a process: task records are recycled in the whole process, so a second one would seem to cost nothing.
  report.flag("--accesses", accesses, "Vars that each task names").range(1, 60);
  report.flag("--workers", workers, "CPU workers; 0 = as many as there are cores");
  if (!report.parse(argc, argv))
    return report.exit_code();
  if (report.options().smoke)
    tasks = 20000;
  queued_tasks(report, workers, tasks, accesses);
  idle(report, workers, report.options().smoke ? 2 : 10);
  return report.finish();
}
