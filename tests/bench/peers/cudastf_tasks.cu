// Peer of bench_gpu_tasks: CUDASTF, which also derives the order of tasks from what they read and write. Its graphs of
// empty tasks and its chain of kernels on two arrays.
// nvcc -O3 -std=c++17 -arch=sm_90 --expt-relaxed-constexpr --extended-lambda -I ROOT -I
// CCCL/{cudax,libcudacxx,cub,thrust}/
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <cuda/experimental/stf.cuh>

#include "tests/bench/support/stf_patterns.h"

namespace {

namespace stf = cuda::experimental::stf;
using Clock = std::chrono::steady_clock;

struct Settings {
  int width = 8, steps = 8, turns = 10, kernels = 10000, repeats = 7;
  std::string filter;
};

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess)
    return;
  std::fprintf(stderr, "cudastf_tasks: %s: %s\n", call, cudaGetErrorString(status));
  std::exit(1);
}

void report(const std::string& workload, const char* item, std::vector<double> microseconds) {
  std::sort(microseconds.begin(), microseconds.end());
  std::printf(
      "%-16s %-28s %-18s %12.4f us\n",
      workload.c_str(),
      "cudastf-stream",
      (std::string("wall-per-") + item).c_str(),
      microseconds[microseconds.size() / 2]);
  std::fflush(stdout);
}

// Times push(), which ends with its tasks done, and divides by `count`; the first two blocks warm up.
template <class Push>
std::vector<double> time_blocks(const Settings& settings, double count, Push push) {
  std::vector<double> microseconds;
  for (int i = -2; i < settings.repeats; ++i) {
    const auto start = Clock::now();
    push();
    const std::chrono::duration<double, std::micro> taken = Clock::now() - start;
    if (i >= 0)
      microseconds.push_back(taken.count() / count);
  }
  return microseconds;
}

template <class Context>
void wait(Context& context) {
  check(cudaStreamSynchronize(context.fence()), "cudaStreamSynchronize");
}

// As the stress program has it, but for the names of the tasks, which it formats inside the timed part.
void empty_tasks(const Settings& settings, const std::string& name) {
  const stf_patterns::Graph graph = stf_patterns::make_graph(name, settings.width, settings.steps);
  stf::stream_ctx context;
  std::vector<stf::logical_data<stf::slice<int>>> items;
  for (int i = 0; i < graph.items; ++i) {
    items.push_back(context.logical_data<int>(std::size_t{128}));
    context.task(items.back().write())->*[](cudaStream_t, auto) {};
  }
  wait(context);
  const double count = static_cast<double>(graph.tasks.size()) * settings.turns;
  report("empty-" + name, "task", time_blocks(settings, count, [&] {
           for (int turn = 0; turn < settings.turns; ++turn) {
             for (const stf_patterns::Task& each : graph.tasks) {
               auto task = context.task();
               task.add_deps(items[static_cast<std::size_t>(each.target)].rw());
               for (int source : each.sources)
                 task.add_deps(items[static_cast<std::size_t>(source)].read());
               task->*[](cudaStream_t) {};
             }
           }
           wait(context);
         }));
  context.finalize();
}

__global__ void exchange_kernel(stf::slice<double> x, stf::slice<double> y) {
  const std::size_t step = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < x.size(); i += step) {
    const double kept = x(i);
    x(i) = y(i);
    y(i) = kept;
  }
}

// Returns false if the arrays do not hold what an odd number of exchanges leaves.
bool kernel_chain(const Settings& settings) {
  constexpr int k_doubles = 16;
  double first[k_doubles], second[k_doubles];
  std::fill(first, first + k_doubles, 1.0);
  std::fill(second, second + k_doubles, 2.0);
  stf::stream_ctx context;
  auto x = context.logical_data(first), y = context.logical_data(second);
  const auto exchange = [&] {
    context.task(x.rw(), y.rw())->*[](cudaStream_t stream, auto here, auto there) {
      exchange_kernel<<<4, 16, 0, stream>>>(here, there);
    };
  };
  report("stf-kernel-chain", "kernel", time_blocks(settings, settings.kernels, [&] {
           for (int i = 0; i < settings.kernels; ++i)
             exchange();
           wait(context);
         }));
  exchange();
  context.finalize();
  const int before = (settings.repeats + 2) * settings.kernels % 2;
  return first[k_doubles - 1] == (before == 0 ? 2.0 : 1.0) && second[0] == (before == 0 ? 1.0 : 2.0);
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto number = [&](const char* name, int& value) {
      if (flag != name || i + 1 == argc)
        return false;
      value = std::atoi(argv[++i]);
      return true;
    };
    int tasks = 0;
    [[maybe_unused]] int samples = 0;  // of latencies, which are not measured here
    if (flag == "--filter" && i + 1 < argc) {
      settings.filter = argv[++i];
    } else if (flag == "--smoke") {
      settings.repeats = 1;
      settings.kernels = 100;
    } else if (number("--tasks", tasks)) {
      settings.kernels = 2 * tasks;
    } else if (
        !number("--width", settings.width) && !number("--steps", settings.steps) &&
        !number("--turns", settings.turns) && !number("--repeats", settings.repeats)) {
      std::fprintf(stderr, "flags: --width N --steps N --turns N --tasks N --repeats N --filter TEXT --smoke\n");
      std::exit(2);
    }
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  const auto wanted = [&](const std::string& workload) {
    return (workload + " cudastf-stream").find(settings.filter) != std::string::npos;
  };
  for (const char* name : stf_patterns::k_names) {
    if (wanted(std::string("empty-") + name))
      empty_tasks(settings, name);
  }
  if (wanted("stf-kernel-chain") && !kernel_chain(settings)) {
    std::fprintf(stderr, "cudastf_tasks: WRONG RESULT: stf-kernel-chain\n");
    return 1;
  }
  return 0;
}
