// What launches the open batch of GPU tasks, each by itself.
#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include <sluice/engine/interop.h>

#include "tests/engine/sim_run.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// A batch that nobody launches by itself, and what launches it.
class OpenBatch {
 public:
  OpenBatch() {
    sim_.keep_batches_open();
    for (int i = 0; i < k_tasks; ++i)
      push();
    REQUIRE(eventually([&] { return sim::idle(); }));
    before = ran;
    CHECK(before < k_tasks);  // the rest lies in the batch
  }
  TaskHandle push() {
    return engine.push(
        {.name = "count", .device = gpu(0), .access = {write(x)}, .capturable = true},
        [this](Queue queue) { sim_launch(queue, [this] { ++ran; }); });
  }
  bool launched() const {
    return eventually([this] { return ran >= k_tasks; });
  }

  static constexpr int k_tasks = 8;
  int before = 0;

 private:
  Sim sim_;

 public:
  std::atomic<int> ran{0};
  Engine engine{{.workers = 1}};
  const Var x = engine.new_var(), y = engine.new_var();
};

Coroutine await_var(Engine& engine, const Var& var, std::atomic<bool>& resumed) {
  co_await engine.async_wait(var);
  resumed = true;
}

using Trigger = std::pair<const char*, std::function<void(OpenBatch&)>>;

std::vector<Trigger> waits() {
  return {
      {"a wait for a Var of it", [](OpenBatch& open) { open.engine.wait(open.x); }},
      {"a wait for a handle", [](OpenBatch& open) { open.push().wait(); }},
      {"wait_all", [](OpenBatch& open) { open.engine.wait_all(); }},
      {"flush", [](OpenBatch& open) { open.engine.flush(); }},
      {"stop", [](OpenBatch& open) { open.engine.stop(); }},
      {"its size",
       [](OpenBatch& open) {
         for (int i = 0; i < 200; ++i)
           open.push();
       }},
  };
}

std::vector<Trigger> tasks_beside() {
  return {
      {"a CPU task behind it",
       [](OpenBatch& open) { open.engine.push({.name = "look", .access = {read(open.x)}}, [] {}); }},
      {"a task behind it that cannot be captured",
       [](OpenBatch& open) {
         open.engine.push({.name = "look", .device = gpu(0), .access = {read(open.x)}}, [](Queue queue) {
           sim_launch(queue, [] {});
         });
       }},
      {"an urgent task behind it",
       [](OpenBatch& open) {
         const Task task{
             .name = "look",
             .device = gpu(0),
             .access = {read(open.x)},
             .priority = Priority::urgent,
             .capturable = true};
         open.engine.push(task, [](Queue queue) { sim_launch(queue, [] {}); });
       }},
      {"a task behind it on the legacy stream",
       [](OpenBatch& open) {
         open.engine.push(
             {.name = "look", .device = gpu(0), .access = {read(open.x)}, .legacy_stream = true}, [](Queue) {});
       }},
  };
}

std::vector<Trigger> tasks_elsewhere() {
  return {
      {"a copy of what it writes",
       [](OpenBatch& open) {
         open.engine.push(
             {.name = "copy", .device = gpu(0), .access = {read(open.x)}, .stream = StreamKind::copy_out},
             [](Queue queue) { sim_launch(queue, [] {}); });
       }},
      {"a task of another GPU behind it",
       [](OpenBatch& open) {
         open.engine.push({.name = "look", .device = gpu(1), .access = {read(open.x)}}, [](Queue queue) {
           sim_launch(queue, [] {});
         });
       }},
      {"a foreign stream behind it",
       [](OpenBatch& open) {
         SimStream foreign;
         export_stream(open.engine, gpu(0), foreign.handle, {read(open.x)});
         import_stream(open.engine, gpu(0), foreign.handle, {read(open.x)});
       }},
      {"a coroutine that awaits it",
       [](OpenBatch& open) {
         std::atomic<bool> resumed{false};
         open.engine.push(
             {.name = "awaits", .access = {write(open.y)}}, [&] { return await_var(open.engine, open.x, resumed); });
         CHECK(eventually([&] { return resumed.load(); }));
       }},
  };
}

}  // namespace

TEST_CASE("T53: each of these launches the open batch by itself, and that it is not launched before is seen", "[sim]") {
  for (const auto& triggers : {waits(), tasks_beside(), tasks_elsewhere()}) {
    for (const auto& [name, act] : triggers) {
      CAPTURE(name);
      OpenBatch open;
      act(open);
      CHECK(open.launched());
    }
  }
}

TEST_CASE(
    "T53: a batch does not wait for the copy that a later task needs: it is launched before that task joins", "[sim]") {
  OpenBatch open;
  cudaStream_t copies = nullptr;
  const auto copy = [&] {
    const Task task{.name = "copy", .device = gpu(0), .access = {write(open.y)}, .stream = StreamKind::copy_in};
    open.engine.push(task, [&](Queue queue) {
      copies = static_cast<cudaStream_t>(queue.stream());
      sim::hold(copies);
      sim_launch(queue, [] {});
    });
  };
  copy();
  const Var z = open.engine.new_var();
  const Task behind{.name = "behind", .device = gpu(0), .access = {read(open.y), write(z)}, .capturable = true};
  open.engine.push(behind, [](Queue queue) { sim_launch(queue, [] {}); });
  CHECK(open.launched());  // while the copy stands still
  sim::release(copies);
  open.engine.wait_all();
}
