// Failures on a GPU: each blames its own task, and the device lives on.
#include "tests/engine/expect.h"
#include "tests/engine/gpu_work.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

using PinnedWords = PinnedArray<std::uint64_t>;

namespace {

/// Shows that the engine and the device still work.
void check_alive(Engine& engine) {
  PinnedWords word(1);
  Var x = engine.new_var();
  engine.push({.name = "alive", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
    enqueue_store(queue.stream(), word.data(), 3);
  });
  CHECK_NOTHROW(engine.wait(x));
  CHECK(word[0] == 3);
}

}  // namespace

TEST_CASE("A kernel's bad index is thrown as IndexError by waits for what it wrote, and by no other", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  engine.push({.name = "take", .device = gpu(0), .access = {write(x)}}, [](Queue queue) {
    enqueue_bad_index(queue.stream(), queue.error_word(), 1234, 77);
  });
  PinnedWords word(1);
  Var y = engine.new_var();
  engine.push({.name = "reads", .device = gpu(0), .access = {read(x), write(y)}}, [&](Queue queue) {
    enqueue_store(queue.stream(), word.data(), 1);
  });
  check_alive(engine);
  for (const Var& var : {x, y, x}) {
    expect_error<IndexError>(
        [&] { engine.wait(var); },
        [](const IndexError& error) {
          CHECK_THAT(error.what(), contains("1234") && contains("77") && contains("in task \"take\""));
          CHECK_THAT(error.what(), contains("test_gpu_errors.cpp"));
        });
  }
  CHECK_NOTHROW(engine.wait_all());
  check_alive(engine);
}

TEST_CASE("wait_all and a handle's wait throw a kernel's bad index, too", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Engine engine({.workers = 1});
  auto push_bad = [&] {
    return engine.push({.name = "take", .device = gpu(0)}, [](Queue queue) {
      enqueue_bad_index(queue.stream(), queue.error_word(), -5, 10);
    });
  };
  push_bad();
  CHECK_THAT(text_of_error([&] { engine.wait_all(); }), contains("-5"));
  CHECK_NOTHROW(engine.wait_all());
  TaskHandle handle = push_bad();
  CHECK_THROWS_AS(handle.wait(), IndexError);
  check_alive(engine);
}

TEST_CASE("T51: a launch that CUDA refuses blames the task that made it, and no other", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Engine engine({.workers = 1});
  Var before = engine.new_var(), bad = engine.new_var(), after = engine.new_var();
  PinnedWords word(1);
  engine.push({.name = "before", .device = gpu(0), .access = {write(before)}}, [&](Queue queue) {
    enqueue_append(queue.stream(), word.data(), 1);
  });
  engine.push({.name = "too many threads", .device = gpu(0), .access = {write(bad)}}, [](Queue queue) {
    enqueue_refused_launch(queue.stream());
  });
  engine.push({.name = "after", .device = gpu(0), .access = {write(before), write(after)}}, [&](Queue queue) {
    enqueue_append(queue.stream(), word.data(), 2);
  });
  expect_error<CudaError>(
      [&] { engine.wait(bad); },
      [](const CudaError& error) {
        CHECK_THAT(error.what(), contains("too many threads"));
        CHECK_THAT(error.what(), contains("test_gpu_errors.cpp"));
        CHECK(error.code() != 0);
      });
  CHECK_NOTHROW(engine.wait(before));
  CHECK_NOTHROW(engine.wait(after));
  CHECK(word[0] == 5);
  check_alive(engine);
}

TEST_CASE("T19: a GPU body that throws after its launches keeps its order, and its error its type", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords word(1);
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  bool descendant_ran = false;
  engine.push({.name = "halfway", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
    enqueue_store(queue.stream(), word.data(), 8, 3000);
    throw OutOfMemory("no workspace", 99);
  });
  engine.push(
      {.name = "descendant", .device = gpu(0), .access = {read(x), out(y)}}, [&](Queue) { descendant_ran = true; });
  expect_error<OutOfMemory>(
      [&] { engine.wait(y); },
      [](const OutOfMemory& error) {
        CHECK(error.requested() == 99);
        CHECK_THAT(error.what(), contains("halfway"));
      });
  CHECK_FALSE(descendant_ran);
  engine.push({.name = "overwrites", .device = gpu(0), .access = {out(x)}}, [&](Queue queue) {
    enqueue_append(queue.stream(), word.data(), 1);
  });
  CHECK_NOTHROW(engine.wait(x));
  CHECK(word[0] == 25);  // the launch before the throw came first
  engine.push({.name = "throws an int", .device = gpu(0), .access = {write(y)}}, [](Queue) { throw 5; });
  CHECK_THROWS_AS(engine.wait(y), OutOfMemory);
  engine.push({.name = "throws an int", .device = gpu(0), .access = {out(y)}}, [](Queue) { throw 5; });
  expect_error<TaskFailed>(
      [&] { engine.wait(y); }, [](const TaskFailed& error) { CHECK_THROWS_AS(error.rethrow_nested(), int); });
  check_alive(engine);
}

TEST_CASE("A failure crosses from CPU to GPU and back", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Engine engine({.workers = 1});
  Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
  bool ran = false;
  engine.push({.name = "on CPU", .access = {write(a)}}, [] { throw ValueError("from the CPU"); });
  engine.push({.name = "on GPU", .device = gpu(0), .access = {read(a), out(b)}}, [&](Queue) { ran = true; });
  engine.push({.name = "on CPU again", .access = {read(b), out(c)}}, [&] { ran = true; });
  CHECK_THAT(text_of_error([&] { engine.wait(c); }), contains("from the CPU"));
  CHECK_FALSE(ran);
  CHECK(engine.counters().skipped == 2);
  CHECK(engine.counters().failed == 1);
}

TEST_CASE("After out of memory on a GPU, caught and forgiven, training goes on from the last good weights", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords weights_value(1);
  Engine engine({.workers = 1});
  Var weights = engine.new_var(), loss = engine.new_var();
  auto step = [&](bool fits) {
    engine.push({.name = "forward", .device = gpu(0), .access = {read(weights), out(loss)}}, [fits](Queue) {
      if (!fits)
        throw OutOfMemory("batch too large", 4096);
    });
    engine.push({.name = "update", .device = gpu(0), .access = {read(loss), write(weights)}}, [&](Queue queue) {
      enqueue_append(queue.stream(), weights_value.data(), 1);
    });
  };
  step(true);
  step(false);
  expect_error<OutOfMemory>(
      [&] { engine.wait(weights); }, [&](const OutOfMemory& error) { CHECK(engine.forgive(error)); });
  CHECK_NOTHROW(engine.wait(weights));
  CHECK(weights_value[0] == 1);
  step(true);
  CHECK_NOTHROW(engine.wait(weights));
  CHECK(weights_value[0] == 4);
}

TEST_CASE("T30: a GPU task behind a closed gate can be cancelled; an issued one cannot", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  bool ran = false;
  engine.push({.name = "hold", .access = {write(x)}}, [gate] { gate.wait(); });
  TaskHandle queued =
      engine.push({.name = "unwanted", .device = gpu(0), .access = {read(x), out(y)}}, [&](Queue) { ran = true; });
  CHECK(queued.cancel());
  gate.open();
  CHECK_THROWS_AS(engine.wait(y), Cancelled);
  CHECK_FALSE(ran);
  TaskHandle issued = engine.push({.name = "issued", .device = gpu(0), .access = {out(y)}}, [](Queue) {});
  issued.wait();
  CHECK_FALSE(issued.cancel());
  CHECK_NOTHROW(engine.wait(y));
}
