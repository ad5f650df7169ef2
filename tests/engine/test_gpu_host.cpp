// Between CPU and GPU: waits, and tasks of one kind after tasks of the other.
#include <chrono>
#include <ctime>
#include <thread>

#include "tests/engine/expect.h"
#include "tests/engine/gpu_work.h"
#include "tests/support/gate.h"
#include "tests/support/gate_cuda.h"

using namespace sluice;
using namespace sluice::test;

using PinnedWords = PinnedArray<std::uint64_t>;

TEST_CASE("A wait returns only when the GPU has done the work, whichever wait it is", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords word(1);
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  auto push_slow_store = [&](std::uint64_t value) {
    return engine.push(
        {.name = "slow store", .device = gpu(0), .access = {write(x), read(y)}},
        [&, value](Queue queue) { enqueue_store(queue.stream(), word.data(), value, 20'000); });
  };
  push_slow_store(1);
  engine.wait(x);
  CHECK(word[0] == 1);
  push_slow_store(2);
  engine.wait(write(x));
  CHECK(word[0] == 2);
  push_slow_store(3).wait();
  CHECK(word[0] == 3);
  push_slow_store(4);
  engine.wait_all();
  CHECK(word[0] == 4);
  push_slow_store(5);
  engine.wait(write(y));  // it only reads y
  CHECK(word[0] == 5);
  push_slow_store(6);
  engine.stop();
  CHECK(word[0] == 6);
}

TEST_CASE("T42: a CPU task after GPU work waits without a thread: the only worker runs others meanwhile", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords word(1);
  std::uint64_t seen = 0;
  int beside_runs = 0;
  Engine engine({.workers = 1});
  Var x = engine.new_var(), beside = engine.new_var();
  GpuGate gate;
  GpuGateOpensAtEnd opens(gate);
  engine.push({.name = "GPU writer", .device = gpu(0), .access = {write(x)}}, [&, gate](Queue queue) {
    gate.hold(queue.stream());
    enqueue_store(queue.stream(), word.data(), 9);
  });
  engine.push({.name = "CPU reader", .access = {read(x)}}, [&] { seen = word[0]; });
  for (int i = 0; i < 100; ++i)
    engine.push({.name = "beside", .access = {write(beside)}}, [&] { ++beside_runs; });
  engine.wait(beside);
  CHECK(beside_runs == 100);
  CHECK_FALSE(gate.gave_up());
  gate.open();
  engine.wait(write(x));
  CHECK(seen == 9);
  CHECK_FALSE(gate.gave_up());
}

TEST_CASE("A CPU writer waits for GPU readers", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords words(2);
  words[0] = 1;
  Engine engine({.workers = 2});
  Var source = engine.new_var(), copy = engine.new_var();
  GpuGate gate;
  GpuGateOpensAtEnd opens(gate);
  engine.push({.name = "GPU reader", .device = gpu(0), .access = {read(source), write(copy)}}, [&, gate](Queue queue) {
    gate.hold(queue.stream());
    // A kernel: copying from host to host, CUDA makes the host wait.
    enqueue_combine(queue.stream(), &words[1], &words[0]);
  });
  engine.push({.name = "CPU writer", .access = {write(source)}}, [&] { words[0] = 2; });
  gate.open();
  engine.wait_all();
  CHECK(words[0] == 2);
  CHECK(words[1] == 1);
  CHECK_FALSE(gate.gave_up());
}

TEST_CASE("A GPU task waits for the CPU task before it, and push does not", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords words(2);
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  engine.push({.name = "CPU writer", .access = {write(x)}}, [&, gate] {
    gate.wait();
    words[0] = 21;
  });
  engine.push({.name = "GPU copy", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
    enqueue_combine(queue.stream(), &words[1], &words[0]);
  });
  REQUIRE(gate.reached());
  gate.open();
  engine.wait(x);
  CHECK(words[1] == 21);
}

TEST_CASE("T43: CPU and GPU take turns on one Var, under every pair of policies", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  for (const CpuMode cpu_policy : {CpuMode::pool, CpuMode::serial}) {
    for (const GpuMode gpu_policy : {GpuMode::stream, GpuMode::serial}) {
      DYNAMIC_SECTION("CPU " << to_string(cpu_policy) << ", GPU " << to_string(gpu_policy)) {
        PinnedWords word(1);
        std::uint64_t expected = 0;
        Engine engine({.workers = 2, .cpu_policy = cpu_policy, .gpu_policy = gpu_policy});
        Var x = engine.new_var();
        for (std::uint64_t i = 0; i < 2000; ++i) {
          if (i % 2 == 0) {
            engine.push({.name = "GPU turn", .device = gpu(0), .access = {write(x)}}, [&, i](Queue queue) {
              enqueue_append(queue.stream(), word.data(), i);
            });
          } else {
            engine.push({.name = "CPU turn", .access = {write(x)}}, [&, i] { word[0] = 3 * word[0] + i; });
          }
          expected = 3 * expected + i;
        }
        engine.wait(x);
        CHECK(word[0] == expected);
        CHECK(x.version() == 2000);
      }
    }
  }
}

TEST_CASE("A CPU task after GPU work runs without anybody waiting or pushing, under every CPU policy", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  for (const CpuMode cpu_policy : {CpuMode::pool, CpuMode::serial}) {
    PinnedWords word(1);
    std::atomic<std::uint64_t> seen{0};
    Engine engine({.workers = 1, .cpu_policy = cpu_policy});
    Var x = engine.new_var();
    engine.push({.name = "GPU writer", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
      enqueue_store(queue.stream(), word.data(), 4, 5000);
    });
    engine.push({.name = "CPU reader", .access = {read(x)}}, [&] { seen = word[0]; });
    CHECK(eventually([&] { return seen == 4; }));
  }
}

TEST_CASE("A GPU body knows where it is, and what it pushes runs after it", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords word(1);
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  bool known = false;
  engine.push({.name = "outer", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
    known = &queue.engine() == &engine && &Engine::current() == &engine && queue.device() == gpu(0) &&
            queue.stream() != nullptr && queue.error_word() != nullptr && queue.position() && queue.threads() == 1;
    engine.push({.name = "inner", .device = gpu(0), .access = {write(x)}}, [&](Queue inner) {
      enqueue_append(inner.stream(), word.data(), 2);
    });
    enqueue_append(queue.stream(), word.data(), 1, 2000);
  });
  engine.wait(x);
  CHECK(known);
  CHECK(word[0] == 5);
}

TEST_CASE("A body on the legacy stream is fenced on both sides", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords word(1);
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < 40; ++i) {
    if (i % 2 == 0) {
      engine.push({.name = "ours", .device = gpu(0), .access = {write(x)}}, [&, i](Queue queue) {
        enqueue_append(queue.stream(), word.data(), i, 300);
      });
    } else {
      engine.push({.name = "pasted", .device = gpu(0), .access = {write(x)}, .legacy_stream = true}, [&, i](Queue) {
        append_on_legacy_stream(word.data(), i, 300);
      });
    }
    expected = 3 * expected + i;
  }
  engine.wait(x);
  CHECK(word[0] == expected);
}

TEST_CASE("Engines with GPU work come and go, some with work under way", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords word(1);
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < 10; ++i) {
    Engine engine({.workers = 1});
    Var x = engine.new_var();
    for (std::uint64_t task = 0; task < 20; ++task) {
      engine.push({.name = "append", .device = gpu(0), .access = {write(x)}}, [&, task](Queue queue) {
        enqueue_append(queue.stream(), word.data(), task, 50);
      });
      expected = 3 * expected + task;
    }
  }
  CHECK(word[0] == expected);
}

TEST_CASE("T47: an engine that is idle after a GPU burst burns next to no processor time", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords word(1);
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  for (std::uint64_t i = 0; i < 100; ++i) {
    engine.push({.name = "append", .device = gpu(0), .access = {write(x)}}, [&, i](Queue queue) {
      enqueue_append(queue.stream(), word.data(), i);
    });
    engine.push({.name = "CPU reader", .access = {read(x)}}, [] {});
  }
  engine.wait_all();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  CHECK(std::clock() - before < CLOCKS_PER_SEC / 10);  // one spinning thread would burn half a second
}
