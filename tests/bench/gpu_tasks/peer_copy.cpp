// Large copies from one GPU to another: by way of the host, as the driver does it when nobody has connected the two,
// directly by hand, and arrays.
#include <array>
#include <deque>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/bench/gpu_tasks/gpu_tasks_cuda.h"
#include "tests/bench/support/rounds.h"

namespace gpu_tasks {

using namespace sluice;

namespace {

constexpr int k_copies = 8;  // in a row

/// By hand, between arrays of cudaMalloc.
struct CopiesByHand {
  std::size_t size;
  bench::StreamOwner stream;
  std::array<std::vector<bench::GpuArray<float>>, 2> arrays;

  explicit CopiesByHand(std::size_t count) : size(count) {
    for (int device = 1; device >= 0; --device) {
      const cuda::DeviceScope on(device);
      arrays[static_cast<std::size_t>(device)].emplace_back(count);
      stream = bench::new_stream();
    }
  }
  void push() const {
    const cuda::DeviceScope on(0);
    for (int i = 0; i < k_copies; ++i) {
      const cudaError_t status =
          cudaMemcpyPeerAsync(arrays[1][0].data(), 1, arrays[0][0].data(), 0, size * sizeof(float), stream.get());
      bench::check(status, "cudaMemcpyPeerAsync");
    }
  }
  void finish() const { bench::wait_for(stream.get()); }
};

struct Copied {
  Engine engine;
  NDArray from, to;

  Copied(LaunchMode launch, std::int64_t count) : engine(bench::launched(launch)) {
    const EngineScope scope(engine);
    from = full({count}, 3, {.device = gpu(0)});
    to = zeros({count}, {.device = gpu(1)});
    engine.wait_all();
  }
  void push() const {
    for (int i = 0; i < k_copies; ++i)
      copy_into(from, to);
  }
  bool good() {
    const EngineScope scope(engine);
    return sum(to).item<double>() == 3.0 * static_cast<double>(to.size());
  }
};

}  // namespace

void peer_copy(bench::Report& report, const bench::GpuBench& bench, const Settings& settings) {
  if (num_gpus() < 2)
    return;
  const std::int64_t count = settings.peer_bytes / static_cast<int>(sizeof(float));
  const CopiesByHand by_hand(static_cast<std::size_t>(count));
  const auto push = [&] { by_hand.push(); };
  const auto finish = [&] { by_hand.finish(); };
  bench::compare(report, "peer-copy", k_copies, "copy", {{"raw-not-connected", push, finish}});
  std::deque<Copied> engines;
  std::vector<bench::Contender> contenders{{"raw-connected", push, finish}};
  for (const LaunchMode launch : bench.launches()) {
    Copied& each = engines.emplace_back(launch, count);
    Storage::of(each.engine).connect(gpu(0), gpu(1));
    contenders.push_back(
        {message("arrays-", to_string(launch)), [&each] { each.push(); }, [&each] { each.engine.wait_all(); }});
  }
  bench::compare(report, "peer-copy", k_copies, "copy", contenders);
  for (Copied& each : engines)
    report.expect(!report.wants("peer-copy", "arrays-batch") || each.good(), "peer-copy");
}

}  // namespace gpu_tasks
