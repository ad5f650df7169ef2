// Regions: tasks recorded once and replayed as one graph, on the simulated CUDA runtime.
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "tests/engine/held.h"
#include "tests/engine/sim_region.h"
#include "tests/support/child.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("T55: a region records once, and each later run of its key is one launch", "[sim][region]") {
  Sim sim;
  Chain chain;
  Region region(chain.engine, gpu(0), "region");
  int recorded = 0;
  const auto run = [&] {
    region.run(7, [&] {
      ++recorded;
      chain.push(20);
    });
  };
  run();
  chain.engine.wait(chain.x);
  CHECK(chain.word == Chain::expected(1, 20));
  const std::uint64_t pushed = chain.engine.counters().pushed;
  sim::clear_calls();
  for (int i = 0; i < 9; ++i)
    run();
  chain.engine.wait(chain.x);
  CHECK(chain.word == Chain::expected(10, 20));
  CHECK(recorded == 1);
  CHECK(chain.engine.counters().pushed == pushed + 9);
  CHECK(sim::calls("cudaGraphLaunch") == 9);
  CHECK(sim::calls("cudaStreamBeginCapture") == 0);
  const RegionCounts counts = region.counts();
  CHECK(counts.captured == 1);
  CHECK(counts.instantiated == 1);
  CHECK(counts.updated == 0);
  CHECK(counts.launched == 10);
  CHECK(counts.in_order == 0);
}

TEST_CASE("T55: after forget() the same tasks with other addresses bring the executable up to date", "[sim][region]") {
  Sim sim;
  Chain chain;
  Word other = 0;
  Region region(chain.engine, gpu(0), "region");
  region.run(1, [&] { chain.push(5); });
  region.forget();
  region.run(1, [&] {
    for (Word i = 0; i < 5; ++i)
      push_append(chain.engine, chain.x, other, i);
  });
  region.run(1, [] {});
  chain.engine.wait(chain.x);
  CHECK(chain.word == Chain::expected(1, 5));
  CHECK(other == Chain::expected(2, 5));
  CHECK(region.counts().captured == 2);
  CHECK(region.counts().instantiated == 1);
  CHECK(region.counts().updated == 1);
  region.forget();
  region.run(1, [&] { chain.push(6); });  // other tasks
  chain.engine.wait(chain.x);
  CHECK(region.counts().instantiated == 2);
  CHECK(region.counts().updated == 1);
}

TEST_CASE("T55: eight keys are known; a ninth in turn is recorded each time", "[sim][region]") {
  Sim sim;
  for (const int keys : {8, 9}) {
    CAPTURE(keys);
    Chain chain;
    Region region(chain.engine, gpu(0), "region");
    int recorded = 0;
    Word expected = 0;
    for (int round = 0; round < 3; ++round) {
      for (int key = 0; key < keys; ++key) {
        region.run(static_cast<std::uint64_t>(key), [&] {
          ++recorded;
          push_append(chain.engine, chain.x, chain.word, static_cast<Word>(key));
        });
        expected = 3 * expected + static_cast<Word>(key);
      }
    }
    chain.engine.wait(chain.x);
    CHECK(chain.word == expected);
    CHECK(recorded == (keys == 8 ? 8 : 27));
    CHECK(region.counts().launched == static_cast<std::uint64_t>(3 * keys));
    CHECK(region.counts().instantiated <= 9);  // what was dropped is brought up to date
  }
}

TEST_CASE("A region without tasks, or whose tasks enqueue nothing, is a task all the same", "[sim][region]") {
  Sim sim;
  Chain chain;
  Region region(chain.engine, gpu(0), "region");
  for (int i = 0; i < 2; ++i) {
    region.run(1, [] {});
    region.run(2, [&] {
      chain.engine.push({.name = "empty", .device = gpu(0), .access = {write(chain.x)}, .capturable = true}, [] {});
    });
  }
  chain.engine.wait(chain.x);
  CHECK(chain.x.version() == 2);
  CHECK(sim::calls("cudaGraphLaunch") == 0);
}

TEST_CASE(
    "A region may go, or forget, before its tasks have begun and while their work is under way", "[sim][region]") {
  for (const bool forgets : {true, false}) {
    CAPTURE(forgets);
    Sim sim;
    Chain chain;
    auto region = std::make_unique<Region>(chain.engine, gpu(0), "region");
    region->run(1, [&] { chain.push(4); });
    chain.engine.wait(chain.x);
    sim::set_manual(true);
    region->run(1, [&] { chain.push(4); });  // launched, not done
    {
      Held held(chain.engine);
      chain.engine.push({.name = "joins", .access = {read(held.var), write(chain.x)}}, [] {});
      region->run(1, [&] { chain.push(4); });
      region->run(2, [&] { chain.push(4); });
      if (forgets)
        region->forget();
      else
        region.reset();
      sim::set_manual(false);
    }
    chain.engine.wait(chain.x);
    CHECK(chain.word == Chain::expected(4, 4));
  }
}

TEST_CASE("A region may outlive its engine", "[sim][region]") {
  Sim sim;
  std::unique_ptr<Region> region;
  {
    Chain chain;
    region = std::make_unique<Region>(chain.engine, gpu(0), "region");
    region->run(1, [&] { chain.push(4); });
  }
  CHECK(region->counts().launched == 1);
}

TEST_CASE("Several threads, and tasks, may run one region", "[sim][region]") {
  Sim sim;
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  Word sum = 0;
  Region region(engine, gpu(0), "region");
  const auto run = [&](Word key) {
    region.run(key, [&] {
      for (Word i = 0; i < 3; ++i) {
        engine.push({.name = "add", .device = gpu(0), .access = {write(x)}, .capturable = true}, [&, key](Queue queue) {
          sim_launch(queue, [&sum, key] { sum += key; });
        });
      }
    });
  };
  Word expected = 0;
  std::vector<std::thread> threads;
  for (Word thread = 0; thread < 4; ++thread) {
    for (Word i = 0; i < 40; ++i)
      expected += 2 * 3 * (1 + (thread + i) % 10);
    threads.emplace_back([&, thread] {
      for (Word i = 0; i < 40; ++i) {
        run(1 + (thread + i) % 10);
        engine.push({.name = "runs"}, [&, key = 1 + (thread + i) % 10] { run(key); });
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  engine.wait_all();
  CHECK(sum == expected);
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork of a process with threads

TEST_CASE("T33: a child that drops its parent's region, or has it forget, calls no CUDA", "[sim][region]") {
  const bool forgets = GENERATE(false, true);
  CAPTURE(forgets);
  Sim sim;
  Chain chain;
  auto region = std::make_unique<Region>(chain.engine, gpu(0), "region");
  region->run(1, [&] { chain.push(4); });
  chain.engine.wait_all();
  const int code = in_child([&] {
    const std::map<std::string, int> calls = sim::calls();
    if (forgets)
      region->forget();
    region.reset();
    return sim::calls() == calls ? 0 : 1;
  });
  CHECK(code == 0);
  region->run(1, [&] { chain.push(4); });
  chain.engine.wait(chain.x);
  CHECK(chain.word == Chain::expected(2, 4));
}

#endif

TEST_CASE("A Var that changes from run to run is named by each run, and not kept by the region", "[sim][region]") {
  Sim sim;
  Chain chain;
  Region region(chain.engine, gpu(0), "region");
  Word from = 0, to = 0;  // the same places each time, as the key says
  int recorded = 0;
  for (Word round = 1; round <= 5; ++round) {
    const std::vector<Var> changing{chain.engine.new_var(), chain.engine.new_var(), chain.engine.new_var()};
    chain.engine.push({.name = "set", .device = gpu(0), .access = {out(changing[1])}}, [&, round](Queue queue) {
      sim_launch(queue, [&from, round] { from = round; });
    });
    region.run(1, changing, [&] {
      ++recorded;
      chain.engine.push(
          {.name = "use", .device = gpu(0), .access = {read(changing[1]), out(changing[0])}, .capturable = true},
          [&](Queue queue) { sim_launch(queue, [&] { to = 10 * from; }); });
      push_append(chain.engine, chain.x, chain.word, 1);
    });
    chain.engine.wait(changing[0]);
    CHECK(to == 10 * round);
    CHECK(changing[0].version() == 1);
    CHECK(changing[1].version() == 1);
    CHECK(changing[2].version() == 0);
  }
  CHECK(recorded == 1);
  CHECK(chain.x.version() == 5);
  chain.engine.wait(chain.x);
  const std::vector<Var> few{chain.engine.new_var()};
  CHECK_THROWS_AS(region.run(1, few, [] {}), ValueError);
}
