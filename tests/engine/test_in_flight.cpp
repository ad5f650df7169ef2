// Bytes in flight: which memory counts, and that all of it is given back.
#include <atomic>
#include <stop_token>
#include <thread>
#include <vector>

#include <sluice/engine/coroutine.h>
#include <sluice/engine/parallel.h>

#include "tests/engine/expect.h"
#include "tests/engine/in_flight.h"
#include "tests/engine/policies.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Fails unless all is back.
void check_all_back(Engine& engine) {
  const EngineCounters counters = engine.counters();
  CHECK(counters.bytes_in_flight == 0);
  CHECK(counters.gpu_bytes_in_flight == 0);
}

}  // namespace

TEST_CASE("In flight: memory counts from the last handle to the last task, and no longer") {
  Engine engine({.workers = 1});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var order = engine.new_var();
  engine.push({.name = "gate", .access = {write(order)}}, [gate] { gate.wait(); });
  Var kept = engine.new_var({.bytes = 5 * k_block});
  engine.push({.name = "uses", .access = {write(order), out(kept)}}, [] {});
  CHECK(engine.counters().bytes_in_flight == 0);  // the program holds it still
  Var other = kept;
  kept = Var();
  CHECK(engine.counters().bytes_in_flight == 0);
  other = Var();
  CHECK(engine.counters().bytes_in_flight == 5 * k_block);
  for (int i = 0; i < 3; ++i)
    push_holder(engine, {.name = "holder", .access = {write(order)}}, [] {});
  CHECK(engine.counters().bytes_in_flight == 8 * k_block);
  gate.open();
  engine.wait_all();
  check_all_back(engine);
  CHECK(engine.counters().peak_bytes_in_flight == 8 * k_block);
  CHECK(engine.counters().rests == 0);
}

TEST_CASE("In flight: memory that no task uses when its last handle goes was never in flight") {
  Engine engine({.workers = 1});
  for (int i = 0; i < 100; ++i) {
    const Var memory = engine.new_var({.bytes = k_block});
    engine.push({.name = "uses", .access = {write(memory)}}, [] {});
    engine.wait(memory);
    engine.wait_all();
  }
  const Var unused = engine.new_var({.bytes = k_block});
  CHECK(engine.counters().peak_bytes_in_flight == 0);
}

TEST_CASE("In flight: less than a KiB is not counted, small blocks are, though threads tell of them late") {
  Engine engine({.workers = 2});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var order = engine.new_var();
  engine.push({.name = "gate", .access = {write(order)}}, [gate] { gate.wait(); });
  for (int i = 0; i < 1000; ++i)
    push_holder(
        engine, {.name = "tiny", .access = {read(order)}}, [] {}, 1023);
  CHECK(engine.counters().bytes_in_flight == 0);
  for (int i = 1; i <= 300; ++i) {
    push_holder(
        engine, {.name = "small", .access = {read(order)}}, [] {}, 1024);
    CHECK(engine.counters().bytes_in_flight == 1024u * static_cast<unsigned>(i));
  }
  gate.open();
  engine.wait_all();
  check_all_back(engine);
}

TEST_CASE("In flight: tasks that fail, are skipped, or are cancelled give their memory back") {
  Engine engine({.workers = 2});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var order = engine.new_var(), failed = engine.new_var();
  std::stop_source scope;
  engine.push({.name = "gate", .access = {write(order)}}, [gate] { gate.wait(); });
  push_holder(
      engine, {.name = "fails", .access = {read(order), write(failed)}}, [] { throw ValueError("on purpose"); });
  push_holder(engine, {.name = "skipped", .access = {read(failed)}}, [] {});
  TaskHandle one = push_holder(engine, {.name = "cancelled", .access = {read(order)}}, [] {});
  CHECK(one.cancel());
  push_holder(engine, {.name = "of a scope", .access = {read(order)}, .stop = scope.get_token()}, [] {});
  scope.request_stop();
  CHECK(engine.counters().bytes_in_flight == 4 * k_block);
  gate.open();
  CHECK_THROWS_AS(engine.wait_all(), ValueError);
  check_all_back(engine);
}

TEST_CASE("In flight: a push that is refused leaves nothing behind") {
  Engine engine({.workers = 1});
  const Var frozen = engine.new_var();
  engine.freeze(frozen);
  CHECK_THROWS_AS(push_holder(engine, {.name = "refused", .access = {write(frozen)}}, [] {}), ValueError);
  engine.stop();
  CHECK_THROWS_AS(push_holder(engine, {.name = "late"}, [] {}), EngineStopped);
  check_all_back(engine);
  CHECK(engine.counters().peak_bytes_in_flight == 0);
}

TEST_CASE("In flight: a coroutine body that waits holds its memory, and gives it back when it ends or is cancelled") {
  Engine engine({.workers = 1});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var order = engine.new_var();
  engine.push({.name = "gate", .access = {write(order)}}, [gate] { gate.wait(); });
  CHECK(gate.reached());
  const auto waits = [order]() -> Coroutine { co_await read(order); };
  push_holder(engine, {.name = "ends"}, waits);
  TaskHandle cancelled = push_holder(engine, {.name = "cancelled"}, waits);
  CHECK(engine.counters().bytes_in_flight == 2 * k_block);
  cancelled.cancel();
  gate.open();
  try {
    engine.wait_all();
  } catch (const Cancelled&) {
  }
  check_all_back(engine);
}

TEST_CASE("In flight: readers and writers of many threads come out even") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    Engine engine({.workers = 2, .cpu_policy = policy, .max_bytes_in_flight = 16 * k_block});
    std::vector<std::thread> pushers;
    for (int t = 0; t < 3; ++t) {
      pushers.emplace_back([&engine, t] {
        std::vector<Var> ring(5);
        for (int i = 0; i < 400; ++i) {
          Var& slot = ring[static_cast<std::size_t>(i) % ring.size()];
          slot = engine.new_var({.bytes = 1024u * static_cast<unsigned>(1 + (i * 7 + t) % 200)});
          engine.push({.name = "makes", .access = {out(slot)}}, [] {});
          const Var& earlier = ring[static_cast<std::size_t>(i * 3 + t) % ring.size()];
          if (earlier)
            engine.push({.name = "reads", .access = {read(earlier)}}, [] {});
        }
      });
    }
    for (std::thread& pusher : pushers)
      pusher.join();
    engine.wait_all();
    check_all_back(engine);
    CHECK(engine.counters().pushed == engine.counters().retired);
  }
}

TEST_CASE("In flight: what an engine that ends held is given back, whoever drops the last handle") {
  for (int round = 0; round < 100; ++round) {
    auto engine = std::make_unique<Engine>(EngineOptions{.workers = 1});
    Var memory = engine->new_var({.bytes = k_block});
    engine->push({.name = "uses", .access = {out(memory)}}, [] {});
    std::thread dropper([memory = std::move(memory)]() mutable { memory = Var(); });
    engine.reset();
    dropper.join();
  }
  SUCCEED("nothing of the engine was used after its end (see the sanitizers)");
}

TEST_CASE("In flight: tasks that hold more than the limit each still keep all workers at work") {
  Engine engine({.workers = 2, .max_bytes_in_flight = k_block});
  const Meeting meeting(2);
  std::atomic<int> met{0};
  for (int i = 0; i < 2; ++i)
    push_holder(
        engine, {.name = "large"}, [&, meeting] { met += meeting.join() ? 1 : 0; }, 4 * k_block);
  engine.wait_all();
  CHECK(met == 2);
  check_all_back(engine);
}

TEST_CASE("In flight: a push in a loop of a task does not rest, on no thread that helps in it") {
  Engine engine({.workers = 2, .max_bytes_in_flight = 2 * k_block});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var order = engine.new_var();
  std::atomic<int> pushed{0}, met{0};  // checks are for one thread
  engine.push({.name = "loop", .access = {write(order)}}, [&] {
    const Meeting both(2);
    parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
      met += both.join() ? 1 : 0;
      for (int i = 0; i < 20; ++i, ++pushed)
        push_holder(engine, {.name = "child", .access = {write(order)}}, [] {});
    });
  });
  engine.wait(order);
  engine.wait_all();
  CHECK(met == 2);
  CHECK(pushed == 40);
  CHECK(engine.counters().rests == 0);
  check_all_back(engine);
}
