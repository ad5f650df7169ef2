// A chain of branches in a plan, each between two elementwise operations of 4096 numbers: a traced cond ("plan"), the
// same where the side that is not taken cannot be part of a CUDA graph, so that on a GPU the host looks at each
// predicate ("host"), called as it stands ("by-hand"), and the taken sides alone without asking ("straight").
#include <functional>
#include <string>

#include <sluice/operator/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

constexpr std::int64_t k_numbers = 4096;

enum class Asks { by_itself, by_the_host, never };

NDArray branches(const NDArray& x, int count, Asks how) {
  NDArray y = x;
  for (int i = 0; i < count; ++i) {
    const NDArray before = y * 0.5;
    if (how == Asks::never) {
      y = tanh(before) + x;
      continue;
    }
    y = cond(
            sum(abs(before)) >= 0,
            [](const Arrays& in) { return Arrays{tanh(in[0])}; },
            [how](const Arrays& in) {
              return Arrays{how == Asks::by_itself ? in[0] - 1 : in[0].to(cpu()).to(in[0].device())};
            },
            {before})[0] +
        x;
  }
  return y;
}

void run_all(bench::Report& report) {
  const Device device = report.options().device;
  const NDArray x = random::uniform(-1, 1, {k_numbers}, {.device = device});
  const int steps = report.options().smoke ? 2 : 200;
  for (const int count : {1, 8, 32}) {
    const std::string workload = message("branches-", count);
    const auto time = [&](const std::string& variant, const std::function<NDArray()>& run) {
      if (!report.wants(workload, variant))
        return;
      NDArray last;
      const bench::Timing timing = report.time(
          steps, 2, [&] { last = run(); }, [] { Engine::current().wait_all(); });
      const double wanted = sum(branches(x, count, Asks::never)).item<double>(), got = sum(last).item<double>();
      report.expect(got == wanted, workload + " " + variant);
      report.add(workload, variant, "run", timing.median * 1e6, "us", timing.min * 1e6);
    };
    const auto planned = [&](const std::string& variant, Asks how) {
      graph::Tracer tracer;
      const NDArray input = tracer.input({x.shape(), x.dtype(), x.device()});
      graph::Plan plan(tracer.trace([&] { return Arrays{branches(input, count, how)}; }), {.keep_results = true});
      time(variant, [&] { return plan.run({&x, 1})[0]; });
    };
    planned("plan", Asks::by_itself);
    planned("host", Asks::by_the_host);
    planned("straight", Asks::never);
    time("by-hand", [&] { return branches(x, count, Asks::by_itself); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_control", "A chain of branches, in a plan and called as they stand");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    run_all(report);
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
