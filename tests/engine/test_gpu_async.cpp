// Waits without a thread for work of a GPU.
#include <atomic>
#include <exception>
#include <thread>

#include "tests/engine/expect.h"
#include "tests/engine/gpu_work.h"
#include "tests/support/gate.h"
#include "tests/support/gate_cuda.h"

using namespace sluice;
using namespace sluice::test;

using PinnedWords = PinnedArray<std::uint64_t>;

namespace {

struct Told final : WaitObserver {
  void complete(std::exception_ptr given) noexcept override {
    error = given;
    ++count;
  }

  std::exception_ptr error;
  std::atomic<int> count{0};
};

/// Stores on the GPU once the gate is open.
TaskHandle push_gated_store(Engine& engine, const Var& x, const GpuGate& gate, std::uint64_t* word) {
  return engine.push({.name = "gated store", .device = gpu(0), .access = {write(x)}}, [gate, word](Queue queue) {
    gate.hold(queue.stream());
    enqueue_store(queue.stream(), word, 9);
  });
}

}  // namespace

TEST_CASE("A wait without a thread ends when the GPU is done, and holds up no later GPU task", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords words(2);
  Told told;
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  GpuGate gate;
  GpuGateOpensAtEnd opens(gate);
  push_gated_store(engine, x, gate, words.data());
  PendingWait(read(x), told).start();
  bool issued = false, ran = false;
  engine.push({.name = "later", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
    issued = true;
    enqueue_store(queue.stream(), &words[1], 1);
  });
  engine.push({.name = "beside"}, [&] { ran = true; }).wait();
  CHECK((issued && ran));
  CHECK(told.count == 0);
  CHECK_FALSE(gate.gave_up());
  gate.open();
  REQUIRE(eventually([&] { return told.count == 1; }));
  CHECK(told.error == nullptr);
  CHECK(words[0] == 9);
  engine.wait(x);
  CHECK(words[1] == 1);
}

TEST_CASE("T60: a coroutine body awaits a GPU while the only worker runs others; or is cancelled meanwhile", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  for (bool cancelled : {false, true}) {
    PinnedWords words(1);
    Engine engine({.workers = 1});
    Var x = engine.new_var(), y = engine.new_var();
    GpuGate gate;
    GpuGateOpensAtEnd opens(gate);
    push_gated_store(engine, x, gate, words.data());
    std::uint64_t seen = 0;
    TaskHandle handle = engine.push({.name = "awaits", .access = {write(y)}}, [&]() -> Coroutine {
      co_await x;
      seen = words[0];
    });
    int beside = 0;
    for (int i = 0; i < 100; ++i)
      engine.push({.name = "beside"}, [&] { ++beside; }).wait();
    CHECK(beside == 100);
    if (cancelled) {
      CHECK(handle.cancel());
      CHECK_THROWS_AS(handle.wait(), Cancelled);
      CHECK_FALSE(gate.gave_up());
    }
    gate.open();
    if (!cancelled)
      CHECK_NOTHROW(handle.wait());
    engine.wait(x);
    CHECK(seen == (cancelled ? 0u : 9u));
    CHECK(y.version() == (cancelled ? 0u : 1u));
    CHECK_FALSE(gate.gave_up());
  }
}

TEST_CASE("A kernel's bad index arrives at a wait without a thread", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Told told;
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  engine.push({.name = "bad index", .device = gpu(0), .access = {write(x)}}, [](Queue queue) {
    enqueue_bad_index(queue.stream(), queue.error_word(), 12, 10);
  });
  PendingWait(read(x), told).start();
  REQUIRE(eventually([&] { return told.count == 1; }));
  REQUIRE(told.error != nullptr);
  CHECK_THROWS_AS(std::rethrow_exception(told.error), IndexError);
  CHECK_THROWS_AS(engine.wait(x), IndexError);
}

TEST_CASE("An engine that ends waits for coroutine bodies that await a GPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  for (const CpuMode cpu_policy : {CpuMode::pool, CpuMode::serial}) {
    PinnedWords words(1);
    std::uint64_t seen = 0;
    {
      Engine engine({.cpu_policy = cpu_policy});
      Var x = engine.new_var();
      engine.push({.name = "store", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
        enqueue_store(queue.stream(), words.data(), 4, 20'000);
      });
      engine.push({.name = "awaits"}, [&seen, &words, x]() -> Coroutine {
        co_await x;
        seen = words[0];
      });
    }
    CHECK(seen == 4);
  }
}

TEST_CASE("On an executor of the application, CPU tasks follow GPU tasks and the reverse", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords words(2);
  std::uint64_t seen = 0;
  ExternalExecutor executor;
  executor.post = [](std::function<void()> work) { std::thread(std::move(work)).detach(); };
  Engine engine({.executor = executor});
  Var x = engine.new_var();
  std::uint64_t expected = 0, sum = 0;
  for (std::uint64_t round = 1; round <= 50; ++round) {
    sum += expected;
    expected = 3 * expected + round;
    engine.push({.name = "CPU", .access = {write(x)}}, [&, round] {
      seen += words[1];
      words[0] = round;
    });
    engine.push({.name = "GPU", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
      enqueue_combine(queue.stream(), &words[1], &words[0]);  // modulo 2^64
    });
  }
  engine.wait_all();
  CHECK(words[1] == expected);
  CHECK(seen == sum);
}
