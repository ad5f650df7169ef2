// What an eager call costs where its arithmetic costs nothing: 16 floats an array, the results awaited once for many.
// On the CPU under both policies: serial (the pushing thread runs the bodies, so all of an operation is in one place
// to count instructions in, see count_eager.py) and pool with two workers; with --device gpu on that GPU.
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

struct Rows {
  bench::Report& report;
  std::string variant;
  int steps;
  Device device;

  // ns an operation; `last` holds the last result, all elements of which should be `expected`.
  template <class Step, class Last>
  void time(const std::string& workload, const Step& step, const Last& last, float expected) const {
    if (!report.wants(workload, variant))
      return;
    const bench::Timing timing = report.time(steps, 2000, step, [] { Engine::current().wait_all(); });
    report.add(workload, variant, "op", timing.median * 1e9, "ns", timing.min * 1e9);
    const NDArray result = last();
    const std::vector<float> values(static_cast<std::size_t>(result.size()), expected);
    report.expect(result.to_vector<float>() == values, workload + " " + variant);
  }

  void all() const {
    const NDArray a = ones({16}, {.device = device}), b = ones({16}, {.device = device});
    const NDArray square = ones({4, 4}, {.device = device}), row = ones({4}, {.device = device});
    NDArray variable = ones({16}, {.device = device});
    variable.attach_grad();
    NDArray c;
    const auto last = [&] { return c; };
    time(
        "add", [&] { c = a + b; }, last, 2);
    time(
        "add-recorded",
        [&] {
          const autograd::RecordScope record;
          c = variable + b;
        },
        last,
        2);
    time(
        "add-scalar", [&] { c = a + 1; }, last, 2);
    time(
        "add-row", [&] { c = square + row; }, last, 2);
    time(
        "sum", [&] { c = sum(a); }, last, 16);
    time(
        "exp-of-view", [&] { c = exp(a[0]); }, [&] { return c - c + 1; }, 1);
    hold(a, b);
  }

  // Results that the program holds until all are made, and drops together: more than any thread keeps at hand.
  void hold(const NDArray& a, const NDArray& b) const {
    if (!report.wants("add-held", variant))
      return;
    std::vector<NDArray> held;
    held.reserve(static_cast<std::size_t>(steps) + 2000);
    bool good = true;
    const bench::Timing timing = report.time(
        steps,
        2000,
        [&] { held.push_back(a + b); },
        [&] {
          Engine::current().wait_all();
          good = good && held.back().to_vector<float>() == std::vector<float>(16, 2);
          held.clear();
        });
    report.add("add-held", variant, "op", timing.median * 1e9, "ns", timing.min * 1e9);
    report.expect(good, "add-held " + variant);
  }
};

void on_cpu(bench::Report& report, const std::string& variant, int steps, CpuMode mode) {
  Engine engine({.workers = 2, .cpu_policy = mode});
  const EngineScope scope(engine);
  Rows{report, variant, steps, cpu()}.all();
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_eager", "What an eager call costs, in operations on 16 floats");
  int steps = 20000;
  report.flag("--steps", steps, "Operations a timed block").range(1, 10'000'000);
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    if (report.options().device.is_gpu()) {
      Rows{report, "gpu", steps, report.options().device}.all();
    } else {
      on_cpu(report, "serial", steps, CpuMode::serial);
      on_cpu(report, "pool", steps, CpuMode::pool);
    }
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
