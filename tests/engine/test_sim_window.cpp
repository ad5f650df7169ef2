// How far ahead of the GPU tasks are launched, on the simulated CUDA runtime.
#include <atomic>

#include "tests/engine/sim_run.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr int k_tasks = 12000;

/// On a GPU that does nothing until it is told to: a chain of tasks, each of which counts its launch.
struct Ahead {
  Sim sim{{.devices = 2, .manual = true}};
  std::atomic<int> launched{0}, ran{0};
  Engine engine;
  Var x = engine.new_var(), y = engine.new_var();

  explicit Ahead(LaunchMode launch) : engine({.workers = 1, .launch = launch}) {}
  void push(const Var& var, Priority priority = Priority::normal, bool capturable = true) {
    const Task task{
        .name = "step", .device = gpu(0), .access = {write(var)}, .priority = priority, .capturable = capturable};
    engine.push(task, [this](Queue queue) {
      ++launched;
      sim_launch(queue, [this] { ++ran; });
    });
  }
  void check_all_run(int tasks) {
    sim::set_manual(false);
    engine.wait_all();
    CHECK(ran == tasks);
  }
};

}  // namespace

TEST_CASE("T17: where tasks rest because the GPU is far behind, an urgent one is launched at once", "[sim]") {
  Ahead ahead(LaunchMode::direct);
  for (int i = 0; i < k_tasks; ++i)
    ahead.push(ahead.x);
  const int before = ahead.launched;
  CHECK(before < k_tasks);
  ahead.push(ahead.y, Priority::urgent);
  CHECK(ahead.launched == before + 1);
  ahead.check_all_run(k_tasks + 1);
}

TEST_CASE("Batches are launched some hundred ahead of the GPU, no more", "[sim]") {
  Ahead ahead(LaunchMode::batch);
  ahead.sim.keep_batches_open();
  for (int i = 0; i < 3 * k_tasks; ++i)
    ahead.push(ahead.x);
  CHECK(ahead.engine.counters().batches <= 512);
  ahead.check_all_run(3 * k_tasks);
}

TEST_CASE("T16: a GPU task that rests and becomes urgent for who waits behind it is launched at once", "[sim]") {
  Ahead ahead(LaunchMode::direct);
  for (int i = 0; i < k_tasks; ++i)
    ahead.push(ahead.x);
  ahead.push(ahead.y);
  const int before = ahead.launched;
  CHECK(before < k_tasks);
  ahead.engine.push({.name = "urgent", .access = {read(ahead.y)}, .priority = Priority::urgent}, [] {});
  CHECK(eventually([&] { return ahead.launched == before + 1; }));
  ahead.check_all_run(k_tasks + 1);
}
