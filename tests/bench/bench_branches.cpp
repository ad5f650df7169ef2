// Thirty-two chains of ten products and ten rectifications, each too small to fill a GPU, pushed naively: who finds out
// that they can run side by side? In the same run: one stream, eight streams by hand, and graphs of both.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <sluice/engine/region.h>
#include <sluice/operator/api.h>

#include "tests/bench/support/gpu_cuda.h"
#include "tests/bench/support/gpu_kernels.h"
#include "tests/bench/support/rounds.h"

namespace {

using namespace sluice;
using bench::Contender;
using bench::GpuArray;

constexpr int k_rows = 64, k_columns = 256, k_steps = 10;
constexpr std::size_t k_elements = k_rows * k_columns, k_weights = k_columns * k_columns;

/// Inputs, and what must come out.
struct Problem {
  int chains;
  std::vector<float> weights;
  std::vector<std::vector<float>> inputs;

  explicit Problem(int count) : chains(count) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < k_weights; ++i)
      weights.push_back(0.05F * normal(random));
    for (int chain = 0; chain < count; ++chain) {
      std::vector<float>& input = inputs.emplace_back();
      for (std::size_t i = 0; i < k_elements; ++i)
        input.push_back(normal(random));
    }
  }

  std::vector<float> expected(int chain) const {
    std::vector<float> x = inputs[static_cast<std::size_t>(chain)], y(k_elements);
    for (int step = 0; step < k_steps; ++step, x.swap(y)) {
      for (int row = 0; row < k_rows; ++row) {
        float* to = y.data() + row * k_columns;
        std::fill(to, to + k_columns, 0.0F);
        for (int k = 0; k < k_columns; ++k) {
          for (int column = 0; column < k_columns; ++column)
            to[column] += x[row * k_columns + k] * weights[k * k_columns + column];
        }
        for (int column = 0; column < k_columns; ++column)
          to[column] = std::max(to[column], 0.0F);
      }
    }
    return x;
  }
};

void check(bench::Report& report, const std::string& what, const std::vector<float>& got, const Problem& p, int chain) {
  const std::vector<float> expected = p.expected(chain);
  double worst = 0, scale = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    worst = std::isfinite(got[i]) ? std::max<double>(worst, std::abs(got[i] - expected[i])) : INFINITY;
    scale = std::max(scale, static_cast<double>(std::abs(expected[i])));
  }
  report.expect(worst <= 1e-4 * scale, message(what, ", chain ", chain));
}

/// Calls one(chain, step) for all, one chain after the other or all chains step by step.
template <class One>
void in_order(bool interleaved, int chains, One one) {
  for (int i = 0; i < chains * k_steps; ++i) {
    if (interleaved)
      one(i % chains, i / chains);
    else
      one(i / k_steps, i % k_steps);
  }
}

/// The arrays of kernels launched by us: a chain reads its input, then goes to and fro between two others.
struct Arrays {
  GpuArray<float> weights;
  std::vector<GpuArray<float>> inputs, evens, odds;

  explicit Arrays(const Problem& problem) : weights(problem.weights) {
    for (const std::vector<float>& input : problem.inputs) {
      inputs.emplace_back(input);
      evens.emplace_back(k_elements);
      odds.emplace_back(k_elements);
    }
  }
  float* to(int chain, int step) const {
    return (step % 2 == 0 ? evens : odds)[static_cast<std::size_t>(chain)].data();
  }
  const float* from(int chain, int step) const {
    return step == 0 ? inputs[static_cast<std::size_t>(chain)].data() : to(chain, step - 1);
  }
  std::vector<float> result(int chain) const { return odds[static_cast<std::size_t>(chain)].values(); }
};
static_assert(k_steps % 2 == 0);

class Way {
 public:
  virtual ~Way() = default;
  virtual std::string name() const = 0;
  virtual void push() = 0;
  virtual void finish() = 0;
  virtual std::vector<float> result(int chain) const = 0;
};

/// Launched by hand on some streams, as a whole captured once or not.
class ByHand final : public Way {
 public:
  ByHand(const Problem& problem, std::size_t streams, bool graph) : problem_(problem), arrays_(problem) {
    for (std::size_t i = 0; i < streams; ++i) {
      streams_.push_back(bench::new_stream());
      events_.push_back(bench::new_event());
    }
    if (!graph)
      return;
    launch();  // loads the kernels, which a capture might not
    finish();
    exec_ = bench::captured(main(), [this] { launch(); });
  }
  std::string name() const override {
    const char* plural = streams_.size() == 1 ? "-stream" : "-streams";
    return message(exec_.get() != nullptr ? "raw-graph-" : "raw-", streams_.size(), plural);
  }
  void push() override {
    if (exec_.get() != nullptr)
      bench::check(cudaGraphLaunch(exec_.get(), main()), "cudaGraphLaunch");
    else
      launch();
  }
  void finish() override { bench::wait_for(main()); }
  std::vector<float> result(int chain) const override { return arrays_.result(chain); }

 private:
  cudaStream_t main() const { return streams_[0].get(); }
  void launch() {
    for (std::size_t i = 1; i < streams_.size(); ++i)
      bench::order(main(), streams_[i].get(), events_[0]);
    in_order(false, problem_.chains, [&](int chain, int step) {
      cudaStream_t stream = streams_[static_cast<std::size_t>(chain) % streams_.size()].get();
      float* to = arrays_.to(chain, step);
      bench::launch_dense(stream, to, arrays_.from(chain, step), arrays_.weights.data(), k_rows, k_columns);
      bench::launch_relu(stream, to, k_elements);
    });
    for (std::size_t i = 1; i < streams_.size(); ++i)
      bench::order(streams_[i].get(), main(), events_[i]);
    bench::check(cudaGetLastError(), "kernel launch");
  }

  const Problem& problem_;
  Arrays arrays_;
  std::vector<bench::StreamOwner> streams_;
  std::vector<bench::EventOwner> events_;
  bench::GraphExecOwner exec_;
};

/// The same kernels, each a task that names its arrays.
class Tasks final : public Way {
 public:
  Tasks(const Problem& problem, Device device, LaunchMode launch, bool interleaved)
      : problem_(problem),
        name_(message("engine-", to_string(launch), interleaved ? "-by-step" : "-by-chain")),
        interleaved_(interleaved),
        device_(device),
        arrays_(problem),
        engine_(bench::launched(launch)) {
    for (int i = 0; i < 2 * problem.chains; ++i)
      vars_.push_back(engine_.new_var({.home = device}));
  }
  std::string name() const override { return name_; }
  void push() override {
    in_order(interleaved_, problem_.chains, [&](int chain, int step) {
      float* to = arrays_.to(chain, step);
      const float *from = arrays_.from(chain, step), *weights = arrays_.weights.data();
      const Var& here = var(chain, step);
      Task product{.name = "product", .device = device_, .access = {out(here)}, .capturable = true};
      if (step > 0)
        product.access.push_back(read(var(chain, step - 1)));
      engine_.push(product, [to, from, weights](Queue queue) {
        bench::launch_dense(queue.stream(), to, from, weights, k_rows, k_columns);
      });
      engine_.push({.name = "relu", .device = device_, .access = {write(here)}, .capturable = true}, [to](Queue queue) {
        bench::launch_relu(queue.stream(), to, k_elements);
      });
    });
  }
  void finish() override { engine_.wait_all(); }
  std::vector<float> result(int chain) const override { return arrays_.result(chain); }
  Engine& engine() noexcept { return engine_; }

 private:
  const Var& var(int chain, int step) const { return vars_[static_cast<std::size_t>(2 * chain + step % 2)]; }

  const Problem& problem_;
  std::string name_;
  bool interleaved_;
  Device device_;
  Arrays arrays_;
  Engine engine_;
  std::vector<Var> vars_;
};

/// The tasks again, pushed once and then replayed as a region.
class Traced final : public Way {
 public:
  Traced(const Problem& problem, Device device)
      : tasks_(problem, device, LaunchMode::direct, false), region_(tasks_.engine(), device, "branches") {}
  std::string name() const override { return "engine-traced"; }
  void push() override {
    region_.run(0, [this] { tasks_.push(); });
  }
  void finish() override { tasks_.finish(); }
  std::vector<float> result(int chain) const override { return tasks_.result(chain); }

 private:
  Tasks tasks_;
  Region region_;
};

/// What a user writes: arrays and operators.
class Eager final : public Way {
 public:
  Eager(const Problem& problem, Device device, LaunchMode launch, bool interleaved)
      : problem_(problem),
        name_(message("arrays-", to_string(launch), interleaved ? "-by-step" : "-by-chain")),
        interleaved_(interleaved),
        engine_(bench::launched(launch)) {
    const EngineScope scope(engine_);
    weights_ = array(problem.weights, {k_columns, k_columns}, device);
    for (const std::vector<float>& input : problem.inputs)
      inputs_.push_back(array(input, {k_rows, k_columns}, device));
    results_.resize(inputs_.size());
  }
  std::string name() const override { return name_; }
  void push() override {
    const EngineScope scope(engine_);
    in_order(interleaved_, problem_.chains, [&](int chain, int step) {
      NDArray& x = results_[static_cast<std::size_t>(chain)];
      x = relu(matmul(step == 0 ? inputs_[static_cast<std::size_t>(chain)] : x, weights_));
    });
  }
  void finish() override { engine_.wait_all(); }
  std::vector<float> result(int chain) const override {
    return results_[static_cast<std::size_t>(chain)].to_vector<float>();
  }

 private:
  const Problem& problem_;
  std::string name_;
  bool interleaved_;
  Engine engine_;
  NDArray weights_;
  std::vector<NDArray> inputs_, results_;
};

/// The same program traced once, its inputs being constants, and run as a plan.
class Planned final : public Way {
 public:
  Planned(const Problem& problem, Device device) : engine_(bench::launched(LaunchMode::direct)) {
    const EngineScope scope(engine_);
    const NDArray weights = array(problem.weights, {k_columns, k_columns}, device);
    graph::Tracer tracer;
    plan_ = std::make_unique<graph::Plan>(tracer.trace([&] {
      sluice::Arrays results;
      for (const std::vector<float>& input : problem.inputs) {
        NDArray x;
        {
          const CallSinkScope nobody(nullptr);
          x = array(input, {k_rows, k_columns}, device);
        }
        for (int step = 0; step < k_steps; ++step)
          x = relu(matmul(x, weights));
        results.push_back(x);
      }
      return results;
    }));
  }
  std::string name() const override { return "arrays-plan"; }
  void push() override { results_ = plan_->run({}); }
  void finish() override { engine_.wait_all(); }
  std::vector<float> result(int chain) const override {
    return results_[static_cast<std::size_t>(chain)].to_vector<float>();
  }

 private:
  Engine engine_;
  std::unique_ptr<graph::Plan> plan_;
  sluice::Arrays results_;
};

void branches(bench::Report& report, const bench::GpuBench& bench, const Problem& problem) {
  const std::string workload = message("branches-", problem.chains, "x", 2 * k_steps);
  std::vector<std::unique_ptr<Way>> ways;
  for (bool graph : {false, true}) {
    ways.push_back(std::make_unique<ByHand>(problem, 1, graph));
    ways.push_back(std::make_unique<ByHand>(problem, 8, graph));
  }
  for (const LaunchMode launch : bench.launches()) {
    for (bool interleaved : {false, true}) {
      ways.push_back(std::make_unique<Tasks>(problem, bench.device(), launch, interleaved));
      ways.push_back(std::make_unique<Eager>(problem, bench.device(), launch, interleaved));
    }
  }
  ways.push_back(std::make_unique<Traced>(problem, bench.device()));
  ways.push_back(std::make_unique<Planned>(problem, bench.device()));
  std::vector<Contender> contenders;
  for (const auto& way : ways)
    contenders.push_back({way->name(), [&way] { way->push(); }, [&way] { way->finish(); }});
  bench::compare(report, workload, 1, "round", contenders);
  for (const auto& way : ways) {
    if (!report.wants(workload, way->name()))
      continue;
    for (int chain : {0, problem.chains - 1})
      check(report, way->name(), way->result(chain), problem, chain);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_branches", "Independent chains of small kernels, pushed naively");
  bench::GpuBench gpu_bench(report);
  int chains = 32;
  report.flag("--chains", chains, "Chains").range(1, 10000).with_default();
  if (!report.parse(argc, argv))
    return report.exit_code();
  if (!gpu_bench.begin())
    return gpu_bench.exit_code();
  try {
    branches(report, gpu_bench, Problem(report.options().smoke ? 3 : chains));
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
