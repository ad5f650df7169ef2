// One thread pushes kernels for two GPUs in turn.
#include <array>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/gpu_tasks/gpu_tasks_cuda.h"
#include "tests/bench/support/gpu_kernels.h"
#include "tests/bench/support/rounds.h"

namespace gpu_tasks {

using namespace sluice;
using bench::Contender;

namespace {

constexpr int k_gpus = 2, k_chains = 4;  // on each GPU

/// A number for each chain on each GPU, counted up by every kernel.
struct Counts {
  std::array<std::vector<bench::GpuArray<float>>, k_gpus> words;

  Counts() {
    for (int gpu = 0; gpu < k_gpus; ++gpu) {
      const cuda::DeviceScope on(gpu);
      for (int chain = 0; chain < k_chains; ++chain)
        words[static_cast<std::size_t>(gpu)].emplace_back(std::vector<float>{0});
    }
  }
  float* at(int gpu, int chain) const {
    return words[static_cast<std::size_t>(gpu)][static_cast<std::size_t>(chain)].data();
  }
  bool all(float expected) const {
    for (const auto& of_gpu : words) {
      for (const bench::GpuArray<float>& word : of_gpu) {
        if (word.values()[0] != expected)
          return false;
      }
    }
    return true;
  }
};

/// Launched by hand on a stream for each GPU, by one thread or by a thread for each.
struct ByHand {
  Counts counts;
  std::array<bench::StreamOwner, k_gpus> streams;

  ByHand() {
    for (int gpu = 0; gpu < k_gpus; ++gpu) {
      const cuda::DeviceScope on(gpu);
      streams[static_cast<std::size_t>(gpu)] = bench::new_stream();
    }
  }
  cudaStream_t stream(int gpu) const { return streams[static_cast<std::size_t>(gpu)].get(); }
  void launch_on(int gpu, int kernels) const {
    const cuda::DeviceScope on(gpu);
    for (int i = 0; i < kernels; ++i)
      bench::launch_increment(stream(gpu), counts.at(gpu, i % k_chains));
  }
  void launch_by_two(int kernels) const {
    std::thread other([&] { launch_on(1, kernels); });
    launch_on(0, kernels);
    other.join();
  }
  void launch_in_turn(int kernels) const {
    const cuda::DeviceScope on(0);
    for (int i = 0; i < kernels; ++i) {
      for (int gpu = 0; gpu < k_gpus; ++gpu) {
        bench::check(cudaSetDevice(gpu), "cudaSetDevice");
        bench::launch_increment(stream(gpu), counts.at(gpu, i % k_chains));
      }
    }
  }
  void finish() const {
    for (int gpu = 0; gpu < k_gpus; ++gpu)
      bench::wait_for(stream(gpu));
  }
};

struct ByEngine {
  Counts counts;
  std::string variant;
  Engine engine;
  std::vector<Var> vars;

  explicit ByEngine(LaunchMode launch)
      : variant(message("engine-", to_string(launch))), engine(bench::launched(launch)) {
    for (int i = 0; i < k_gpus * k_chains; ++i)
      vars.push_back(engine.new_var());
  }
  void push(int kernels) {
    for (int i = 0; i < kernels; ++i) {
      for (int device = 0; device < k_gpus; ++device) {
        const int chain = i % k_chains;
        const Task task{
            .name = "increment",
            .device = gpu(device),
            .access = {write(vars[static_cast<std::size_t>(k_chains * device + chain)])},
            .capturable = true};
        float* const word = counts.at(device, chain);
        engine.push(task, [word](Queue queue) { bench::launch_increment(queue.stream(), word); });
      }
    }
  }
};

}  // namespace

void two_gpus(bench::Report& report, const bench::GpuBench& bench, const Settings& settings) {
  if (num_gpus() < k_gpus)
    return;
  const int kernels = settings.tasks / k_gpus / k_chains * k_chains;
  const ByHand by_one, by_two;
  std::deque<ByEngine> engines;
  for (const LaunchMode launch : bench.launches())
    engines.emplace_back(launch);
  int rounds = 0;
  std::vector<Contender> contenders{
      {"raw-1-thread", [&] { by_one.launch_in_turn(kernels); }, [&] { by_one.finish(); }, [&] { ++rounds; }},
      {"raw-2-threads", [&] { by_two.launch_by_two(kernels); }, [&] { by_two.finish(); }}};
  for (ByEngine& each : engines)
    contenders.push_back({each.variant, [&] { each.push(kernels); }, [&] { each.engine.wait_all(); }});
  bench::compare(report, "two-gpus", k_gpus * kernels, "kernel", contenders);
  for (const ByEngine& each : engines) {
    if (report.wants("two-gpus", each.variant) && report.wants("two-gpus", "raw-1-thread"))
      report.expect(each.counts.all(static_cast<float>(rounds * (kernels / k_chains))), "two-gpus " + each.variant);
  }
}

}  // namespace gpu_tasks
