// What regions refuse, how they fail, and what they do where CUDA does not let itself be captured.
#include <functional>
#include <stdexcept>
#include <stop_token>

#include "tests/engine/sim_region.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// What no region takes; the first ten are tasks named "guilty".
struct Refused {
  explicit Refused(Engine& engine) : engine(engine), inner(engine, gpu(0), "inner") { engine.freeze(frozen); }

  void push(Engine& to, Task task) {
    task.name = "guilty";
    to.push(task, [](Queue) {});
  }
  void push(Task task) {
    task.device = gpu(0);
    task.capturable = true;
    push(engine, std::move(task));
  }
  std::vector<std::function<void()>> cases() {
    return {
        [this] { push(engine, {.access = {write(x)}}); },
        [this] { push(engine, {.device = gpu(0), .access = {write(x)}}); },
        [this] { push(engine, {.device = gpu(1), .capturable = true}); },
        [this] { push(other, {.device = gpu(0), .capturable = true}); },
        [this] { push({.legacy_stream = true}); },
        [this] { push({.on_failed_input = OnFailedInput::run}); },
        [this] { push({.stop = stop.get_token()}); },
        [this] { push({.access = {read(foreign)}}); },
        [this] { push({.access = {Access{}}}); },
        [this] { push({.access = {write(frozen)}}); },
        [this] { engine.wait(x); },
        [this] { engine.wait_all(); },
        [this] { engine.flush(); },
        [this] { engine.stop(); },
        [this] { engine.clear_error(x); },
        [this] { (void)engine.async_wait(x); },
        [this] { earlier.wait(); },
        [this] { inner.run(1, [] {}); },
    };
  }

  Engine& engine;
  Engine other{{.workers = 1}};
  Var x = engine.new_var(), frozen = engine.new_var(), foreign = other.new_var();
  std::stop_source stop;
  TaskHandle earlier = engine.push({.name = "earlier"}, [] {});
  Region inner;
};

}  // namespace

TEST_CASE("A region refuses what it cannot replay, and has pushed nothing then", "[sim][region]") {
  Sim sim;
  Chain chain;
  Refused refused(chain.engine);
  Region region(chain.engine, gpu(0), "steps");
  chain.engine.wait_all();
  const std::uint64_t pushed = chain.engine.counters().pushed;
  int number = 0;
  for (const auto& guilty : refused.cases()) {
    for (const bool hidden : {false, true}) {
      CAPTURE(number, hidden);
      const std::string text = text_of_error([&] {
        region.run(1, [&] {
          chain.push(3);
          try {
            guilty();
          } catch (const ValueError&) {
            if (!hidden)
              throw;
          }
          chain.push(3);
        });
      });
      CHECK_THAT(text, contains("steps"));
      CHECK((number >= 10 || text.find("\"guilty\"") != std::string::npos));
    }
    ++number;
  }
  CHECK(chain.engine.counters().pushed == pushed);
  region.run(1, [&] { chain.push(3); });
  chain.engine.wait(chain.x);
  CHECK(chain.word == Chain::expected(1, 3));
}

TEST_CASE("What push_tasks throws passes through; handles of recorded tasks are empty", "[sim][region]") {
  Sim sim;
  Chain chain;
  Region region(chain.engine, gpu(0), "region");
  CHECK_THROWS_AS(
      region.run(
          1,
          [&] {
            chain.push(2);
            throw std::runtime_error("on purpose");
          }),
      std::runtime_error);
  TaskHandle handle;
  region.run(1, [&] { handle = push_append(chain.engine, chain.x, chain.word, 4); });
  CHECK_THROWS_AS(handle.wait(), ValueError);
  chain.engine.wait(chain.x);
  CHECK(chain.word == 4);
  CHECK_THROWS_AS(Region(chain.engine, cpu(), "region"), DeviceError);
  CHECK_THROWS_AS(Region(chain.engine, gpu(2), "region"), DeviceError);
  chain.engine.stop();
  CHECK_THROWS_AS(region.run(1, [] {}), EngineStopped);
}

TEST_CASE("A body that throws fails its region by name; the next run records again", "[sim][region]") {
  Sim sim;
  Chain chain;
  Engine& engine = chain.engine;
  Var y = engine.new_var(), z = engine.new_var();
  Word other = 0, third = 0;
  push_append(engine, z, third, 1);
  Region region(engine, gpu(0), "steps");
  int recorded = 0;
  bool fails = true;
  const auto run = [&] {
    region.run(1, [&] {
      ++recorded;
      chain.push(3);
      push_append(engine, y, other, 1, [&fails](Queue) {
        if (fails)
          throw std::runtime_error("on purpose");
      });
    });
  };
  run();
  expect_error<TaskFailed>(
      [&] { engine.wait(chain.x); },
      [](const TaskFailed& error) {
        CHECK_THAT(error.what(), contains("append"));
        CHECK_THAT(error.what(), contains("steps"));
        CHECK_THAT(error.what(), contains("on purpose"));
      });
  CHECK_THROWS_AS(engine.wait(y), TaskFailed);
  CHECK_NOTHROW(engine.wait(z));
  CHECK(region.counts().launched == 0);
  CHECK(chain.word == 0);
  fails = false;
  engine.clear_error(chain.x);
  run();  // y is still failed: skipped
  CHECK_THROWS_AS(engine.wait(chain.x), TaskFailed);
  CHECK(chain.word == 0);
  engine.clear_error(chain.x);
  engine.clear_error(y);
  run();
  run();
  engine.wait_all();
  CHECK(chain.word == Chain::expected(2, 3));
  CHECK(other == 4);
  CHECK(recorded == 2);
  CHECK(region.counts().captured == 1);
}

TEST_CASE("A region overwrites what its first task there overwrites, and reads the rest", "[sim][region]") {
  Sim sim;
  Chain chain;
  Engine& engine = chain.engine;
  Var y = engine.new_var(), failed = engine.new_var();
  engine.push({.name = "fails", .access = {out(failed)}}, [] { throw std::runtime_error("on purpose"); });
  Region region(engine, gpu(0), "region");
  const auto push = [&](AccessList access) {
    engine.push({.name = "step", .device = gpu(0), .access = std::move(access), .capturable = true}, [](Queue) {});
  };
  region.run(1, [&] {  // reads what failed
    push({read(failed), out(y)});
    push({out(failed)});
  });
  CHECK_THROWS_AS(engine.wait(y), TaskFailed);
  CHECK_THROWS_AS(engine.wait(failed), TaskFailed);
  region.run(2, [&] {
    push({out(failed), out(y)});
    push({read(failed), write(y)});
  });
  CHECK_NOTHROW(engine.wait(y));
  CHECK_NOTHROW(engine.wait(failed));
}

TEST_CASE("Tasks that cannot be captured are called one after the other, and recorded each time", "[sim][region]") {
  Sim sim;
  Chain chain;
  Region region(chain.engine, gpu(0), "region");
  int recorded = 0;
  for (int i = 0; i < 4; ++i) {
    region.run(1, [&] {
      ++recorded;
      push_append(chain.engine, chain.x, chain.word, 0);
      push_append(chain.engine, chain.x, chain.word, 1, spoil);
      push_append(chain.engine, chain.x, chain.word, 2);
    });
  }
  chain.engine.wait(chain.x);
  CHECK(chain.word == Chain::expected(4, 3));
  CHECK(recorded == 4);
  CHECK(region.counts().in_order == 4);
  CHECK(region.counts().captured == 0);
  CHECK(sim::calls("cudaStreamBeginCapture") == 1);
  CHECK(chain.engine.counters().failed == 0);
}

TEST_CASE("T49: what CUDA refuses a region is done without", "[sim][region]") {
  for (const char* call :
       {"cudaStreamCreateWithFlags",
        "cudaStreamBeginCapture",
        "cudaStreamUpdateCaptureDependencies",
        "cudaStreamGetCaptureInfo",
        "cudaStreamEndCapture",
        "cudaGraphGetNodes",
        "cudaGraphInstantiate",
        "cudaGraphExecUpdate",
        "cudaGraphLaunch"}) {
    for (const cudaError_t error : {cudaErrorUnknown, cudaErrorMemoryAllocation}) {
      CAPTURE(call, error);
      Sim sim;
      Chain chain;
      Region region(chain.engine, gpu(0), "region");
      for (int i = 0; i < 4; ++i) {
        if (i == 2)
          region.forget();
        if (i % 2 == 0)
          sim::fail_nth(call, 1, error);
        region.run(1, [&] { chain.push(6); });
        chain.engine.wait(chain.x);
        CHECK(chain.word == Chain::expected(i + 1, 6));
      }
      CHECK(chain.engine.counters().failed == 0);
    }
  }
}
