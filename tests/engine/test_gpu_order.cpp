// Order on GPUs: by stream and by event, never by the host.
#include <set>
#include <thread>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/engine/gpu_work.h"
#include "tests/support/gate.h"
#include "tests/support/gate_cuda.h"

using namespace sluice;
using namespace sluice::test;

using Words = GpuArray<std::uint64_t>;
using PinnedWords = PinnedArray<std::uint64_t>;

TEST_CASE("T40, T41: a chain of GPU tasks stays on one stream and needs no event", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Words word(1);
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  std::set<void*> streams;
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    engine.push({.name = "append", .device = gpu(0), .access = {write(x)}}, [&, i](Queue queue) {
      streams.insert(queue.stream());
      enqueue_append(queue.stream(), word.data(), i);
    });
    expected = 3 * expected + i;
  }
  engine.wait(x);
  CHECK(word.values()[0] == expected);
  CHECK(streams.size() == 1);
  CHECK(engine.counters().stream_waits == 0);
}

TEST_CASE("T41: a GPU task does not wait for another that has nothing to do with it", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords words(1);
  Engine engine({.workers = 1});
  Var held = engine.new_var(), free = engine.new_var();
  GpuGate gate;
  GpuGateOpensAtEnd opens(gate);
  engine.push({.name = "hold", .device = gpu(0), .access = {write(held)}}, [gate](Queue q) { gate.hold(q.stream()); });
  engine.push({.name = "beside", .device = gpu(0), .access = {write(free)}}, [&](Queue queue) {
    enqueue_store(queue.stream(), words.data(), 5);
  });
  engine.wait(free);
  CHECK(words[0] == 5);
  CHECK_FALSE(gate.gave_up());
  gate.open();
  engine.wait(held);
  CHECK_FALSE(gate.gave_up());
}

TEST_CASE("T36: what was forked over several streams is joined by events", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  constexpr int k_branches = 6;
  Words words(k_branches + 2);
  Engine engine({.workers = 1});
  Var root = engine.new_var(), join = engine.new_var();
  std::vector<Var> branches;
  for (int i = 0; i < k_branches; ++i)
    branches.push_back(engine.new_var());
  std::uint64_t* data = words.data();
  std::uint64_t expected = 0, root_value = 0;
  for (std::uint64_t round = 1; round <= 30; ++round) {
    engine.push({.name = "root", .device = gpu(0), .access = {write(root), read(join)}}, [data, round](Queue queue) {
      enqueue_append(queue.stream(), data, round, 30);
    });
    root_value = 3 * root_value + round;
    AccessList all{write(join)};
    for (int i = 0; i < k_branches; ++i) {
      engine.push({.name = "branch", .device = gpu(0), .access = {read(root), out(branches[i])}}, [data, i](Queue q) {
        enqueue_copy(q.stream(), data + 1 + i, data, sizeof *data);
        enqueue_append(q.stream(), data + 1 + i, static_cast<std::uint64_t>(i), 20);
      });
      all.push_back(read(branches[i]));
    }
    engine.push({.name = "join", .device = gpu(0), .access = all}, [data](Queue queue) {
      for (int i = 0; i < k_branches; ++i)
        enqueue_combine(queue.stream(), data + 1 + k_branches, data + 1 + i);
    });
    for (std::uint64_t i = 0; i < k_branches; ++i)
      expected = 3 * expected + 3 * root_value + i;
  }
  engine.wait(join);
  CHECK(words.values()[k_branches + 1] == expected);
  CHECK(engine.counters().stream_waits > 0);
}

TEST_CASE("The host waits for nothing: 400 pushes return while the gate before them is closed", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  constexpr int k_chains = 4;  // some hundred launches of a stream are the most that the driver is given
  Words words(k_chains);
  Engine engine({.workers = 2});
  Var held = engine.new_var();
  std::vector<Var> chains;
  for (int i = 0; i < k_chains; ++i)
    chains.push_back(engine.new_var());
  GpuGate gate;
  GpuGateOpensAtEnd opens(gate);
  engine.push({.name = "hold", .device = gpu(0), .access = {write(held)}}, [gate](Queue q) { gate.hold(q.stream()); });
  std::uint64_t expected[k_chains] = {};
  for (std::uint64_t i = 0; i < 400; ++i) {
    const std::size_t chain = i % k_chains;
    engine.push(
        {.name = "append", .device = gpu(0), .access = {read(held), write(chains[chain])}},
        [word = words.data() + chain, i](Queue queue) { enqueue_append(queue.stream(), word, i); });
    expected[chain] = 3 * expected[chain] + i;
  }
  CHECK_FALSE(gate.gave_up());
  CHECK_FALSE(gate.gave_up());
  CHECK(engine.counters().retired == 401);
  gate.open();
  engine.wait_all();
  CHECK_FALSE(gate.gave_up());
  CHECK(words.values() == std::vector<std::uint64_t>(expected, expected + k_chains));
}

TEST_CASE("Copies have streams of their own per direction and run beside computation", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Words device_words(2);
  PinnedWords host_words(2);
  host_words[0] = 11;
  Engine engine({.workers = 1});
  Var held = engine.new_var(), in = engine.new_var(), back = engine.new_var();
  GpuGate gate;
  GpuGateOpensAtEnd opens(gate);
  void *compute = nullptr, *copy_in = nullptr, *copy_out = nullptr;
  engine.push({.name = "hold", .device = gpu(0), .access = {write(held)}}, [&, gate](Queue queue) {
    compute = queue.stream();
    gate.hold(queue.stream());
  });
  engine.push(
      {.name = "to device", .device = gpu(0), .access = {out(in)}, .stream = StreamKind::copy_in}, [&](Queue queue) {
        copy_in = queue.stream();
        enqueue_copy(queue.stream(), device_words.data(), &host_words[0], sizeof(std::uint64_t));
      });
  engine.push(
      {.name = "to host", .device = gpu(0), .access = {read(in), out(back)}, .stream = StreamKind::copy_out},
      [&](Queue queue) {
        copy_out = queue.stream();
        enqueue_copy(queue.stream(), &host_words[1], device_words.data(), sizeof(std::uint64_t));
      });
  engine.wait(back);
  CHECK(host_words[1] == 11);
  CHECK_FALSE(gate.gave_up());
  CHECK(std::set<void*>{compute, copy_in, copy_out}.size() == 3);
  gate.open();
  engine.wait_all();
  CHECK_FALSE(gate.gave_up());
}

TEST_CASE("T38: a Var left alone while its stream moves on is still ordered on another stream", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Words words(3);
  PinnedWords result(1);
  Engine engine({.workers = 1});
  Var old = engine.new_var(), busy = engine.new_var(), copied = engine.new_var();
  engine.push({.name = "old", .device = gpu(0), .access = {write(old), write(busy)}}, [&](Queue queue) {
    enqueue_store(queue.stream(), words.data(), 77, 3000);
  });
  for (int i = 0; i < 600; ++i) {
    engine.push({.name = "busy", .device = gpu(0), .access = {write(busy)}}, [&](Queue queue) {
      enqueue_append(queue.stream(), words.data() + 1, 1);
    });
  }
  engine.push(
      {.name = "consume", .device = gpu(0), .access = {read(old), out(copied)}, .stream = StreamKind::copy_out},
      [&](Queue queue) { enqueue_copy(queue.stream(), result.data(), words.data(), sizeof(std::uint64_t)); });
  engine.wait(copied);
  CHECK(result[0] == 77);
}

TEST_CASE("GPU tasks of every priority class keep the order of their Vars", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Words word(1);
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  const Priority classes[] = {Priority::background, Priority::urgent, Priority::normal, Priority::high};
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    engine.push(
        {.name = "append", .device = gpu(0), .access = {write(x)}, .priority = classes[i % 4]},
        [&, i](Queue q) { enqueue_append(q.stream(), word.data(), i, i % 16 == 0 ? 50 : 0); });
    expected = 3 * expected + i;
  }
  engine.wait(x);
  CHECK(word.values()[0] == expected);
}

TEST_CASE("GPU tasks pushed by 8 threads on one Var exclude each other", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  GpuArray<Cell> shared(1);
  GpuArray<Seen> seen(1);
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      Var own = engine.new_var();
      const Step step{.cell = {0}, .touch = {Touch::write}, .count = 1};
      for (int i = 0; i < 250; ++i) {
        engine.push({.name = "count", .device = gpu(0), .access = {write(x), write(own)}}, [&, step](Queue queue) {
          enqueue_step(queue.stream(), step, 0, shared.data(), seen.data(), 0);
        });
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  engine.wait(x);
  CHECK(shared.values()[0].writers == 2000);
}

TEST_CASE("T57: tasks alternate between two GPUs over one Var", "[gpu]") {
  SLUICE_NEEDS_GPUS(2);
  prepare_gpus();
  PinnedWords word(1);
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    engine.push({.name = "append", .device = gpu(static_cast<int>(i % 2)), .access = {write(x)}}, [&, i](Queue queue) {
      enqueue_append(queue.stream(), word.data(), i, i % 8 == 0 ? 40 : 0);
    });
    expected = 3 * expected + i;
  }
  engine.wait(x);
  CHECK(word[0] == expected);
}

TEST_CASE("Kernels run in the clusters that they were launched in, whatever ran in their place before", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  if (!has_clusters(0))
    return;
  prepare_gpus();
  Words word(1);
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  std::uint64_t expected = 0;
  for (unsigned round = 0; round < 30; ++round) {
    const unsigned along = round % 3 == 0 ? 1 : 2, down = round % 3 == 1 ? 1 : 4;
    for (int i = 0; i < 20; ++i) {
      engine.push(
          {.name = "cluster", .device = gpu(0), .access = {write(x)}, .capturable = true},
          [&, along, down](Queue q) { enqueue_cluster(q.stream(), word.data(), along, down); });
      expected = 3 * expected + 100 * along + down;
    }
    engine.wait(x);
  }
  CHECK(word.values()[0] == expected);
}
