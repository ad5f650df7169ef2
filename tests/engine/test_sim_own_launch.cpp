// Regions that their owners launch themselves, beside the engine's streams: on the simulated CUDA runtime.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <sluice/engine/detail/own_launch.h>

#include "tests/engine/sim_region.h"

using namespace sluice;
using namespace sluice::test;
using sluice::detail::OwnLaunch;

namespace {

/// A region that copies two words, which tasks write together, and then sets a flag.
struct Copier {
  Copier(Engine& engine, const Var& read_from, const Word (&words)[2])
      : engine(engine), region(engine, gpu(0), "copies"), own(engine.new_var()) {
    region.run(1, [&] {
      const Task task{.name = "copy", .device = gpu(0), .access = {read(read_from), write(own)}, .capturable = true};
      engine.push(task, [this, &words](Queue queue) {
        sim_launch(queue, [this, &words] {
          seen[0] = words[0];
          seen[1] = words[1];
          std::atomic_ref(flag).store(1, std::memory_order_release);
        });
      });
    });
    engine.wait(own);
    launch = OwnLaunch::of(engine, region, 1);
  }

  // False where it has to be done by tasks.
  bool run() {
    std::atomic_ref(flag).store(0, std::memory_order_relaxed);
    if (!launch->begin())
      return false;
    while (std::atomic_ref(flag).load(std::memory_order_acquire) == 0)
      std::this_thread::yield();
    launch->end();
    return true;
  }

  Engine& engine;
  Region region;
  Var own;
  Word seen[2] = {0, 0};
  std::uint64_t flag = 0;
  std::unique_ptr<OwnLaunch> launch;
};

void push_both(Engine& engine, const Var& var, Word (&words)[2], Word value) {
  engine.push(
      {.name = "writes both", .device = gpu(0), .access = {out(var)}, .capturable = true}, [&, value](Queue queue) {
        sim_launch(queue, [&words, value] {
          words[0] = value;
          std::this_thread::yield();
          words[1] = value;
        });
      });
}

}  // namespace

// Under ThreadSanitizer a launch that did not wait for a writer, or a writer that did not wait for it, is a race.
TEST_CASE("Launches of one's own and tasks that write what they read take turns", "[sim][own]") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Sim sim(seeded(seed));
    Word words[2] = {0, 0};
    Engine engine({.workers = 1});
    const Var x = engine.new_var();
    std::vector<std::unique_ptr<Copier>> copiers;
    for (int i = 0; i < 3; ++i)
      copiers.push_back(std::make_unique<Copier>(engine, x, words));
    std::atomic<bool> stop{false};
    std::atomic<int> mixed{0}, older{0}, launched{0};
    std::vector<std::thread> threads;
    for (const auto& copier : copiers) {
      threads.emplace_back([&, copier = copier.get()] {
        for (Word before = 0; !stop;) {
          if (!copier->run())
            continue;
          ++launched;
          mixed += copier->seen[0] != copier->seen[1];
          older += copier->seen[0] < before;
          before = copier->seen[0];
        }
      });
    }
    for (Word value = 1; value <= 40; ++value) {
      push_both(engine, x, words, value);
      engine.wait(x);
      for (const int seen = launched; launched < seen + 3;)
        std::this_thread::yield();
    }
    stop = true;
    for (std::thread& thread : threads)
      thread.join();
    CHECK(mixed == 0);
    CHECK(older == 0);
    CHECK(copiers[0]->run());
    CHECK(copiers[0]->seen[0] == 40);
    engine.wait_all();
  }
}

TEST_CASE("A launch of one's own does not begin where a task would have to wait, or would not run", "[sim][own]") {
  Sim sim({.devices = 2, .manual = false});
  Word words[2] = {0, 0};
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  Copier copier(engine, x, words);
  REQUIRE(copier.launch != nullptr);
  CHECK(copier.run());
  sim::set_manual(true);
  push_both(engine, x, words, 7);
  CHECK_FALSE(copier.launch->begin());  // the value is to come
  engine.flush();
  sim::set_manual(false);
  engine.wait(x);
  CHECK(copier.run());
  CHECK(copier.seen[1] == 7);
  engine.push({.name = "fails", .device = gpu(0), .access = {write(x)}}, [](Queue) { throw ValueError("no"); });
  CHECK_THROWS_AS(engine.wait(x), ValueError);
  CHECK_FALSE(copier.launch->begin());
  push_both(engine, x, words, 8);
  engine.wait(x);
  CHECK(copier.run());
  bool began_in_body = true;
  engine.push({.name = "asks"}, [&] { began_in_body = copier.launch->begin(); });
  engine.wait_all();
  CHECK_FALSE(began_in_body);
  engine.stop();
  CHECK_FALSE(copier.launch->begin());
  engine.restart();
  CHECK(copier.run());
  CHECK(copier.seen[0] == 8);
}

// What waits for the engine's work waits for these too, and a writer comes after them.
TEST_CASE("A launch of one's own that is under way is one of the engine's tasks", "[sim][own]") {
  Sim sim;
  Word words[2] = {1, 1};
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  Copier copier(engine, x, words);
  std::atomic_ref(copier.flag).store(0);
  REQUIRE(copier.launch->begin());
  std::atomic<bool> over{false}, written{false};
  engine.push({.name = "writes", .access = {write(x)}}, [&] { written = true; });
  std::thread waits([&] {
    engine.wait_all();
    over = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(written);
  CHECK_FALSE(over);
  CHECK(copier.launch->synchronize() == sluice::detail::LaunchEnd::over);
  copier.launch->end();
  waits.join();
  CHECK(written);
}
