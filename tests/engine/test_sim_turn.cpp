// How long a thread issues what others have pushed.
#include <atomic>
#include <thread>

#include "tests/engine/sim_run.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("A thread that pushes one GPU task does not issue without end what follows from others' pushes", "[sim]") {
  constexpr int k_many = 2000, k_turn = 256;
  for (const LaunchMode launch : {LaunchMode::direct, LaunchMode::batch}) {
    const Sim sim;
    Engine engine({.workers = 1, .launch = launch});
    const Var mine = engine.new_var(), theirs = engine.new_var();
    Gate began, all_pushed;
    std::atomic<int> by_me{0};
    std::thread pusher([&] {
      engine.push({.name = "one", .device = gpu(0), .access = {write(mine)}}, [&](Queue queue) {
        began.open();
        all_pushed.wait();
        sim_launch(queue, [] {});
      });
    });
    began.wait();
    const std::thread::id me = pusher.get_id();
    // One after the other: each becomes ready where the one before it is issued.
    for (int i = 0; i < k_many; ++i) {
      const Task task{
          .name = "many", .device = gpu(0), .access = {write(theirs)}, .capturable = launch == LaunchMode::batch};
      engine.push(task, [&, me](Queue queue) {
        if (std::this_thread::get_id() == me)
          ++by_me;
        sim_launch(queue, [] {});
      });
    }
    all_pushed.open();
    pusher.join();
    CHECK(by_me <= k_turn);
    engine.wait_all();
    CHECK(engine.counters().run == k_many + 1);
  }
}
