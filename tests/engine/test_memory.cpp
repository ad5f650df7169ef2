// What the engine asks of the heap: nothing once it is warm, and no more nodes than tasks are alive.
#include <array>
#include <cstdlib>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/detail/node_pool.h>
#include <sluice/engine/detail/task_node.h>
#include <sluice/engine/pending_wait.h>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

// -- Every call of the heap in this program --

namespace {
std::atomic<std::uint64_t> heap_calls{0};
}

#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define SLUICE_COUNTS_HEAP 1
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

__attribute__((visibility("default"))) void* malloc(std::size_t bytes) {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void* calloc(std::size_t count, std::size_t bytes) {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
__attribute__((visibility("default"))) void* realloc(void* block, std::size_t bytes) {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(block, bytes);
}
__attribute__((visibility("default"))) void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
}
#endif

namespace {

#if SLUICE_COUNTS_HEAP
constexpr bool k_counts_heap = true;
#else
constexpr bool k_counts_heap = false;
#endif

constexpr int k_most_accesses = 8;

struct Load {
  explicit Load(const EngineOptions& options) : engine(options) {
    for (int i = 0; i < 2 * k_most_accesses; ++i)
      vars.push_back(engine.new_var());
  }

  Engine engine;
  std::vector<Var> vars;
  Task like{.name = "steady"};  // all that is pushed, but for its Vars
  std::atomic<std::uint64_t> runs{0};
  Gate together;

  // Tasks with `accesses` Vars, every third of which is written; a body of so many bytes.
  template <std::size_t Bytes>
  void push(int accesses, int tasks) {
    for (int i = 0; i < tasks; ++i) {
      Task task = like;
      for (int k = 0; k < accesses; ++k) {
        const Var& var = vars[static_cast<std::size_t>((i + k) % (2 * k_most_accesses))];
        task.access.push_back((i + k) % 3 == 0 ? write(var) : read(var));
      }
      std::array<char, Bytes> payload{};
      payload[0] = 1;
      engine.push(std::move(task), [this, payload] {
        runs.fetch_add(static_cast<std::uint64_t>(payload[0]), std::memory_order_relaxed);
      });
    }
  }
  // One such task for each worker: none ends before all run, so each thread gives back a node of this kind.
  template <std::size_t Bytes>
  void meet(int accesses) {
    together = Gate();
    Task task = like;
    for (int k = 0; k < accesses; ++k)
      task.access.push_back(read(vars[static_cast<std::size_t>(k)]));
    for (int i = 0; i < engine.workers(); ++i) {
      std::array<char, Bytes> payload{};
      engine.push(task, [this, payload] { together.wait(); });
    }
    CHECK(together.reached(engine.workers()));
    together.open();
    engine.wait_all();
  }
  template <std::size_t Bytes>
  void steady(int accesses, int tasks) {
    constexpr int k_alive = 500;
    for (int done = 0; done < tasks; done += k_alive) {
      push<Bytes>(accesses, std::min(k_alive, tasks - done));
      engine.wait(vars[0]);
      engine.wait_all();
    }
  }
};

// As many tasks alive at once as ever will be, several times, so that every thread has had all that it needs.
void warm_up(Load& load, bool pool) {
  for (int round = 0; round < 10; ++round) {
    Gate gate;
    OpensAtEnd opens(gate);
    if (pool) {
      for (const Var& var : load.vars)
        load.engine.push({.name = "holds", .access = {write(var)}}, [gate] { gate.wait(); });
    }
    for (const int accesses : {0, 5, 8}) {
      load.push<8>(accesses, 1000);
      load.push<200>(accesses, 1000);
    }
    gate.open();
    load.engine.wait_all();
  }
  for (int accesses = 0; pool && accesses <= k_most_accesses; ++accesses) {
    load.meet<8>(accesses);
    load.meet<200>(accesses);
  }
}

struct Node {
  Node* next = nullptr;
  std::atomic<int> owners{0};
};
using Nodes = detail::NodePool<Node, &Node::next>;

Node* take_alone(std::atomic<int>& shared) {
  Node* node = Nodes::take();
  if (node->owners.fetch_add(1) != 0)
    ++shared;
  return node;
}
void give_alone(Node* node, std::atomic<int>& shared) {
  if (node->owners.fetch_sub(1) != 1)
    ++shared;
  Nodes::give(node);
}

}  // namespace

TEST_CASE("T44: steady pushes and waits never call the heap") {
  if (!k_counts_heap)
    SLUICE_SKIP("a sanitizer has the heap");
  for (const CpuMode policy : {CpuMode::pool, CpuMode::serial}) {
    Load load({.workers = 2, .cpu_policy = policy});
    warm_up(load, policy == CpuMode::pool);
    const std::uint64_t runs_before = load.runs;
    for (int accesses = 0; accesses <= k_most_accesses; ++accesses) {
      const std::uint64_t before = heap_calls;
      load.steady<8>(accesses, 28'000);
      const std::uint64_t small = heap_calls - before;
      load.steady<200>(accesses, 28'000);
      const std::uint64_t large = heap_calls - before - small;
      INFO(to_string(policy) << ", " << accesses << " accesses");
      CHECK(small == 0);
      CHECK(large == 0);
    }
    CHECK(load.runs - runs_before == 9 * 2 * 28'000);
  }
}

TEST_CASE("T44: what few tasks have besides is recycled: stop tokens, other classes, traces") {
  if (!k_counts_heap)
    SLUICE_SKIP("a sanitizer has the heap");
  constexpr int k_tasks = 28'000;
  for (const CpuMode policy : {CpuMode::pool, CpuMode::serial}) {
    const bool pool = policy == CpuMode::pool;
    std::stop_source stop;
    Load load({.workers = 2, .cpu_policy = policy});
    load.like.stop = stop.get_token();
    load.like.priority = Priority::high;
    INFO(to_string(policy));
    warm_up(load, pool);
    const std::uint64_t before = heap_calls;
    load.steady<8>(4, k_tasks);
    CHECK(heap_calls - before == 0);
    // A trace keeps what it notes, in chunks of 128.
    load.engine.start_trace();
    load.like = {.name = "traced"};
    warm_up(load, pool);
    const std::uint64_t untraced = heap_calls;
    load.steady<8>(4, k_tasks);
    CHECK(heap_calls - untraced <= k_tasks / 128 + 1);
    CHECK(load.engine.stop_trace().events().size() >= k_tasks);
  }
}

namespace {
struct CountsEnds final : WaitObserver {
  std::atomic<int> ends{0};
  void complete(std::exception_ptr error) noexcept override { ends += error == nullptr ? 1 : 0; }
};
}  // namespace

TEST_CASE("T44: waits that occupy no thread never call the heap") {
  if (!k_counts_heap)
    SLUICE_SKIP("a sanitizer has the heap");
  Load load({.workers = 2});
  CountsEnds counts;
  int started = 0;
  auto wait_often = [&](int times) {
    for (int i = 0; i < times; ++i) {
      load.push<8>(2, 1);
      PendingWait(read(load.vars[0]), counts).start();
      ++started;
      while (started - counts.ends.load() > 100)
        std::this_thread::yield();
    }
    load.engine.wait_all();
    while (counts.ends.load() < started)
      std::this_thread::yield();
  };
  warm_up(load, true);
  wait_often(20'000);
  const std::uint64_t before = heap_calls;
  wait_often(20'000);
  CHECK(heap_calls - before == 0);
}

TEST_CASE("T44: the counter sees calls of the heap") {
  if (!k_counts_heap)
    SLUICE_SKIP("a sanitizer has the heap");
  Engine engine({.workers = 1});
  const std::uint64_t before = heap_calls;
  engine.push({.name = "large"}, [large = std::array<char, 20'000>{}] { static_cast<void>(large); });
  engine.wait_all();
  CHECK(heap_calls - before >= 1);
}

TEST_CASE("T45: one thread takes and another gives: no more nodes than are alive, and a few batches") {
  constexpr std::size_t k_alive = 200;
  const std::size_t before = Nodes::made();
  std::vector<std::atomic<Node*>> passed(k_alive);
  std::atomic<int> shared{0};
  const int nodes = scaled(1'000'000);
  std::thread giver([&] {
    for (int i = 0; i < nodes; ++i) {
      auto& place = passed[static_cast<std::size_t>(i) % k_alive];
      Node* node = nullptr;
      while ((node = place.exchange(nullptr)) == nullptr)
        std::this_thread::yield();
      give_alone(node, shared);
    }
  });
  for (int i = 0; i < nodes; ++i) {
    auto& place = passed[static_cast<std::size_t>(i) % k_alive];
    while (place.load() != nullptr)
      std::this_thread::yield();
    place.store(take_alone(shared));
  }
  giver.join();
  CHECK(shared == 0);
  CHECK(Nodes::made() - before <= k_alive + 6 * 64);  // two magazines of up to 128, and the batch between them
}

TEST_CASE("T45: threads that end with other threads' nodes leave them to the next ones") {
  std::atomic<int> shared{0};
  std::vector<Node*> kept;
  std::size_t after_first = 0;
  for (int round = 0; round < scaled(2000); ++round) {
    std::vector<Node*> foreign = std::exchange(kept, {});
    std::thread thread([&] {
      for (Node* node : foreign)
        give_alone(node, shared);
      for (int i = 0; i < 150; ++i)
        kept.push_back(take_alone(shared));
      for (int i = 0; i < 50; ++i) {
        give_alone(kept.back(), shared);
        kept.pop_back();
      }
    });
    thread.join();
    if (round == 20)
      after_first = Nodes::made();
  }
  for (Node* node : kept)
    give_alone(node, shared);
  CHECK(shared == 0);
  if (after_first != 0)
    CHECK(Nodes::made() <= after_first + 2 * 64);
}

TEST_CASE("T45: what a thread takes at its very end takes no more with it") {
  struct AtEnd {
    std::vector<Node*>* taken = nullptr;
    ~AtEnd() {
      if (taken != nullptr)
        taken->push_back(Nodes::take());
    }
  };
  constexpr std::size_t k_threads = 300;
  const std::size_t before = Nodes::made();
  std::vector<Node*> taken;
  for (std::size_t i = 0; i < k_threads; ++i) {
    std::thread([&] {
      static thread_local AtEnd at_end;  // goes after the magazine, which is asked for later
      at_end.taken = &taken;
      Nodes::give(Nodes::take());
    }).join();
  }
  REQUIRE(taken.size() == k_threads);
  CHECK(Nodes::made() <= before + k_threads + 64);
  for (Node* node : taken)
    Nodes::give(node);
}

TEST_CASE("T45: pushing threads come and go: the engine makes no more task nodes than are alive") {
  using Tasks = detail::NodePool<detail::TaskNode, &detail::TaskNode::next>;
  Engine engine({.workers = 2});
  std::atomic<int> runs{0};
  std::size_t after_some = 0;
  const int rounds = scaled(300);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::thread> pushers;
    for (int t = 0; t < 3; ++t) {
      pushers.emplace_back([&] {
        Var own = engine.new_var();
        for (int i = 0; i < 100; ++i)
          engine.push({.name = "one", .access = {write(own)}}, [&] { ++runs; });
      });
    }
    for (std::thread& pusher : pushers)
      pusher.join();
    engine.wait_all();
    if (round == rounds / 10)
      after_some = Tasks::made();
  }
  CHECK(runs == rounds * 300);
  // Never more than 300 alive; the rest may lie in the magazines of two workers and three pushers.
  CHECK(Tasks::made() <= after_some + 300 + 5 * 128);
}
