// Bytes in flight of GPUs and of CPU tasks behind them, on the simulated CUDA runtime.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/engine/in_flight.h"
#include "tests/engine/sim_run.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr std::uint64_t k_mib = std::uint64_t{1} << 20;

/// A task of a GPU, whose memory nobody else holds.
void push_kernel(Engine& engine, Task task, std::atomic<int>& done, std::uint64_t bytes = k_mib) {
  if (task.device.is_cpu())
    task.device = gpu(0);
  push_holder(
      engine, task, [&done](Queue queue) { sim_launch(queue, [&done] { ++done; }); }, bytes);
}

}  // namespace

TEST_CASE("In flight: a GPU's memory is free to be used again once its tasks are with the GPU", "[sim]") {
  for (const LaunchMode launch : {LaunchMode::direct, LaunchMode::batch}) {
    CAPTURE(to_string(launch));
    Sim sim({.devices = 2, .manual = true});
    sim.keep_batches_open();
    std::atomic<int> done{0};
    Engine engine({.workers = 1, .launch = launch, .max_gpu_bytes_in_flight = 40 * k_mib});
    const Var order = engine.new_var();
    for (int i = 0; i < 1000; ++i)
      push_kernel(engine, {.name = "kernel", .access = {write(order)}, .capturable = true}, done);
    engine.flush();
    CHECK(done == 0);
    CHECK(engine.counters().gpu_bytes_in_flight == 0);
    CHECK(engine.counters().peak_gpu_bytes_in_flight <= 41 * k_mib);  // a batch that is open is launched for it
    CHECK(engine.counters().bytes_in_flight == 0);
    sim::set_manual(false);
    engine.wait_all();
    CHECK(done == 1000);
  }
}

TEST_CASE("In flight: a pusher rests while tasks that wait for the CPU hold a GPU's memory", "[sim]") {
  Sim sim;
  std::atomic<int> done{0}, pushed{0};
  Engine engine({.workers = 1, .max_gpu_bytes_in_flight = 8 * k_mib});
  const Var order = engine.new_var(), other = engine.new_var();
  std::uint64_t held = 0;
  int seen = 0;
  std::atomic<bool> through{false};
  engine.push({.name = "loads", .access = {write(order)}}, [&] {
    compute_until([&] { return engine.counters().rests > 0 || through; });
    held = engine.counters().gpu_bytes_in_flight;
    seen = pushed;
  });
  for (; pushed < 100; ++pushed) {
    push_kernel(engine, {.name = "kernel", .access = {read(order)}}, done);
    push_kernel(engine, {.name = "on the other", .device = gpu(1), .access = {write(other)}}, done);
  }
  through = true;
  engine.wait_all();
  CHECK(held == 9 * k_mib);
  CHECK(seen == 9 - 1);  // the ninth of the first GPU is in, what comes after it rests
  CHECK(done == 200);
  CHECK(engine.counters().gpu_bytes_in_flight == 0);
}

TEST_CASE("In flight: the limit of a GPU comes from its memory, and a pusher behind a gate goes beyond it", "[sim]") {
  for (const auto& [memory, limit] : {std::pair{std::uint64_t{16} << 30, 256}, std::pair{std::uint64_t{1} << 30, 64}}) {
    Sim sim({.devices = 2, .memory = memory});
    std::atomic<int> done{0};
    Engine engine({.workers = 1});
    const QuietGate gate;
    const Var order = engine.new_var();
    engine.push({.name = "gate", .access = {write(order)}}, [gate] { gate.wait(); });
    int pushed = 0;
    for (; engine.counters().rests == 0 && pushed < 1000; ++pushed)
      push_kernel(engine, {.name = "kernel", .access = {read(order)}}, done);
    CHECK(pushed == limit + 2);
    gate.open();
    engine.wait_all();
    CHECK(done == pushed);
    CHECK(engine.counters().gpu_bytes_in_flight == 0);
  }
}

TEST_CASE("In flight: what others hold of a GPU's memory does not change the limit", "[sim]") {
  Sim sim({.devices = 2, .memory = std::uint64_t{16} << 30});
  void* of_others = nullptr;
  REQUIRE(cudaMalloc(&of_others, 256 * k_mib) == cudaSuccess);
  std::atomic<int> done{0};
  {
    Engine engine({.workers = 1});
    const QuietGate gate;
    const Var order = engine.new_var();
    engine.push({.name = "gate", .access = {write(order)}}, [gate] { gate.wait(); });
    int pushed = 0;
    for (; engine.counters().rests == 0 && pushed < 1000; ++pushed)
      push_kernel(engine, {.name = "kernel", .access = {read(order)}}, done);
    CHECK(pushed == 256 + 2);
    gate.open();
  }
  CHECK(cudaFree(of_others) == cudaSuccess);
}

TEST_CASE("In flight: a fence that has opened is no work that a pusher waits for", "[sim]") {
  Sim sim;
  std::atomic<int> done{0}, behind{0};
  Engine engine({.workers = 1, .max_bytes_in_flight = 64 << 10});
  const Var x = engine.new_var(), order = engine.new_var();
  push_kernel(engine, {.name = "kernel", .access = {write(x)}}, done);
  engine.push({.name = "after the GPU", .access = {read(x)}}, [] {});
  engine.wait_all();
  const QuietGate gate;
  engine.push({.name = "gate", .access = {write(order)}}, [gate] { gate.wait(); });
  // By steps of 32 MiB at least; were the GPU awaited still, one of them would take seconds, and the gate would open.
  for (int i = 0; i < 40; ++i)
    push_holder(
        engine, {.name = "behind", .access = {write(order)}}, [&] { ++behind; }, 32 * k_mib);
  CHECK(behind == 0);
  gate.open();
  engine.wait_all();
  CHECK(behind == 40);
}

TEST_CASE("In flight: a loop that runs ahead of a GPU rests for what CPU tasks behind the GPU hold", "[sim]") {
  Sim sim({.devices = 2, .manual = true});
  Engine engine({.workers = 2, .max_bytes_in_flight = 8 * k_mib});
  const Var result = engine.new_var({.home = gpu(0)});
  std::atomic<int> kernels{0}, read_out{0};
  std::atomic<std::uint64_t> most{0};
  std::atomic<bool> through{false};
  std::thread pusher([&] {
    for (int i = 0; i < 60; ++i) {
      push_kernel(engine, {.name = "step", .access = {write(result)}}, kernels);
      push_holder(
          engine,
          {.name = "looks at it", .access = {read(result)}},
          [&] {
            most = std::max(most.load(), engine.counters().bytes_in_flight);
            ++read_out;
          },
          k_mib);
    }
    through = true;
  });
  CHECK(eventually([&] { return engine.counters().rests > 0; }));
  CHECK(kernels == 0);
  most = engine.counters().bytes_in_flight;
  CHECK(eventually([&] {
    sim::run_one();
    return through.load();
  }));
  pusher.join();
  sim::set_manual(false);
  engine.wait_all();
  CHECK(most <= 9 * k_mib);
  CHECK(read_out == 60);
  CHECK(engine.counters().bytes_in_flight == 0);
}
