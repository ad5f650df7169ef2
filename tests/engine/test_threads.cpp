// Threads that the system does not give, and numbers of them that nobody can have.
#include <atomic>
#include <string>

#include <sluice/engine/detail/test_faults.h>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// While it lives, pools make no thread beyond so many.
class Shortage {
 public:
  explicit Shortage(int most) { detail::test_faults().most_workers = most; }
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;
  ~Shortage() { end(); }
  void end() { detail::test_faults().most_workers = 1 << 20; }
};

}  // namespace

TEST_CASE("An engine that can have no thread says so at the push, and runs later ones when it can") {
  Shortage shortage(0);
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  std::atomic<int> runs{0};
  const auto push = [&] { engine.push({.name = "one", .access = {write(x)}}, [&] { ++runs; }); };
  CHECK_THROWS_AS(push(), ThreadError);
  CHECK_THAT(text_of_error(push), contains("thread 1 of 2"));
  engine.wait(x);  // nothing was left half pushed
  engine.wait_all();
  CHECK(engine.counters().pushed == 0);
  shortage.end();
  push();
  engine.wait(x);
  CHECK(runs == 1);
  CHECK(x.version() == 1);
}

TEST_CASE("A thread that attached itself runs tasks where the engine can have none") {
  const Shortage shortage(0);
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  std::atomic<int> runs{0};
  const AttachScope attached(engine);
  for (int i = 0; i < 200; ++i)
    engine.push({.name = "one", .access = {write(x)}}, [&] { ++runs; });
  engine.wait(x);
  CHECK(runs == 200);
}

TEST_CASE("An engine that has fewer threads than it asked for runs all tasks on these") {
  const Shortage shortage(1);
  Engine engine({.workers = 3});
  std::atomic<int> runs{0};
  for (int i = 0; i < 500; ++i) {
    Var own = engine.new_var();
    engine.push({.name = "one", .access = {write(own)}}, [&] { ++runs; });
  }
  engine.wait_all();
  CHECK(runs == 500);
}

// What the body waits for lies behind a reader, which no wait runs itself.
TEST_CASE("A body that waits for what another thread has to run goes on once that can be had") {
  Shortage shortage(1);
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  std::atomic<bool> pushed{false}, ended{false};
  engine.push({.name = "waits"}, [&] {
    engine.push({.name = "reads", .access = {read(x)}}, [] {});
    engine.push({.name = "writes", .access = {write(x), write(y)}}, [] {});
    pushed = true;
    engine.wait(y);
    ended = true;
  });
  CHECK(eventually([&] { return pushed.load(); }));
  const std::uint64_t waits = engine.counters().waits;
  CHECK(eventually([&] { return engine.counters().waits > waits || ended || waits > 0; }));
  shortage.end();
  engine.wait_all();
  CHECK(ended);
}

TEST_CASE("More workers than a pool can have are refused, and so are tasks without a thread") {
  CHECK_THAT(text_of_error([] { Engine({.workers = 1025}); }), contains("workers = 1025"));
  Engine engine({.workers = 1024});  // which are made when there is work for them
  for (const int threads : {0, -3}) {
    CHECK_THROWS_AS(engine.push({.name = "none", .threads = threads}, [] {}), ValueError);
  }
  std::atomic<int> granted{0};
  engine.push({.name = "all", .threads = 100'000}, [&](Queue queue) { granted = queue.threads(); }).wait();
  CHECK(granted >= 1);
  CHECK(granted <= 1024);
}
