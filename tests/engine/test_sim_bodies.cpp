// What can go wrong between a task's place, its launch and its end, on the simulated CUDA runtime.
#include <atomic>
#include <thread>

#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/sim_run.h"

using namespace sluice;
using namespace sluice::test;

namespace {

PositionSet only(Position position) {
  PositionSet set;
  set.add(position);
  return set;
}

Task captured(const TaskName& name, AccessList access) {
  return {.name = name, .device = gpu(0), .access = std::move(access), .capturable = true};
}

/// So many that the next capturable task is captured.
void fill_a_batch(Engine& engine, const Var& var, std::atomic<int>& ran, std::atomic<Position>* last = nullptr) {
  for (int i = 0; i < 7; ++i) {
    engine.push(captured("fills", {write(var)}), [&ran, last](Queue queue) {
      if (last != nullptr)
        last->store(queue.position());
      sim_launch(queue, [&ran] { ++ran; });
    });
  }
}

}  // namespace

TEST_CASE("A body may wait for its own place: memory that it gave back and took again", "[sim]") {
  for (const LaunchMode launch : {LaunchMode::direct, LaunchMode::batch}) {
    CAPTURE(to_string(launch));
    Sim sim;
    std::atomic<int> ran{0};
    Engine engine({.workers = 1, .launch = launch});
    Var x = engine.new_var();
    for (int i = 0; i < 40; ++i) {
      engine.push(captured("takes twice", {write(x)}), [&ran](Queue queue) {
        queue.wait_for(only(queue.position()));
        sim_launch(queue, [&ran] { ++ran; });
        queue.wait_for(only(queue.position()));
      });
    }
    engine.wait(x);
    CHECK(ran == 40);
  }
}

TEST_CASE("What a GPU's body pushes is for whom it is, and so is what is said where the GPU is lost", "[sim]") {
  for (const LaunchMode launch : {LaunchMode::direct, LaunchMode::batch}) {
    CAPTURE(to_string(launch));
    Sim sim;
    sim.tolerate_leftovers();
    std::string lost;
    {
      Engine engine({.workers = 1, .launch = launch});
      const Var x = engine.new_var(), y = engine.new_var();
      {
        const OriginScope scope(&Origin::of("layer 12", {"user.cpp", 12}));
        engine.push(captured("outer", {write(x)}), [&](Queue queue) {
          engine.push({.name = "nested", .access = {write(y)}}, [] { throw ValueError("no"); });
          sim_launch(queue, [] {});
        });
        engine.wait(x);
        sim::set_manual(true);  // lost only when all of it is under way, so that it can be named
        engine.push(
            captured("bad", {write(x)}), [](Queue queue) { sim_launch(queue, [] { sim::illegal_address(); }); });
        engine.flush();
        sim::set_manual(false);
      }
      CHECK_THAT(text_of_error([&] { engine.wait(y); }), contains("\"nested\" of layer 12"));
      lost = text_of_error([&] { engine.wait(x); });
    }
    CHECK_THAT(lost, contains("\"bad\" (layer 12, "));
  }
}

TEST_CASE("The host that waits for the place of the body that it is in waits for what that has enqueued", "[sim]") {
  for (const LaunchMode launch : {LaunchMode::direct, LaunchMode::batch}) {
    CAPTURE(to_string(launch));
    Sim sim;
    std::atomic<int> ran{0}, early{0};
    Engine engine({.workers = 1, .launch = launch});
    Var x = engine.new_var();
    for (int i = 0; i < 10; ++i) {
      engine.push(captured("waits", {write(x)}), [&, i](Queue queue) {
        sim_launch(queue, [&ran] { ++ran; });
        detail::EngineAccess::wait_passed(queue.engine(), only(queue.position()));
        early += ran != i + 1 ? 1 : 0;
      });
    }
    CHECK_NOTHROW(engine.wait(x));
    CHECK(ran == 10);
    CHECK(early == 0);
  }
}

TEST_CASE("A body that waits for what is being captured before it enqueues anything is called again", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  std::atomic<int> ran{0}, after{0};
  std::atomic<Position> last{};
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  fill_a_batch(engine, x, ran, &last);
  engine.push(captured("waits first", {write(y)}), [&](Queue queue) {
    detail::EngineAccess::wait_passed(queue.engine(), only(last.load()));
    sim_launch(queue, [&after] { ++after; });
  });
  CHECK_NOTHROW(engine.wait(y));
  CHECK(after == 1);
  CHECK(ran == 7);
}

TEST_CASE("The place of a capture that was given up can be waited for", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  std::atomic<int> ran{0}, after{0}, calls{0};
  std::atomic<Position> last{}, never{};
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
  fill_a_batch(engine, x, ran, &last);
  engine.push(captured("given up", {write(y)}), [&](Queue queue) {
    if (++calls == 1)
      never = queue.position();  // as memory that is given back has it
    detail::EngineAccess::wait_passed(queue.engine(), only(last.load()));
    sim_launch(queue, [&after] { ++after; });
  });
  engine.push({.name = "takes it", .device = gpu(0), .access = {write(z)}}, [&](Queue queue) {
    queue.wait_for(only(never.load()));
    sim_launch(queue, [&after] { ++after; });
  });
  CHECK_NOTHROW(engine.wait(z));
  CHECK_NOTHROW(detail::EngineAccess::wait_passed(engine, only(never.load())));
  CHECK_NOTHROW(engine.wait(y));
  CHECK(calls == 2);
  CHECK(after == 2);
}

TEST_CASE("Whoever waits for a batch does not wait until others push no more", "[sim]") {
  Sim sim;
  constexpr int k_most = 20000;
  std::atomic<int> ran{0}, asked{0}, pushed{0};
  std::atomic<bool> enough{false}, begun{false};
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  fill_a_batch(engine, x, ran);
  const Task task{.name = "another", .device = gpu(0), .priority = Priority::urgent};
  // Each body sees to it that the next task is there before it ends.
  const auto body = [&](Queue) {
    begun = true;
    const int mine = ++asked;
    while (!enough && mine < k_most && pushed < mine)
      std::this_thread::yield();
  };
  std::thread other([&] {
    for (int i = 0; i < k_most && !enough; ++i) {
      while (asked <= i && !enough)
        std::this_thread::yield();
      engine.push(task, body);
      ++pushed;
    }
  });
  std::thread issues([&] { engine.push(task, body); });
  while (!begun)
    std::this_thread::yield();
  engine.wait(x);
  const int at_end = asked;
  enough = true;
  other.join();
  issues.join();
  CHECK(ran == 7);
  CHECK(at_end < k_most);
  engine.wait_all();
}

TEST_CASE("What a lost GPU should have computed stays lost: for CPU tasks and for every wait", "[sim]") {
  Sim sim;
  sim.tolerate_leftovers();
  std::atomic<int> read_garbage{0};
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
  engine.push({.name = "bad", .device = gpu(0), .access = {write(x)}}, [](Queue queue) {
    sim_launch(queue, [] { sim::illegal_address(); });
  });
  engine.push(
      {.name = "next", .device = gpu(0), .access = {read(x), write(y)}}, [](Queue queue) { sim_launch(queue, [] {}); });
  for (int i = 0; i < 12; ++i) {
    CHECK_THROWS_AS(engine.wait(x), CudaError);
    CHECK_THROWS_AS(engine.wait(y), CudaError);
  }
  engine.push({.name = "reads", .access = {read(y), write(z)}}, [&] { ++read_garbage; });
  CHECK_THROWS_AS(engine.wait(z), CudaError);
  CHECK(read_garbage == 0);
}

TEST_CASE("Each who waits for a lost GPU catches an error of its own", "[sim]") {
  Sim sim;
  sim.tolerate_leftovers();
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  std::atomic<Position> at{};
  engine.push({.name = "bad", .device = gpu(0), .access = {write(x)}}, [&at](Queue queue) {
    at = queue.position();
    sim_launch(queue, [] { sim::illegal_address(); });
  });
  const auto wait = [&] { detail::EngineAccess::wait_passed(engine, only(at)); };
  try {
    wait();
    CHECK(false);
  } catch (DeviceLost& caught) {
    caught.locate("in layer 1");
    CHECK_THAT(text_of_error(wait), contains("is lost") && !contains("in layer 1"));
    CHECK_THAT(caught.what(), contains("in layer 1"));
  }
  CHECK_THAT(text_of_error(wait), contains("is lost") && !contains("in layer 1"));
}

TEST_CASE("CPU tasks whose wait ends with a lost GPU fail under their own names", "[sim]") {
  Sim sim;
  sim.tolerate_leftovers();
  Gate gate;
  Engine engine({.workers = 1});
  OpensAtEnd opens(gate);
  Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
  engine.push({.name = "bad", .device = gpu(0), .access = {write(x)}}, [gate](Queue queue) {
    sim_launch(queue, [gate] {
      gate.wait();
      sim::illegal_address();
    });
  });
  engine.push({.name = "first", .access = {read(x), write(y)}}, [] {});
  engine.push({.name = "second", .access = {read(x), write(z)}}, [] {});
  gate.open();
  CHECK_THAT(text_of_error([&] { engine.wait(y); }), contains("in task \"first\"") && !contains("\"second\""));
  CHECK_THAT(text_of_error([&] { engine.wait(z); }), contains("in task \"second\"") && !contains("\"first\""));
}

TEST_CASE("A CPU task whose wait for the GPU failed leaves the order behind it as it was", "[sim]") {
  Sim sim;
  Gate gate;
  std::atomic<bool> done{false}, seen{false};
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  engine.push({.name = "slow", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
    sim_launch(queue, [&] {
      gate.wait();
      done = true;
    });
  });
  sim::fail_nth("cudaEventQuery", 1, cudaErrorUnknown);
  engine.push({.name = "fails", .access = {write(x)}}, [] {});
  CHECK(eventually([&] { return engine.counters().failed == 1; }));
  engine.push({.name = "second", .access = {out(x)}}, [&] { seen = done.load(); });
  engine.push({.name = "behind it", .access = {write(y)}}, [] {});
  engine.wait(y);
  gate.open();
  engine.wait(x);
  CHECK(seen);
}

TEST_CASE("An engine that ends with one GPU lost waits for the other", "[sim]") {
  for (int round = 0; round < 20; ++round) {
    Sim sim(seeded(static_cast<std::uint64_t>(round)));
    sim.tolerate_leftovers();
    std::atomic<int> ran{0};
    {
      Engine engine({.workers = 1});
      Var x = engine.new_var(), y = engine.new_var();
      engine.push({.name = "lost", .device = gpu(0), .access = {write(x)}}, [](Queue queue) {
        sim_launch(queue, [] { sim::illegal_address(); });
      });
      for (int i = 0; i < 8; ++i) {
        engine.push({.name = "other", .device = gpu(1), .access = {write(y)}, .capturable = true}, [&ran](Queue queue) {
          sim_launch(queue, [&ran] { ++ran; });
        });
      }
    }
    CHECK(ran == 8);
  }
}

TEST_CASE("A wait for a Var in a GPU task's body is refused: it would never end", "[sim]") {
  Sim sim;
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  engine.push({.name = "waits", .device = gpu(0), .access = {write(x)}}, [&y](Queue queue) { queue.engine().wait(y); });
  CHECK_THROWS_AS(engine.wait(x), Deadlock);
}

TEST_CASE("A task is not blamed for an error that its thread brought along", "[sim]") {
  Sim sim;
  std::atomic<int> ran{0};
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, std::size_t{1} << 60) != cudaSuccess);
  engine.push({.name = "good", .device = gpu(0), .access = {write(x)}}, [&ran](Queue queue) {
    sim_launch(queue, [&ran] { ++ran; });
  });
  CHECK_NOTHROW(engine.wait(x));
  CHECK(ran == 1);
}

TEST_CASE(
    "Another engine's CPU bodies, which would wait for what cannot begin, wait for the GPU body to return", "[sim]") {
  const CpuMode mode = GENERATE(CpuMode::serial, CpuMode::chaos);
  const bool flushed = GENERATE(false, true);
  CAPTURE(to_string(mode), flushed);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Sim sim;
    Engine issuing({.workers = 1}), other({.cpu_policy = mode, .chaos_seed = seed});
    int begun = 0, during = 0;
    const auto waits = [&] {
      ++begun;
      other.push({.name = "awaited"}, [] {}).wait();
    };
    for (int i = 0; i < 8; ++i)
      other.push({.name = "waits"}, waits);
    issuing.push({.name = "issues", .device = gpu(0)}, [&](Queue queue) {
      const int before = begun;
      other.push({.name = "waits"}, waits);
      if (flushed)
        other.flush();
      during = begun - before;
      sim_launch(queue, [] {});
    });
    issuing.wait_all();
    other.wait_all();
    CHECK(during == 0);
    CHECK(begun == 9);
  }
}
