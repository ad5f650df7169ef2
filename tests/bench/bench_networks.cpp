// ResNet-50 and DeepLabV3 in predict mode: by hand, as a graph, as a graph whose convolutions take batch norm,
// residuals and relu along, and that without keeping what comes of parameters alone; and a training step of ResNet-50,
// bfloat16 with weights kept in float32. With --weights FOLDER they are those, and the answers are compared with those,
// that peers/torch_networks.py wrote there.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sluice/sluice.h>

#include "tests/bench/networks/deeplab.h"
#include "tests/bench/networks/resnet.h"
#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;
namespace nn = gluon::nn;

double seconds_of(const std::function<void()>& what) {
  const auto start = std::chrono::steady_clock::now();
  what();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Variant {
  const char* name;
  bool hybrid;
  graph::PlanOptions plan = {};
};
const Variant k_variants[] = {
    {"eager", false},
    {"hybrid", true},
    {"hybrid-unkept", true, {.keep_derived = false}},
    {"hybrid-once", true, {.rounding = graph::Rounding::once}},
    {"hybrid-once-unkept", true, {.rounding = graph::Rounding::once, .keep_derived = false}},
};

// A network in predict mode, its input, what the peer answers and what exact numbers would give.
struct Predicting {
  std::string workload;
  std::shared_ptr<gluon::Block> net = {};
  NDArray x = {}, of_peer = {}, exact = {};
};

// Statistics and scales that are not what they begin with.
void scatter(const gluon::Block& net) {
  for (const auto& [name, parameter] : net.collect_params("gamma|beta|running_mean|running_var")) {
    const bool positive = name.ends_with("gamma") || name.ends_with("var");
    parameter.set_data(random::uniform(positive ? 0.5 : -0.2, positive ? 1.5 : 0.2, parameter.data().shape()));
  }
}

// The arrays "0", "1", ... are the parameters in the order of the layers, "x" goes in, "y" comes out, by the peer and
// "exact"ly.
void take_weights(Predicting& what, const std::filesystem::path& file, Device device) {
  const std::map<std::string, NDArray> arrays = load(file, device);
  std::size_t at = 0;
  for (const auto& [name, parameter] : what.net->collect_params())
    parameter.set_data(arrays.at(std::to_string(at++)).astype(parameter.dtype()));
  require(arrays.size() == at + 3, [&] {
    return message(file.string(), " has ", arrays.size(), " arrays, the network ", at, " parameters");
  });
  what.x = arrays.at("x").astype(what.x.dtype());
  what.of_peer = arrays.at("y");
  what.exact = arrays.at("exact");
}

// The largest difference, of the largest value.
double difference(const NDArray& a, const NDArray& b) {
  const NDArray x = a.astype(float32), y = b.astype(float32);
  return max(abs(x - y)).item<double>() / max(abs(y)).item<double>();
}

// Whoever rounds as often as the peer does may be off by twice as much.
void check_exact(bench::Report& report, const Predicting& what, const NDArray& y, const std::string& variant) {
  if (!what.exact.defined())
    return;
  const double off = difference(y, what.exact), of_peer = difference(what.of_peer, what.exact);
  report.expect(
      off <= 2 * of_peer + 1e-3,
      what.workload + " " + variant + " is off by " + std::to_string(off) + ", the peer by " + std::to_string(of_peer));
  report.add(what.workload, variant, "error", off, "of_max");
}

void run_variant(bench::Report& report, const Predicting& what, const NDArray& by_hand, const Variant& variant) {
  const auto& [workload, net, x, of_peer, exact] = what;
  const bool gpu = report.options().device.is_gpu();
  net->hybridize(variant.hybrid, {.plan = variant.plan});
  NDArray y;
  const double first = seconds_of([&] { (y = (*net)(x)).wait_to_read(); });
  // Of random weights half numbers may be off by much: what is exact tells then.
  const bool once = variant.plan.rounding == graph::Rounding::once;
  const double off = difference(y, by_hand), bound = x.dtype() == float32 ? 1e-4 : exact.defined() ? 1 : 1e-1;
  report.expect(
      once ? off < bound : off == 0, workload + " " + variant.name + " is off by " + std::to_string(off) + " of eager");
  check_exact(report, what, y, variant.name);
  const bench::Timing timing = report.time(
      gpu ? 100 : 2, gpu ? 30 : 1, [&] { y = (*net)(x); }, [] { Engine::current().wait_all(); });
  report.add(workload, variant.name, "forward", timing.median * 1e6, "us", timing.min * 1e6);
  const bench::Timing alone = report.time(
      gpu ? 50 : 1, 1, [&] { (*net)(x).wait_to_read(); }, [] {});
  report.add(workload, variant.name, "awaited", alone.median * 1e6, "us", alone.min * 1e6);
  report.add(workload, variant.name, "first", first, "s");
  if (const graph::Plan* const plan = net->hybrid_plan(); plan != nullptr && variant.hybrid)
    report.add(workload, variant.name, "nodes", static_cast<double>(plan->graph().nodes.size()), "nodes");
}

bool wants_any(const bench::Report& report, const std::string& workload) {
  return std::any_of(std::begin(k_variants), std::end(k_variants), [&](const Variant& variant) {
    return report.wants(workload, variant.name);
  });
}

void predict(
    bench::Report& report,
    const std::string& network,
    DType dtype,
    std::int64_t batch,
    const std::filesystem::path& weights) {
  const Device device = report.options().device;
  const bool smoke = report.options().smoke, is_deeplab = network == "deeplab";
  Predicting what{.workload = network + "-" + std::string(name_of(dtype)) + "-b" + std::to_string(batch)};
  if (!wants_any(report, what.workload))
    return;
  Engine::current().seed(7);
  const bench::ResNetOptions resnet{.blocks = smoke ? std::vector<int>{1, 1, 1} : std::vector<int>{3, 4, 6, 3}};
  const std::int64_t side = smoke ? 32 : is_deeplab ? 512 : 224;
  if (is_deeplab)
    what.net = bench::deeplab(resnet, side, device);
  else
    what.net = std::make_shared<nn::Sequential>(bench::resnet(resnet));
  what.net->initialize(gluon::init::Xavier(), device);
  what.net->cast(dtype);
  what.x = random::normal(0, 1, {batch, 3, side, side}, {.device = device}).astype(dtype);
  if (weights.empty())
    scatter(*what.net);
  else
    take_weights(what, weights / (what.workload + ".npz"), device);
  what.net->hybridize(false);
  const NDArray by_hand = (*what.net)(what.x);
  for (const Variant& variant : k_variants) {
    if (report.wants(what.workload, variant.name))
      run_variant(report, what, by_hand, variant);
  }
}

struct TrainingVariant {
  const char* name;
  bool hybrid;
  double budget = 0;  // MiB for results
};

// One step after the other on one batch, which it must learn.
void train(bench::Report& report, std::int64_t batch, const TrainingVariant& how) {
  const Device device = report.options().device;
  const bool smoke = report.options().smoke, gpu = device.is_gpu();
  const std::string workload = "resnet50-train-b" + std::to_string(batch), variant = how.name;
  if (!report.wants(workload, variant))
    return;
  Engine::current().seed(7);
  nn::Sequential net;
  net.add(bench::resnet({.blocks = smoke ? std::vector<int>{1, 1} : std::vector<int>{3, 4, 6, 3}}));
  net.add(nn::Lambda([](const NDArray& logits) { return logits.astype(float32); }));
  net.initialize(gluon::init::Xavier(), device);
  const std::int64_t side = smoke ? 32 : 224;
  const NDArray x = random::normal(0, 1, {batch, 3, side, side}, {.device = device}).astype(bfloat16);
  const NDArray labels = random::randint(0, 1000, {batch}, {.dtype = int64, .device = device});
  gluon::loss::SoftmaxCrossEntropyLoss loss;
  gluon::Trainer trainer(
      net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0.02, .momentum = 0.9, .wd = 1e-4}));
  const auto budget = static_cast<std::size_t>(how.budget * (1 << 20));
  gluon::TrainStep as_graph(net, loss, trainer, {.plan = {.memory_budget = budget}});
  const auto step = [&] {
    if (how.hybrid)
      return as_graph(x, labels).losses;
    NDArray losses;
    {
      autograd::RecordScope record;
      losses = loss(net(x), labels);
    }
    losses.backward();
    trainer.step(batch);
    return losses;
  };
  Storage::of(Engine::current()).pool(device).reset_peaks();
  double before = 0;
  const double first = seconds_of([&] { before = mean(step()).item<double>(); });
  const bench::Timing timing = report.time(gpu ? 10 : 1, gpu ? 8 : 1, step, [] { Engine::current().wait_all(); });
  double after = before;
  for (int i = 0; i < 10; ++i)
    after = mean(step()).item<double>();
  report.expect(
      std::isfinite(after) && after < before,
      "the loss " + std::to_string(before) + " became " + std::to_string(after));
  const auto images = static_cast<double>(batch);
  report.add(workload, variant, "throughput", images / timing.median, "img/s", images / timing.min);
  report.add(workload, variant, "first", first, "s");
  const auto gib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  const MemoryStats memory = memory_stats(device);
  report.add(workload, variant, "peak-allocated", gib(memory.peak_allocated), "GiB");
  report.add(workload, variant, "peak-reserved", gib(memory.peak_reserved), "GiB");
  if (as_graph.plan() != nullptr) {
    const graph::PlanMemory planned = as_graph.plan()->memory();
    report.expect(planned.bytes <= planned.bytes_without_budget, "a budget takes more memory than none");
    report.add(workload, variant, "planned", gib(planned.bytes), "GiB");
    report.add(workload, variant, "nodes", static_cast<double>(as_graph.plan()->graph().nodes.size()), "nodes");
  }
}

void train_all(bench::Report& report, std::int64_t batch, const std::vector<double>& budgets) {
  train(report, batch, {"eager", false});
  train(report, batch, {"hybrid", true});
  for (const double budget : budgets) {
    const std::string name = message("hybrid-", budget, "MiB");
    train(report, batch, {name.c_str(), true, budget});
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_networks", "ResNet-50 and DeepLabV3: predicting and a training step");
  bool tuned = false;
  std::string weights;
  std::int64_t batch = 256;
  report.flag("--autotune", tuned, "choose algorithms by trial");
  report.flag("--weights", weights, "folder that peers/torch_networks.py wrote").exists();
  report.flag("--batch", batch, "of the training step").range(1, 65536);
  std::vector<double> budgets;
  report.flag("--memory-budget", budgets, "MiB that results of a hybrid training step may take; any number of them")
      .range(0.001, 1e6);
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    const bool gpu = report.options().device.is_gpu();
    if (tuned)
      set_autotune(Autotune::first_use);
    if (gpu) {
      predict(report, "resnet50", float16, 1, weights);
      predict(report, "resnet50", float16, 32, weights);
      predict(report, "deeplab", float16, 1, weights);
    } else {
      predict(report, "resnet50", float32, 1, {});
      if (report.options().smoke)
        predict(report, "deeplab", float32, 1, {});
    }
    if (report.options().smoke)
      budgets.push_back(0.001);
    if (gpu || report.options().smoke || !budgets.empty())
      train_all(report, report.options().smoke ? 4 : batch, budgets);
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
