// A training step of GPT-2 (124 M parameters, vocabulary padded to 50304), bfloat16 by autocast with AdamW on float32
// weights: by hand and as one graph. The peer is peers/torch_gpt.py: same network, same numbers of tokens.
#include <cmath>
#include <cstdint>
#include <string>

#include <sluice/sluice.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

constexpr double k_gib = 1 << 30;

struct Sizes {
  std::int64_t batch, length, vocabulary;
  gluon::model_zoo::GPTOptions network;
};

Sizes sizes_of(bool smoke, std::int64_t batch) {
  if (smoke)
    return {2, 16, 61, {.vocabulary = 64, .length = 16, .units = 32, .layers = 2, .heads = 2, .dropout = 0}};
  return {batch, 1024, 50257, {.vocabulary = 50304, .dropout = 0}};
}

enum class How { eager, hybrid, hybrid_in_order };

std::string name_of(How how, double budget) {
  if (budget > 0)
    return message("hybrid-", budget, "MiB");
  return how == How::eager ? "eager" : how == How::hybrid ? "hybrid" : "hybrid-in-order";
}

void report_memory(bench::Report& report, const std::string& workload, const std::string& variant) {
  const MemoryStats memory = memory_stats(report.options().device);
  report.add(workload, variant, "peak-allocated", static_cast<double>(memory.peak_allocated) / k_gib, "GiB");
  report.add(workload, variant, "peak-reserved", static_cast<double>(memory.peak_reserved) / k_gib, "GiB");
}

// `budget`: MiB that results of a hybrid step may take; 0: as many as they take.
void train(bench::Report& report, const Sizes& sizes, How how, double budget = 0) {
  const bool hybrid = how != How::eager;
  const std::string workload = message("gpt2-124m-b", sizes.batch), variant = name_of(how, budget);
  if (!report.wants(workload, variant))
    return;
  const Device device = report.options().device;
  Engine::current().seed(7);
  gluon::model_zoo::GPT net(sizes.network);
  net.initialize(gluon::init::Normal(0.02), device);
  const auto tokens = [&] {
    return random::randint(0, sizes.vocabulary, {sizes.batch, sizes.length}, {.dtype = int64, .device = device});
  };
  const NDArray x = tokens(), labels = tokens();
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::AdamW({.learning_rate = 3e-4}));
  gluon::TrainStep as_graph(
      net,
      loss,
      trainer,
      {.plan =
           {.share_in_order = how == How::hybrid_in_order,
            .memory_budget = static_cast<std::size_t>(budget * (1 << 20))},
       .predictions = false});
  const auto step = [&] {
    const auto cast = amp::autocast(bfloat16);
    if (hybrid)
      return as_graph(x, labels).losses;
    NDArray losses;
    {
      const autograd::RecordScope record;
      losses = loss(net(x), labels);
    }
    losses.backward();
    trainer.step(sizes.batch);
    return losses;
  };
  const double before = mean(step()).item<double>();
  step();
  Engine::current().wait_all();
  Storage::of(Engine::current()).pool(device).reset_peaks();
  const bench::Timing timing =
      report.time(device.is_gpu() ? 5 : 1, device.is_gpu() ? 5 : 1, step, [] { Engine::current().wait_all(); });
  const double after = mean(step()).item<double>();
  report.expect(
      std::isfinite(after) && after < before,
      "the loss " + std::to_string(before) + " became " + std::to_string(after));
  const auto count = static_cast<double>(sizes.batch * sizes.length);
  report.add(workload, variant, "throughput", count / timing.median / 1e3, "Ktokens/s", count / timing.min / 1e3);
  report.add(workload, variant, "loss-before", before, "nats");
  report.add(workload, variant, "loss-after", after, "nats");
  report_memory(report, workload, variant);
  if (as_graph.plan() != nullptr) {
    const graph::Plan& plan = *as_graph.plan();
    report.add(workload, variant, "planned", static_cast<double>(plan.memory().bytes) / k_gib, "GiB");
    report.add(workload, variant, "nodes", static_cast<double>(plan.graph().nodes.size()), "nodes");
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_gpt", "A training step of GPT-2");
  std::int64_t batch = 32;
  bool tuned = false;
  report.flag("--batch", batch, "sequences of 1024 tokens").range(1, 4096);
  std::vector<double> budgets;
  report.flag("--memory-budget", budgets, "MiB that results of a hybrid step may take; any number of them")
      .range(0.001, 1e6);
  report.flag("--autotune", tuned, "choose algorithms by trial");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    if (tuned)
      set_autotune(Autotune::first_use);
    const Sizes sizes = sizes_of(report.options().smoke, batch);
    for (const How how : {How::eager, How::hybrid, How::hybrid_in_order})
      train(report, sizes, how);
    for (const double budget : budgets)
      train(report, sizes, How::hybrid, budget);
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
