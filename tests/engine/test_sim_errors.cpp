// Errors of the application's own CUDA calls, which CUDA keeps for the thread that asks for them: they are nobody
// else's business, and stay where they are.
#include <atomic>
#include <thread>

#include "tests/engine/sim_region.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// A CUDA call of the application has failed on this thread, and it has not looked yet.
struct Pending {
  Pending() { REQUIRE(cudaSetDevice(77) == k_error); }
  ~Pending() { CHECK(cudaGetLastError() == k_error); }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  static constexpr cudaError_t k_error = cudaErrorInvalidDevice;
};

Task direct(const TaskName& name, AccessList access) {
  return {.name = name, .device = gpu(0), .access = std::move(access)};
}

}  // namespace

TEST_CASE("An error that the application's thread has pending stays, and no task is blamed for it", "[sim]") {
  const CpuMode policy = GENERATE(CpuMode::pool, CpuMode::serial, CpuMode::chaos);
  const LaunchMode launch = GENERATE(LaunchMode::direct, LaunchMode::batch);
  CAPTURE(to_string(policy), to_string(launch));
  Sim sim;
  std::atomic<int> on_cpu{0};
  std::uint64_t word = 0;
  {
    Engine engine({.workers = policy == CpuMode::pool ? 1 : 0, .cpu_policy = policy, .launch = launch});
    Var x = engine.new_var(), y = engine.new_var();
    const Pending pending;
    for (int i = 0; i < 100; ++i)
      push_append(engine, x, word, static_cast<std::uint64_t>(i));
    CHECK(cudaPeekAtLastError() == Pending::k_error);
    engine.flush();
    engine.push({.name = "CPU", .access = {read(x), write(y)}}, [&] { ++on_cpu; });
    CHECK_NOTHROW(engine.wait(y));
    CHECK(cudaPeekAtLastError() == Pending::k_error);
    push_append(engine, x, word, 100);
    CHECK_NOTHROW(engine.wait(x));
    TaskHandle handle = push_append(engine, x, word, 101);
    CHECK_NOTHROW(handle.wait());
    push_append(engine, x, word, 102);
    CHECK_NOTHROW(engine.wait_all());
    CHECK(cudaPeekAtLastError() == Pending::k_error);
    push_append(engine, x, word, 103);
    engine.stop();
  }
  CHECK(on_cpu == 1);
  CHECK(word == Chain::expected(1, 104));
}

TEST_CASE("An error that is pending stays while the host waits for a slow kernel", "[sim]") {
  Sim sim;
  Gate gate;
  Engine engine({.workers = 1});
  OpensAtEnd opens(gate);
  Var x = engine.new_var();
  engine.push(direct("slow", {write(x)}), [gate](Queue queue) { sim_launch(queue, [gate] { gate.wait(); }); });
  const int queries = sim::calls("cudaEventQuery");
  bool asked = false;
  std::thread opener([&] {
    asked = eventually([&] { return sim::calls("cudaEventQuery") > queries + 3; });
    gate.open();
  });
  {
    const Pending pending;
    CHECK_NOTHROW(engine.wait(x));
  }
  opener.join();
  CHECK(asked);
}

TEST_CASE("A body that leaves the error that its thread has pending fails its own task all the same", "[sim]") {
  const bool capturable = GENERATE(false, true);
  CAPTURE(capturable);
  Sim sim;
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  const Pending pending;
  std::uint64_t word = 0;
  for (int i = 0; i < 7; ++i)
    push_append(engine, y, word, 0);
  Task bad = direct("bad", {write(x)});
  bad.capturable = capturable;
  engine.push(bad, [](Queue queue) {
    sim_launch(queue, [] {});
    cudaSetDevice(77);  // leaves an error, as a launch of too large blocks does
  });
  expect_error<CudaError>(
      [&] { engine.wait(x); },
      [](const CudaError& error) {
        CHECK(error.code() == Pending::k_error);
        CHECK_THAT(error.what(), contains("\"bad\""));
      });
  CHECK_NOTHROW(engine.wait(y));
}

TEST_CASE("What a body leaves that asks for no stream is not the next one's", "[sim]") {
  Sim sim;
  std::uint64_t word = 0;
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  engine.push(direct("own calls", {write(y)}), [](Queue) { cudaSetDevice(77); });
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  push_append(engine, x, word, 1);
  CHECK_NOTHROW(engine.wait_all());
}

TEST_CASE("A worker on which a CPU body has left an error issues GPU tasks as before", "[sim]") {
  Sim sim;
  std::uint64_t word = 0;
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  engine.push({.name = "leaves it", .access = {write(x)}}, [] { cudaSetDevice(77); });
  push_append(engine, x, word, 1);
  CHECK_NOTHROW(engine.wait(x));
  CHECK(word == 1);
}

TEST_CASE("A lost GPU fails tasks and waits of threads that have an error pending", "[sim]") {
  Sim sim;
  sim.tolerate_leftovers();
  std::uint64_t word = 0;
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  push_append(engine, x, word, 1);
  CHECK_NOTHROW(engine.wait(x));
  REQUIRE(cudaSetDevice(77) == cudaErrorInvalidDevice);
  sim::lose_device(0);
  push_append(engine, x, word, 2);
  CHECK_THROWS_AS(engine.wait(x), CudaError);
}

// It is in a body on the thread that issues for those who have an error pending, so that theirs wait to be begun.
TEST_CASE("A body that waits for another GPU begins no body there: that might wait for it", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  Gate gate;
  std::atomic<Position> in_batch{}, in_body{};
  std::atomic<int> ran{0};
  Engine engine({.workers = 1});
  OpensAtEnd opens(gate);
  Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
  for (int i = 0; i < 5; ++i) {
    Task task = direct("is captured", {write(x)});
    task.capturable = true;
    engine.push(task, [&](Queue queue) {
      in_batch = queue.position();
      sim_launch(queue, [&ran] { ++ran; });
    });
  }
  const auto only = [](Position position) {
    PositionSet set;
    set.add(position);
    return set;
  };
  const Pending pending;
  engine.push({.name = "waits", .device = gpu(1), .access = {write(y)}}, [&](Queue queue) {
    in_body = queue.position();
    gate.wait();
    queue.wait_for(only(in_batch));
    sim_launch(queue, [&ran] { ++ran; });
  });
  REQUIRE(gate.reached());
  engine.push(direct("waits for that", {write(z)}), [&](Queue queue) {
    queue.wait_for(only(in_body));
    sim_launch(queue, [&ran] { ++ran; });
  });
  gate.open();
  CHECK_NOTHROW(engine.wait_all());
  CHECK(ran == 7);
}
