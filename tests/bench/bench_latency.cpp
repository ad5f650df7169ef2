// How long a CPU task waits: an urgent one behind saturating normal load, the first one after idleness, and what a wait
// costs the waiting thread. Percentiles over single tasks.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/api.h>

#include "tests/bench/support/bench.h"
#include "tests/bench/support/metg.h"

namespace {

using namespace sluice;
using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration taken) {
  return std::chrono::duration<double, std::micro>(taken).count();
}

void report_percentiles(
    bench::Report& report, const std::string& workload, const std::string& variant, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t last = values.size() - 1;
  report.add(workload, variant, "p50", values[last / 2], "us", values.front());
  report.add(workload, variant, "p99", values[last * 99 / 100], "us", values.front());
}

/// Normal tasks of equal length on many Vars: there is always a backlog of ready ones.
class Load {
 public:
  Load(Engine& engine, std::int64_t turns) : engine_(engine), turns_(turns), wanted_(64 * engine.workers()) {
    for (int i = 0; i < 2 * wanted_; ++i)
      vars_.push_back(engine.new_var());
  }

  void refill() {
    while (static_cast<int>(pushed_ - done_.load(std::memory_order_relaxed)) < wanted_) {
      const Var& var = vars_[pushed_++ % vars_.size()];
      engine_.push({.name = "load", .access = {write(var)}}, [this] {
        task_grid::work(turns_);
        done_.fetch_add(1, std::memory_order_relaxed);
      });
    }
  }
  std::size_t pushed() const noexcept { return pushed_; }
  std::size_t done() const noexcept { return done_.load(std::memory_order_relaxed); }

 private:
  Engine& engine_;
  std::int64_t turns_;
  int wanted_;
  std::vector<Var> vars_;
  std::size_t pushed_ = 0;
  std::atomic<std::size_t> done_{0};
};

/// From push to the body's first line, of one task at a time while `body_us` long normal tasks keep all workers busy.
void under_load(
    bench::Report& report, Engine& engine, Priority priority, double body_us, double turns_a_us, int samples) {
  const std::string variant = message(
      priority == Priority::urgent ? "urgent" : "normal",
      "-body-",
      static_cast<int>(body_us),
      "us-",
      engine.workers(),
      "w");
  if (!report.wants("under-load", variant))
    return;
  Load load(engine, static_cast<std::int64_t>(body_us * turns_a_us));
  std::vector<double> waits;
  int starved = 0;
  const Var var = engine.new_var();
  for (int i = 0; i < samples; ++i) {
    load.refill();
    Clock::time_point started;
    std::size_t done = 0;
    const Clock::time_point pushed = Clock::now();
    engine
        .push(
            {.name = "probe", .access = {write(var)}, .priority = priority},
            [&] {
              started = Clock::now();
              done = load.done();
            })
        .wait();
    starved += done < load.pushed() ? 0 : 1;
    waits.push_back(microseconds(started - pushed));
  }
  engine.wait_all();
  report.expect(load.done() == load.pushed() && var.version() == static_cast<std::uint64_t>(samples), variant);
  report_percentiles(report, "under-load", variant, waits);
  if (priority == Priority::urgent)  // where the load ran out before the probe, it did not saturate
    report.add("under-load", variant, "samples-starved", starved, "of-" + std::to_string(samples));
}

/// From push to the body's first line when the workers have long gone to sleep.
void after_idleness(bench::Report& report, Engine& engine, int samples) {
  if (!report.wants("idle-to-first", "empty"))
    return;
  std::vector<double> waits, trips;
  const Var var = engine.new_var();
  for (int i = 0; i < samples; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Clock::time_point started;
    const Clock::time_point pushed = Clock::now();
    engine.push({.name = "first", .access = {write(var)}}, [&] { started = Clock::now(); });
    engine.wait(var);
    trips.push_back(microseconds(Clock::now() - pushed));
    waits.push_back(microseconds(started - pushed));
  }
  report.expect(var.version() == static_cast<std::uint64_t>(samples), "idle-to-first");
  report_percentiles(report, "idle-to-first", "push-to-body", waits);
  report_percentiles(report, "idle-to-first", "push-to-wait-end", trips);
}

/// The waiting thread's time: an empty task pushed and awaited at once, and a wait that finds nothing to wait for.
void waits(bench::Report& report, Engine& engine, const std::string& policy, int samples) {
  const Var var = engine.new_var();
  std::vector<double> by_var, by_handle, of_nothing;
  for (int i = 0; i < samples; ++i) {
    Clock::time_point start = Clock::now();
    engine.push({.name = "empty", .access = {write(var)}}, [] {});
    engine.wait(var);
    by_var.push_back(microseconds(Clock::now() - start));
    start = Clock::now();
    engine.push({.name = "empty", .access = {write(var)}}, [] {}).wait();
    by_handle.push_back(microseconds(Clock::now() - start));
    start = Clock::now();
    engine.wait(var);
    of_nothing.push_back(microseconds(Clock::now() - start));
  }
  report.expect(var.version() == 2 * static_cast<std::uint64_t>(samples), "wait " + policy);
  report_percentiles(report, "wait", policy + "-push-and-wait-var", by_var);
  report_percentiles(report, "wait", policy + "-push-and-handle", by_handle);
  report_percentiles(report, "wait", policy + "-nothing-pending", of_nothing);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_latency", "How long a CPU task waits before it runs, and what waiting costs");
  int workers = 0, samples = 2000;
  report.flag("--workers", workers, "CPU workers; 0 = all cores but the one of the pushing thread");
  report.flag("--samples", samples, "Tasks measured, each alone").range(10, 1000000);
  if (!report.parse(argc, argv))
    return report.exit_code();
  if (report.options().smoke)
    samples = 20;
  if (workers <= 0)
    workers = std::max(1, Engine().workers() - 1);

  const double turns_a_us = metg::plain_rate(1, report.options().smoke ? 0.001 : 0.05) * 1e-6;
  Engine engine({.workers = workers});
  for (double body_us : {10.0, 100.0}) {
    under_load(report, engine, Priority::urgent, body_us, turns_a_us, samples);
    under_load(report, engine, Priority::normal, body_us, turns_a_us, samples / 10);
  }
  after_idleness(report, engine, samples / 10);
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    if (!report.wants("wait", to_string(policy)))
      continue;
    Engine fresh({.workers = workers, .cpu_policy = policy});
    waits(report, fresh, to_string(policy), samples);
  }
  return report.finish();
}
