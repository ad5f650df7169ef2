// Streams that the engine chooses and waits that it makes, counted; and who holds whom up. In manual mode the simulated
// GPU does nothing until it is told to, so what the host does meanwhile cannot depend on it.
#include <set>
#include <thread>
#include <vector>

#include "tests/engine/policies.h"
#include "tests/engine/sim_run.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Word = std::uint64_t;

constexpr sim::Options k_by_hand{.devices = 2, .manual = true};

void append_on(Engine& engine, const Var& var, Word& word, Word value, StreamKind kind = StreamKind::compute) {
  engine.push(
      {.name = "append", .device = gpu(0), .access = {write(var)}, .stream = kind},
      [&word, value](Queue queue) { sim_launch(queue, [&word, value] { word = 3 * word + value; }); });
}

std::vector<Var> make_vars(Engine& engine, int count) {
  std::vector<Var> vars;
  for (int i = 0; i < count; ++i)
    vars.push_back(engine.new_var());
  return vars;
}

}  // namespace

TEST_CASE("T40, T41: on the simulator, a chain of GPU tasks stays on one stream and waits for no event", "[sim]") {
  Sim sim(k_by_hand);
  Word word = 0, expected = 0;
  std::set<void*> streams;
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  for (Word i = 0; i < 300; ++i) {
    engine.push({.name = "append", .device = gpu(0), .access = {write(x)}}, [&, i](Queue queue) {
      streams.insert(queue.stream());
      sim_launch(queue, [&word, i] { word = 3 * word + i; });
    });
    expected = 3 * expected + i;
  }
  CHECK(sim::calls("cudaStreamWaitEvent") == 0);
  CHECK(streams.size() == 1);
  CHECK(sim::blocking_calls() == 0);
  sim::set_manual(false);
  engine.wait(x);
  CHECK(word == expected);
}

namespace {

/// True if this thread calls the body of a task that it pushes for that GPU.
bool launches_itself(Engine& engine, int device) {
  std::thread::id by;
  engine.push({.name = "who", .device = gpu(device)}, [&by](Queue) { by = std::this_thread::get_id(); }).wait();
  return by == std::this_thread::get_id();
}

}  // namespace

TEST_CASE("Who pushes launches", "[sim]") {
  Sim sim;
  for (const CpuMode policy : {CpuMode::pool, CpuMode::serial}) {
    Engine engine({.workers = 1, .cpu_policy = policy});
    CHECK((launches_itself(engine, 0) && launches_itself(engine, 1) && launches_itself(engine, 0)));
  }
}

TEST_CASE("T40: a diamond costs two waits, however many follow each other", "[sim]") {
  Sim sim(k_by_hand);
  constexpr int k_diamonds = 50;
  Word top = 0, left = 0, right = 0, expected = 0;
  Engine engine({.workers = 1});
  Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
  for (int i = 0; i < k_diamonds; ++i) {
    engine.push({.name = "top", .device = gpu(0), .access = {write(a)}}, [&](Queue queue) {
      sim_launch(queue, [&] { top = 5 * top + 1; });
    });
    engine.push({.name = "left", .device = gpu(0), .access = {read(a), out(b)}}, [&](Queue queue) {
      sim_launch(queue, [&] { left = top + 1; });
    });
    engine.push({.name = "right", .device = gpu(0), .access = {read(a), out(c)}}, [&](Queue queue) {
      sim_launch(queue, [&] { right = top + 2; });
    });
    engine.push({.name = "join", .device = gpu(0), .access = {write(a), read(b), read(c)}}, [&](Queue queue) {
      sim_launch(queue, [&] { top = 7 * left + right; });
    });
    const Word value = 5 * expected + 1;
    expected = 7 * (value + 1) + value + 2;
  }
  CHECK(sim::calls("cudaStreamWaitEvent") <= 2 * k_diamonds);
  CHECK(sim::calls("cudaStreamWaitEvent") > 0);
  sim::set_manual(false);
  engine.wait(a);
  CHECK(top == expected);
}

TEST_CASE("T40: layers in which everyone needs everyone cost one wait for each pair of streams", "[sim]") {
  Sim sim(k_by_hand);
  constexpr int k_layers = 20, k_width = 8, k_streams = 4;
  std::vector<Word> values(2 * k_width, 1);
  std::set<void*> streams;
  Engine engine({.workers = 1});
  const std::vector<Var> vars = make_vars(engine, 2 * k_width);
  for (int layer = 0; layer < k_layers; ++layer) {
    const int from = layer % 2 * k_width, to = k_width - from;
    for (int i = 0; i < k_width; ++i) {
      AccessList access{out(vars[static_cast<std::size_t>(to + i)])};
      for (int j = 0; j < k_width; ++j)
        access.push_back(read(vars[static_cast<std::size_t>(from + j)]));
      engine.push({.name = "mix", .device = gpu(0), .access = access}, [&values, &streams, from, to, i](Queue queue) {
        streams.insert(queue.stream());
        sim_launch(queue, [&values, from, to, i] {
          Word sum = 0;
          for (int j = 0; j < k_width; ++j)
            sum = 3 * sum + values[static_cast<std::size_t>(from + j)];
          values[static_cast<std::size_t>(to + i)] = sum + static_cast<Word>(i);
        });
      });
    }
  }
  CHECK(streams.size() == k_streams);
  CHECK(sim::calls("cudaStreamWaitEvent") <= k_layers * k_streams * (k_streams - 1));
  sim::set_manual(false);
  engine.wait_all();
  std::vector<Word> expected(k_width, 1);
  for (int layer = 0; layer < k_layers; ++layer) {
    Word sum = 0;
    for (Word value : expected)
      sum = 3 * sum + value;
    for (int i = 0; i < k_width; ++i)
      expected[static_cast<std::size_t>(i)] = sum + static_cast<Word>(i);
  }
  const auto last = values.begin() + k_layers % 2 * k_width;
  CHECK(std::vector<Word>(last, last + k_width) == expected);
}

TEST_CASE("T41: tasks without a common Var spread over streams; none waits for a held one", "[sim]") {
  Sim sim;
  Engine engine({.workers = 1});
  Var held = engine.new_var();
  cudaStream_t stream = nullptr;
  bool held_ran = false;
  engine.push({.name = "first", .device = gpu(0), .access = {write(held)}}, [&](Queue queue) {
    stream = static_cast<cudaStream_t>(queue.stream());
    sim::hold(stream);
    sim_launch(queue, [&] { held_ran = true; });
  });
  std::set<void*> streams;
  for (int i = 0; i < 8; ++i) {
    Var own = engine.new_var();
    void* mine = nullptr;
    Word word = 0;
    engine.push({.name = "beside", .device = gpu(0), .access = {write(own)}}, [&](Queue queue) {
      mine = queue.stream();
      if (mine != stream)
        sim_launch(queue, [&word] { word = 1; });
    });
    if (mine == stream)
      continue;
    streams.insert(mine);
    engine.wait(own);
    CHECK(word == 1);
  }
  CHECK(streams.size() >= 3);
  sim::release(stream);
  engine.wait_all();
  CHECK(held_ran);
}

// Beyond some hundred launches a stream the driver would make the host wait; the rest is issued when there is room.
TEST_CASE("The host waits for nothing: pushes return while the GPU stands still, and all is done in the end", "[sim]") {
  Sim sim(k_by_hand);
  constexpr int k_tasks = 5000;
  Word words[6] = {}, expected[6] = {};
  Engine engine({.workers = 1});
  const std::vector<Var> vars = make_vars(engine, 6);
  for (int i = 0; i < k_tasks; ++i) {
    const auto which = static_cast<std::size_t>(i % 6);
    const StreamKind kinds[] = {StreamKind::compute, StreamKind::copy_in, StreamKind::copy_out};
    append_on(engine, vars[which], words[which], static_cast<Word>(i), kinds[i / 7 % 3]);
    expected[which] = 3 * expected[which] + static_cast<Word>(i);
  }
  CHECK(engine.counters().pushed == k_tasks);
  CHECK(engine.counters().retired >= 256);
  CHECK(engine.counters().retired < 6 * 512);
  CHECK(sim::blocking_calls() == 0);
  sim::set_manual(false);
  engine.wait_all();
  CHECK(std::equal(std::begin(words), std::end(words), expected));
}

TEST_CASE("T38: a Var left alone while its stream's ring of events goes round is still ordered elsewhere", "[sim]") {
  for (bool gpu_runs : {false, true}) {
    Sim sim({.devices = 2, .manual = !gpu_runs});
    Word old_value = 0, busy_value = 0, copied = 0;
    Engine engine({.workers = 1});
    Var old = engine.new_var(), busy = engine.new_var(), copy = engine.new_var();
    engine.push({.name = "old", .device = gpu(0), .access = {write(old), write(busy)}}, [&](Queue queue) {
      sim_launch(queue, [&] { old_value = 77; });
    });
    for (int i = 0; i < scaled(20'000); ++i)
      append_on(engine, busy, busy_value, 1);
    engine.push(
        {.name = "consume", .device = gpu(0), .access = {read(old), out(copy)}, .stream = StreamKind::copy_out},
        [&](Queue queue) { sim_launch(queue, [&] { copied = old_value; }); });
    sim::set_manual(false);
    engine.wait(copy);
    CHECK(copied == 77);
    engine.wait_all();
  }
}

TEST_CASE("T42: on the simulator, a CPU task after GPU work holds no worker", "[sim]") {
  Sim sim(k_by_hand);
  Word word = 0;
  std::atomic<Word> seen{0};
  int beside_runs = 0;
  Engine engine({.workers = 1});
  Var x = engine.new_var(), beside = engine.new_var();
  append_on(engine, x, word, 9);
  engine.push({.name = "CPU reader", .access = {read(x)}}, [&] { seen = word; });
  for (int i = 0; i < 200; ++i)
    engine.push({.name = "beside", .access = {write(beside)}}, [&] { ++beside_runs; });
  engine.wait(beside);
  CHECK(beside_runs == 200);
  CHECK(seen == 0);
  sim::set_manual(false);
  engine.wait(write(x));
  CHECK(seen == 9);
}

TEST_CASE("T43: on the simulator, CPU and both GPUs take turns on one Var, under every pair of policies", "[sim]") {
  for (const CpuMode cpu_policy : k_all) {
    for (const GpuMode gpu_policy : {GpuMode::stream, GpuMode::serial}) {
      CAPTURE(to_string(cpu_policy), to_string(gpu_policy));
      Sim sim(seeded(7));
      Word word = 0, expected = 0;
      Engine engine({.workers = 2, .cpu_policy = cpu_policy, .gpu_policy = gpu_policy});
      Var x = engine.new_var();
      for (Word i = 0; i < static_cast<Word>(scaled(600)); ++i) {
        if (i % 3 == 2) {
          engine.push({.name = "CPU turn", .access = {write(x)}}, [&word, i] { word = 3 * word + i; });
        } else {
          engine.push(
              {.name = "GPU turn", .device = gpu(static_cast<int>(i % 3)), .access = {write(x)}},
              [&word, i](Queue queue) { sim_launch(queue, [&word, i] { word = 3 * word + i; }); });
        }
        expected = 3 * expected + i;
      }
      engine.wait(x);
      CHECK(word == expected);
    }
  }
}

TEST_CASE("A new Var's first writer comes after the positions that its memory waits for", "[sim]") {
  Sim sim;
  Engine engine({.workers = 1, .launch = LaunchMode::direct});
  const auto log = std::make_shared<Log>();
  Gate gate;
  const OpensAtEnd opens(gate);
  PositionSet pending;
  engine.push({.name = "last user", .device = gpu(0)}, [&, log, gate](Queue queue) {
    pending.add(queue.position());
    sim_launch(queue, [log, gate] {
      gate.wait();
      log->add(1);
    });
  });
  engine.flush();
  REQUIRE(!pending.empty());
  Var next = engine.new_var({.pending = &pending});
  engine.push({.name = "next user", .access = {out(next)}}, [log] { log->add(2); });
  engine.push({.name = "beside"}, [log] { log->add(0); }).wait();  // the worker has been here
  gate.open();
  engine.wait(next);
  CHECK(log->numbers() == std::vector<int>{0, 1, 2});
}
