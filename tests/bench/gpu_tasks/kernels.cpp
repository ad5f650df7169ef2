#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/gpu_tasks/gpu_tasks_cuda.h"
#include "tests/bench/support/gpu_kernels.h"
#include "tests/bench/support/patterns.h"
#include "tests/bench/support/rounds.h"

namespace gpu_tasks {

using namespace sluice;
using bench::Contender;
using bench::GpuArray;
using bench::KernelStep;

namespace {

struct Graph {
  bench::Pattern pattern;
  std::vector<KernelStep> steps;

  explicit Graph(bench::Pattern from) : pattern(std::move(from)) {
    for (const bench::Step& step : pattern.steps) {
      KernelStep one{.target = step.target, .count = static_cast<int>(step.sources.size())};
      std::copy(step.sources.begin(), step.sources.end(), one.sources);
      steps.push_back(one);
    }
  }
};

/// The items of one contender. Each round goes on where the last one ended; so does the serial run of check().
class Items {
 public:
  explicit Items(const Graph& graph)
      : graph_(graph), there_(std::vector<std::uint64_t>(static_cast<std::size_t>(graph.pattern.items), 1)) {}

  std::uint64_t* begin_round() noexcept {
    ++rounds_;
    return there_.data();
  }
  void check(bench::Report& report, const std::string& what) const {
    std::vector<std::uint64_t> expected(static_cast<std::size_t>(graph_.pattern.items), 1);
    for (int round = 0; round < rounds_; ++round) {
      for (const bench::Step& step : graph_.pattern.steps)
        run_step(step, expected.data(), 0);
    }
    report.expect(there_.values() == expected, graph_.pattern.name + " " + what);
  }

 private:
  const Graph& graph_;
  GpuArray<std::uint64_t> there_;
  int rounds_ = 0;
};

class Way {
 public:
  explicit Way(const Graph& graph) : graph_(graph), items_(graph) {}
  virtual ~Way() = default;
  virtual std::string name() const = 0;
  virtual void push() = 0;
  virtual void finish() = 0;
  void check(bench::Report& report) const { items_.check(report, name()); }

 protected:
  const Graph& graph_;
  Items items_;
};

/// One stream, on which any graph is right; the least that CUDA takes.
class OneStream : public Way {
 public:
  using Way::Way;
  std::string name() const override { return "raw-1-stream"; }
  void push() override {
    std::uint64_t* items = items_.begin_round();
    for (const KernelStep& step : graph_.steps)
      bench::launch_step(stream_.get(), step, items);
    bench::check(cudaGetLastError(), "kernel launch");
  }
  void finish() override { bench::wait_for(stream_.get()); }

 protected:
  bench::StreamOwner stream_ = bench::new_stream();
};

/// The same with an event recorded after each kernel.
class OneStreamEvents final : public OneStream {
 public:
  explicit OneStreamEvents(const Graph& graph) : OneStream(graph) {
    for (bench::EventOwner& event : ring_)
      event = bench::new_event();
  }
  std::string name() const override { return "raw-1-stream-events"; }
  void push() override {
    std::uint64_t* items = items_.begin_round();
    std::size_t turn = 0;
    for (const KernelStep& step : graph_.steps) {
      bench::launch_step(stream_.get(), step, items);
      bench::check(cudaEventRecord(ring_[turn++ % ring_.size()].get(), stream_.get()), "cudaEventRecord");
    }
  }

 private:
  std::array<bench::EventOwner, 64> ring_;
};

/// Twenty kernels at a time captured in push order, the executable graph updated and launched: batches by hand, on one
/// stream, without asking what depends on what.
class CapturedByHand final : public OneStream {
 public:
  using OneStream::OneStream;
  std::string name() const override { return "raw-graph-update-20"; }
  void push() override {
    std::uint64_t* items = items_.begin_round();
    constexpr std::size_t k_batch = 20;
    for (std::size_t begin = 0; begin < graph_.steps.size(); begin += k_batch) {
      const std::size_t end = std::min(begin + k_batch, graph_.steps.size());
      cudaGraph_t raw = nullptr;
      bench::check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
      for (std::size_t i = begin; i < end; ++i)
        bench::launch_step(stream_.get(), graph_.steps[i], items);
      bench::check(cudaStreamEndCapture(stream_.get(), &raw), "cudaStreamEndCapture");
      launch(bench::GraphOwner(raw), execs_[end - begin == k_batch ? 0 : 1]);
    }
  }

 private:
  void launch(const bench::GraphOwner& graph, bench::GraphExecOwner& exec) {
    if (exec.get() == nullptr) {
      cudaGraphExec_t raw = nullptr;
      bench::check(cudaGraphInstantiate(&raw, graph.get(), 0), "cudaGraphInstantiate");
      exec = bench::GraphExecOwner(raw);
    } else {
      cudaGraphExecUpdateResultInfo info{};
      bench::check(cudaGraphExecUpdate(exec.get(), graph.get(), &info), "cudaGraphExecUpdate");
    }
    bench::check(cudaGraphLaunch(exec.get(), stream_.get()), "cudaGraphLaunch");
  }

  std::array<bench::GraphExecOwner, 2> execs_;  // of whole batches, of the last one
};

class Tasks final : public Way {
 public:
  Tasks(const Graph& graph, Device device, LaunchMode launch)
      : Way(graph), launch_(launch), device_(device), engine_(bench::launched(launch)) {
    for (int i = 0; i < graph.pattern.items; ++i)
      vars_.push_back(engine_.new_var({.home = device}));
  }
  std::string name() const override { return message("engine-", to_string(launch_)); }
  void push() override {
    std::uint64_t* items = items_.begin_round();
    for (const KernelStep& step : graph_.steps) {
      Task task{.name = "step", .device = device_, .access = {write(vars_[step.target])}, .capturable = true};
      for (int i = 0; i < step.count; ++i)
        task.access.push_back(read(vars_[step.sources[i]]));
      engine_.push(task, [&step, items](Queue queue) { bench::launch_step(queue.stream(), step, items); });
    }
  }
  void finish() override { engine_.wait_all(); }

 private:
  LaunchMode launch_;
  Device device_;
  Engine engine_;
  std::vector<Var> vars_;
};

}  // namespace

void kernels(bench::Report& report, const bench::GpuBench& bench, const Settings& settings) {
  const int n = settings.tasks;
  for (bench::Pattern& pattern : std::vector<bench::Pattern>{
           bench::chain(n),
           bench::independent(n),
           bench::stencil(n / 16),
           bench::fan_out(n / 9, 8),
           bench::random_graph(n)}) {
    const std::string workload = "kernels-" + pattern.name;
    const Graph graph(std::move(pattern));
    std::vector<std::unique_ptr<Way>> ways;
    ways.push_back(std::make_unique<OneStream>(graph));
    ways.push_back(std::make_unique<OneStreamEvents>(graph));
    ways.push_back(std::make_unique<CapturedByHand>(graph));
    for (const LaunchMode launch : bench.launches())
      ways.push_back(std::make_unique<Tasks>(graph, bench.device(), launch));
    std::vector<Contender> contenders;
    for (const auto& way : ways)
      contenders.push_back({way->name(), [&way] { way->push(); }, [&way] { way->finish(); }});
    bench::compare(report, workload, static_cast<double>(graph.steps.size()), "task", contenders);
    for (const auto& way : ways)
      way->check(report);
  }
}

}  // namespace gpu_tasks
