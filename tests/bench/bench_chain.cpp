// Ten elementwise operations in a row, with a number, a row and a column among their operands: one by one ("eager"),
// and as a plan in which they are one node ("fused") or ten ("plan"). With a reduction behind them that is a node of
// its own in these, and takes them in in a fourth ("reduced") where rules say that it pays; in a fifth ("all") always.
#include <cmath>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

// One function that is not cheap, tanh, and nine that are.
NDArray chain(const NDArray& x, const NDArray& y) {
  NDArray z = (x * 2.0 + y) * x;
  z = tanh(z - 0.5);
  z = maximum(z * y, x * 0.1);
  return z / (y * y + 1.0);
}

NDArray broadcast_chain(const NDArray& x, const NDArray& row, const NDArray& column) {
  const NDArray z = relu((x - row) * column + row);
  return z * z * 0.5 + x;
}

// Ten cheap ones of one array: what is read and written once sets the time.
NDArray chain_of_one(const NDArray& x) {
  NDArray z = relu(x * 1.5 + 0.25) * 0.5;
  z = maximum(z - 0.125, x) * x;
  return abs(z + 0.5) * 0.75;
}

struct Chain {
  bench::Report& report;
  std::string workload;
  std::int64_t n;
  int steps;
  Arrays inputs;
  Arrays (*run)(const Arrays& inputs);
  bool reduces = false;

  void time(const std::string& variant, const std::function<NDArray()>& step) const {
    if (!report.wants(workload, variant))
      return;
    NDArray last;
    const bench::Timing timing = report.time(
        steps, 2, [&] { last = step(); }, [] { Engine::current().wait_all(); });
    const double wanted = sum(run(inputs)[0]).item<double>(), got = sum(last).item<double>();
    report.expect(got == wanted, workload + " " + variant);
    report.add(workload, variant, "chain", timing.median * 1e3, "ms", timing.min * 1e3);
  }

  // Into an array that is there: a plan's results would be copied out of its memory.
  graph::Graph trace(const NDArray& result) const {
    const graph::Graph graph = graph::Tracer().trace([&] {
      copy_into(run(inputs)[0], result);
      return Arrays{};
    });
    return graph::with_direct_writes(graph);
  }

  void all() const {
    time("eager", [&] { return run(inputs)[0]; });
    const NDArray result = run(inputs)[0];
    const graph::Graph graph = trace(result), fused = graph::with_fused_pointwise(graph);
    time_plan("plan", graph, result);
    time_plan("fused", fused, result);
    if (reduces) {
      time_plan("reduced", graph::with_fused_reductions(fused), result);
      time_plan("all", graph::with_fused_reductions(fused, graph::TakenReductions::all), result);
    }
  }

  void time_plan(const std::string& variant, const graph::Graph& graph, const NDArray& result) const {
    // The inputs are the graph's constants: what comes of them alone would be kept, and not be computed each time.
    graph::Plan plan(graph, {.optimise = false, .keep_derived = false});
    time(variant, [&] {
      plan.run({});
      return result;
    });
  }
};

// All of them to one number, rows to a number each, columns to a number each.
void run_reduced(bench::Report& report, const std::string& size, int steps, const NDArray& x, const NDArray& y) {
  const std::int64_t n = x.size(), width = std::min<std::int64_t>(4096, n / 4);
  const NDArray table = x.reshape({n / width, width});
  const Arrays of_table{table, y.slice(0, 0, width), y.slice(0, 0, n / width).reshape({n / width, 1})};
  const auto chained = [&](const char* name, const Arrays& inputs, Arrays (*run)(const Arrays&)) {
    Chain{report, name + size, n, steps, inputs, run, true}.all();
  };
  chained("sum-", {x, y}, [](const Arrays& in) { return Arrays{sum(chain(in[0], in[1]))}; });
  chained("mean-", {x, y}, [](const Arrays& in) { return Arrays{mean(chain(in[0], in[1]))}; });
  chained("sum-one-", {x}, [](const Arrays& in) { return Arrays{sum(chain_of_one(in[0]))}; });
  chained("sum-square-", {x}, [](const Arrays& in) { return Arrays{sum(square(in[0]))}; });
  chained(
      "mean-rows-", of_table, [](const Arrays& in) { return Arrays{mean(broadcast_chain(in[0], in[1], in[2]), {1})}; });
  chained("mean-columns-", of_table, [](const Arrays& in) {
    return Arrays{mean(broadcast_chain(in[0], in[1], in[2]), {0})};
  });
  // What is reduced is read again.
  chained("centred-rows-", of_table, [](const Arrays& in) {
    const NDArray made = broadcast_chain(in[0], in[1], in[2]);
    return Arrays{made - mean(made, {1}, true)};
  });
  chained("centred-columns-", of_table, [](const Arrays& in) {
    const NDArray made = broadcast_chain(in[0], in[1], in[2]);
    return Arrays{made - mean(made, {0}, true)};
  });
  // Few terms a row: most lanes are idle.
  const NDArray narrow = x.slice(0, 0, n / 10 * 10).reshape({n / 10, 10});
  chained(
      "narrow-rows-", {narrow, y.slice(0, 0, 10), y.slice(0, 0, n / 10).reshape({n / 10, 1})}, [](const Arrays& in) {
        return Arrays{mean(broadcast_chain(in[0], in[1], in[2]), {1})};
      });
}

void run_all(bench::Report& report) {
  const Device device = report.options().device;
  const bool gpu = device.is_gpu();
  const auto size = [&](std::int64_t n) { return report.options().smoke ? std::min<std::int64_t>(n, 1 << 12) : n; };
  struct Size {
    const char* name;
    std::int64_t n;
    int steps;
  };
  for (const Size at :
       {Size{"1K", 1 << 10, 2000},
        {"64K", 1 << 16, 200},
        {"1M", 1 << 20, 20},
        {"16M", 1 << 24, 3},
        {"128M", 1 << 27, 3}}) {
    if (at.n > (1 << 24) && !gpu)
      continue;
    const std::int64_t n = size(at.n), width = 256;
    const NDArray x = random::uniform(-1, 1, {n}, {.device = device}),
                  y = random::uniform(0, 1, {n}, {.device = device});
    Chain{
        report,
        std::string("chain-") + at.name,
        n,
        at.steps,
        {x, y},
        [](const Arrays& in) { return Arrays{chain(in[0], in[1])}; }}
        .all();
    Chain{
        report,
        std::string("one-") + at.name,
        n,
        at.steps,
        {x},
        [](const Arrays& in) { return Arrays{chain_of_one(in[0])}; }}
        .all();
    const NDArray table = x.reshape({n / width, width});
    Chain{
        report,
        std::string("broadcast-") + at.name,
        n,
        at.steps,
        {table, y.slice(0, 0, width), y.slice(0, 0, n / width).reshape({n / width, 1})},
        [](const Arrays& in) { return Arrays{broadcast_chain(in[0], in[1], in[2])}; }}
        .all();
    run_reduced(report, at.name, at.steps, x, y);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_chain", "Ten elementwise operations in a row, one by one and as one");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    run_all(report);
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
