// Classes of GPU tasks: urgent ones, those on the legacy stream, those that enqueue nothing, collectives.
#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/engine/sim_run.h"

using namespace sluice;
using namespace sluice::test;

namespace {

cudaStream_t stream_of(const Queue& queue) {
  return static_cast<cudaStream_t>(queue.stream());
}

int priority_of(cudaStream_t stream) {
  int priority = 99;
  CHECK(cudaStreamGetPriority(stream, &priority) == cudaSuccess);
  return priority;
}

/// The stream of a task of that class, run by itself.
cudaStream_t stream_of_class(Engine& engine, Priority priority) {
  cudaStream_t found = nullptr;
  engine.push({.name = "probe", .device = gpu(0), .priority = priority}, [&](Queue queue) {
    found = stream_of(queue);
    sim_launch(queue, [] {});
  });
  engine.wait_all();
  return found;
}

}  // namespace

TEST_CASE("T17: an urgent GPU task starts although 10 000 normal ones are queued before it", "[sim]") {
  constexpr int k_normal = 10'000, k_chains = 8;
  const LaunchMode launch = GENERATE(LaunchMode::batch, LaunchMode::direct);
  CAPTURE(to_string(launch));
  Sim sim({.devices = 2, .manual = true});
  std::set<cudaStream_t> normal_streams;
  cudaStream_t urgent_stream = nullptr;
  std::atomic<int> bodies{0}, ran{0}, before_urgent{-1}, launched_before{-1};
  {
    Engine engine({.workers = 1, .launch = launch});
    std::vector<Var> chains(k_chains);
    for (Var& chain : chains)
      chain = engine.new_var();
    const Var own = engine.new_var();
    for (int i = 0; i < k_normal; ++i) {
      const Task normal{
          .name = "normal",
          .device = gpu(0),
          .access = {write(chains[static_cast<std::size_t>(i % k_chains)])},
          .capturable = launch == LaunchMode::batch};
      engine.push(normal, [&](Queue queue) {
        ++bodies;
        if (launch == LaunchMode::direct)
          normal_streams.insert(stream_of(queue));
        sim_launch(queue, [&] { ++ran; });
      });
    }
    engine.push(
        {.name = "urgent", .device = gpu(0), .access = {write(own)}, .priority = Priority::urgent}, [&](Queue queue) {
          urgent_stream = stream_of(queue);
          sim_launch(queue, [&] { before_urgent = ran.load(); });
          launched_before = bodies.load();
        });
    // By the push, or by the poller where that is issuing just then.
    CHECK(eventually([&] { return launched_before >= 0; }));
    if (launch == LaunchMode::direct)  // graphs are few launches, so that all of them lie within the window
      CHECK(launched_before < k_normal);
    CHECK(normal_streams.count(urgent_stream) == 0);
    while (before_urgent < 0 && sim::run_one()) {
    }
    CHECK(before_urgent >= 0);
    sim::set_manual(false);
    engine.wait_all();
    CHECK(ran == k_normal);
  }
}

TEST_CASE("T17: the normal streams may stand still: urgent tasks run, on streams of the highest priority", "[sim]") {
  Sim sim;
  Engine engine({.workers = 1, .launch = LaunchMode::direct});
  int least = 0, greatest = 0;
  REQUIRE(cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess);
  std::vector<cudaStream_t> held;
  std::vector<Var> vars(8);
  for (Var& var : vars) {  // each finds the streams before it busy
    var = engine.new_var();
    engine.push({.name = "normal", .device = gpu(0), .access = {write(var)}}, [&](Queue queue) {
      held.push_back(stream_of(queue));
      sim::hold(held.back());
      sim_launch(queue, [] {});
    });
  }
  CHECK(std::set<cudaStream_t>(held.begin(), held.end()).size() == 4);
  const Var x = engine.new_var(), y = engine.new_var();
  std::atomic<int> order{0}, first{0}, second{0};
  cudaStream_t urgent = nullptr;
  engine.push(
      {.name = "urgent", .device = gpu(0), .access = {write(x)}, .priority = Priority::urgent}, [&](Queue queue) {
        urgent = stream_of(queue);
        sim_launch(queue, [&] { first = ++order; });
      });
  engine.push(
      {.name = "behind", .device = gpu(0), .access = {read(x), write(y)}, .priority = Priority::urgent},
      [&](Queue queue) { sim_launch(queue, [&] { second = ++order; }); });
  CHECK(eventually([&] { return second == 2; }));
  CHECK(first == 1);
  CHECK(priority_of(urgent) == greatest);
  for (cudaStream_t stream : held) {
    CHECK(priority_of(stream) > greatest);
    CHECK(priority_of(stream) < least);
    sim::release(stream);
  }
  engine.wait_all();
  CHECK(priority_of(stream_of_class(engine, Priority::background)) == least);
  CHECK(priority_of(stream_of_class(engine, Priority::high)) == priority_of(held[0]));
}

TEST_CASE("A task that follows one on the legacy stream comes after what that has put there", "[sim]") {
  const bool same_task_waits = GENERATE(false, true);
  CAPTURE(same_task_waits);
  Sim sim({.devices = 2, .manual = true});
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  Log log;
  engine.push({.name = "pasted", .device = gpu(0), .access = {write(x)}, .legacy_stream = true}, [&](Queue) {
    CHECK(sim::launch(cudaStreamLegacy, [&] { log.add(1); }) == cudaSuccess);
  });
  if (!same_task_waits) {
    engine.push({.name = "after", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
      sim_launch(queue, [&] { log.add(2); });
    });
  }
  sim::hold(cudaStreamLegacy);
  sim::run_all();
  CHECK(log.numbers().empty());
  std::atomic<bool> waited{false};
  std::thread waiter([&] {
    engine.wait(x);
    waited = true;
    log.add(3);
  });
  CHECK(eventually([&] { return engine.counters().waits > 0; }));
  sim::run_all();
  CHECK_FALSE(waited);
  sim::release(cudaStreamLegacy);
  sim::set_manual(false);
  waiter.join();
  CHECK(log.numbers() == (same_task_waits ? std::vector{1, 3} : std::vector{1, 2, 3}));
}

TEST_CASE("T41: a GPU task that enqueues nothing passes on the order of all that it depends on", "[sim]") {
  const std::size_t late = GENERATE(0, 1, 2);
  const bool capturable = GENERATE(false, true);
  CAPTURE(late, capturable);
  Sim sim({.devices = 2, .manual = true});
  sim.keep_batches_open();
  Engine engine({.workers = 1});
  // One stream each, so that no two of them are in order by themselves.
  constexpr std::array k_kinds = {StreamKind::copy_in, StreamKind::copy_out, StreamKind::collective};
  std::array<Var, k_kinds.size()> vars;
  std::array<cudaStream_t, k_kinds.size()> streams{};
  const Var passed = engine.new_var(), end = engine.new_var();
  Log log;
  for (std::size_t i = 0; i < vars.size(); ++i) {
    vars[i] = engine.new_var();
    engine.push(
        {.name = "writes", .device = gpu(0), .access = {write(vars[i])}, .stream = k_kinds[i]}, [&, i](Queue queue) {
          streams[i] = stream_of(queue);
          sim_launch(queue, [&, i] { log.add(static_cast<int>(i)); });
        });
  }
  const Task noise{.name = "noise", .device = gpu(0), .access = {write(end)}, .capturable = true};
  for (int i = 0; i < 8; ++i)  // what comes next is in a batch if it may be
    engine.push(noise, [](Queue queue) { sim_launch(queue, [] {}); });
  engine.push(
      {.name = "nothing",
       .device = gpu(0),
       .access = {read(vars[0]), read(vars[1]), read(vars[2]), out(passed)},
       .capturable = capturable},
      [](Queue) {});
  engine.push(
      {.name = "after", .device = gpu(0), .access = {read(passed)}, .capturable = capturable},
      [&](Queue queue) { sim_launch(queue, [&] { log.add(9); }); });
  engine.flush();
  sim::hold(streams[late]);
  sim::run_all();
  CHECK(log.numbers().size() == 2);
  sim::release(streams[late]);
  sim::run_all();
  CHECK(log.numbers().size() == 4);
  CHECK(log.numbers().back() == 9);
  sim::set_manual(false);
  engine.wait_all();
}

namespace {

/// A sum over two GPUs as a library does it: a kernel on each, of which neither ends before the other has begun.
class Communicator {
 public:
  explicit Communicator(Engine& engine) : order(engine.new_var()) {
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&there_, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaEventCreateWithFlags(&there_done_, cudaEventDisableTiming) == cudaSuccess);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    REQUIRE(cudaEventCreateWithFlags(&here_ready_, cudaEventDisableTiming) == cudaSuccess);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() {
    cudaEventDestroy(here_ready_);
    cudaSetDevice(1);
    cudaEventDestroy(there_done_);
    cudaStreamDestroy(there_);
    cudaSetDevice(0);
  }

  /// All ranks of one collective, from the body of one task.
  void enqueue(const Queue& queue, int number) {
    const cudaStream_t here = stream_of(queue);
    const auto rank = [this, number](int device) {
      return [this, number, device] {
        issued[static_cast<std::size_t>(device)].add(number);
        met_[static_cast<std::size_t>(number)].fetch_add(1);
        met += eventually([&] { return met_[static_cast<std::size_t>(number)] == 2; });
      };
    };
    CHECK(cudaEventRecord(here_ready_, here) == cudaSuccess);
    CHECK(sim::launch(here, rank(0)) == cudaSuccess);
    CHECK(cudaSetDevice(1) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(there_, here_ready_, 0) == cudaSuccess);
    CHECK(sim::launch(there_, rank(1)) == cudaSuccess);
    CHECK(cudaEventRecord(there_done_, there_) == cudaSuccess);
    CHECK(cudaSetDevice(0) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(here, there_done_, 0) == cudaSuccess);
  }

  static constexpr int k_most = 64;
  const Var order;  // every collective writes it
  std::array<Log, 2> issued;
  std::atomic<int> met{0};

 private:
  cudaStream_t there_ = nullptr;
  cudaEvent_t here_ready_ = nullptr, there_done_ = nullptr;
  std::array<std::atomic<int>, k_most> met_{};
};

}  // namespace

TEST_CASE("T58: collectives that threads push in different orders are issued in one order on all GPUs", "[sim]") {
  constexpr int k_each = Communicator::k_most / 2;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    Sim sim(seeded(seed));
    Engine engine({.workers = 2});
    Communicator group(engine);
    std::array<Var, 2> data{engine.new_var(), engine.new_var()};
    const auto push = [&](int number, std::size_t first) {
      engine.push(  // what it works on comes in the order of the pushing thread
          {.name = "compute", .device = gpu(static_cast<int>(first)), .access = {write(data[first])}},
          [](Queue queue) { sim_launch(queue, [] {}); });
      engine.push(
          {.name = "sum",
           .device = gpu(0),
           .access = {write(data[first]), write(data[1 - first]), write(group.order)},
           .stream = StreamKind::collective},
          [&, number](Queue queue) { group.enqueue(queue, number); });
    };
    std::thread other([&] {
      for (int i = k_each - 1; i >= 0; --i)
        push(k_each + i, 1);
    });
    for (int i = 0; i < k_each; ++i)
      push(i, 0);
    other.join();
    engine.wait_all();
    CHECK(group.met == 2 * Communicator::k_most);
    CHECK(group.issued[0].numbers().size() == Communicator::k_most);
    CHECK(group.issued[0].numbers() == group.issued[1].numbers());
  }
}

// Ranks as tasks of their own: what belongs to one GPU writes a Var of that GPU.
TEST_CASE("T58: each GPU issues its ranks in the order of their pushes, whatever their inputs wait for", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    Sim sim(seeded(seed));
    Engine engine({.workers = 2});
    std::array<Var, 2> order{engine.new_var(), engine.new_var()};
    std::array<Log, 2> ran;
    std::vector<std::atomic<int>> met(40);
    std::atomic<int> all_met{0};
    for (int number = 0; number < 40; ++number) {
      for (std::size_t turn = 0; turn < 2; ++turn) {
        const std::size_t device = (turn + static_cast<std::size_t>(number)) % 2;
        const Var input = engine.new_var();
        if (mix(static_cast<std::uint64_t>(number) + seed) % 3 == 0)
          engine.push({.name = "host", .access = {write(input)}}, [] {});
        engine.push(
            {.name = "rank",
             .device = gpu(static_cast<int>(device)),
             .access = {read(input), write(order[device])},
             .stream = StreamKind::collective},
            [&, number, device](Queue queue) {
              sim_launch(queue, [&, number, device] {
                ran[device].add(number);
                std::atomic<int>& here = met[static_cast<std::size_t>(number)];
                ++here;
                all_met += eventually([&] { return here == 2; });
              });
            });
      }
    }
    engine.wait_all();
    CHECK(all_met == 80);
    CHECK(ran[0].numbers() == ran[1].numbers());
    const std::vector<int> in_order = ran[0].numbers();
    CHECK(std::is_sorted(in_order.begin(), in_order.end()));
  }
}

TEST_CASE("Each kind of copy and the collectives have a stream of their own: none waits behind another's", "[sim]") {
  constexpr std::array k_kinds = {
      StreamKind::compute, StreamKind::copy_in, StreamKind::copy_out, StreamKind::copy_peer, StreamKind::collective};
  Sim sim({.devices = 2, .manual = true});
  std::set<cudaStream_t> streams;
  Log ran;  // streams run at the same time
  {
    Engine engine({.workers = 1, .launch = LaunchMode::direct});
    std::array<cudaStream_t, k_kinds.size()> stream_of_kind{};
    for (std::size_t i = 0; i < k_kinds.size(); ++i) {
      for (int round = 0; round < 2; ++round) {
        engine.push({.name = "copy", .device = gpu(0), .access = {}, .stream = k_kinds[i]}, [&, i](Queue queue) {
          stream_of_kind[i] = stream_of(queue);
          sim_launch(queue, [&ran, i] { ran.add(static_cast<int>(i)); });
        });
      }
    }
    streams.insert(stream_of_kind.begin(), stream_of_kind.end());
    CHECK(streams.size() == k_kinds.size());
    for (std::size_t i = 0; i + 1 < k_kinds.size(); ++i)
      sim::hold(stream_of_kind[i]);
    sim::run_all();
    const std::vector<int> so_far = ran.numbers();
    CHECK(std::count(so_far.begin(), so_far.end(), static_cast<int>(k_kinds.size()) - 1) == 2);
    for (std::size_t i = 0; i + 1 < k_kinds.size(); ++i)
      sim::release(stream_of_kind[i]);
    sim::set_manual(false);
    engine.wait_all();
  }
  CHECK(ran.numbers().size() == 2 * k_kinds.size());
}
