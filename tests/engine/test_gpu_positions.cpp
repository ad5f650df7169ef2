// Positions: what memory must wait for before others may have it; and what lives with a stream.
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/expect.h"
#include "tests/engine/gpu_work.h"
#include "tests/support/gate.h"
#include "tests/support/gate_cuda.h"

using namespace sluice;
using namespace sluice::test;

using PinnedWords = PinnedArray<std::uint64_t>;

namespace {

struct KeepingHook final : RetireHook {
  std::atomic<int> calls{0};
  PositionSet kept;
  void on_retire(const PositionSet& pending) noexcept override {
    kept = pending;
    ++calls;
  }
};

}  // namespace

TEST_CASE("T23: a Var retires at issue, and its hook learns what the GPU still has to do", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords word(1);
  KeepingHook written, read_only, untouched;
  Position expected;
  Engine engine({.workers = 1});
  GpuGate gate;
  GpuGateOpensAtEnd opens(gate);
  {
    Var x = engine.new_var({.home = gpu(0), .on_retire = &written});
    Var y = engine.new_var({.home = gpu(0), .on_retire = &read_only});
    Var z = engine.new_var({.home = gpu(0), .on_retire = &untouched});
    engine.push({.name = "work", .device = gpu(0), .access = {write(x), read(y)}}, [&, gate](Queue queue) {
      expected = queue.position();
      gate.hold(queue.stream());
      enqueue_store(queue.stream(), word.data(), 6);
    });
  }
  CHECK(eventually([&] { return written.calls == 1 && read_only.calls == 1 && untouched.calls == 1; }));
  CHECK(untouched.kept.empty());
  for (const KeepingHook* hook : {&written, &read_only}) {
    REQUIRE(hook->kept.size() == 1);
    CHECK(*hook->kept.begin() == expected);
  }
  CHECK_FALSE(detail::EngineAccess::passed(engine, written.kept));
  CHECK(detail::EngineAccess::passed(engine, untouched.kept));
  CHECK_FALSE(gate.gave_up());
  gate.open();
  detail::EngineAccess::wait_passed(engine, written.kept);
  CHECK(word[0] == 6);
  CHECK(detail::EngineAccess::passed(engine, written.kept));
  CHECK_FALSE(gate.gave_up());
}

TEST_CASE("T39: a new Var over used memory waits for its earlier owners, on GPU and CPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  for (const bool on_gpu : {true, false}) {
    PinnedWords words(2);
    KeepingHook hook;
    Engine engine({.workers = 1});
    GpuGate gate;
    GpuGateOpensAtEnd opens(gate);
    {
      Var first = engine.new_var({.home = gpu(0), .on_retire = &hook});
      engine.push({.name = "first owner", .device = gpu(0), .access = {write(first)}}, [&, gate](Queue queue) {
        gate.hold(queue.stream());
        enqueue_store(queue.stream(), &words[0], 13);
      });
    }
    REQUIRE(eventually([&] { return hook.calls == 1; }));
    Var second = engine.new_var({.home = gpu(0), .pending = &hook.kept});
    if (on_gpu) {
      engine.push(
          {.name = "second owner", .device = gpu(0), .access = {out(second)}, .stream = StreamKind::copy_in},
          [&](Queue queue) { enqueue_combine(queue.stream(), &words[1], &words[0]); });
    } else {
      engine.push({.name = "second owner", .access = {out(second)}}, [&] { words[1] = words[0]; });
    }
    gate.open();
    engine.wait(second);
    CHECK(words[1] == 13);
    CHECK_FALSE(gate.gave_up());
  }
}

TEST_CASE("A body can make its stream wait for positions; the host does not wait", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords words(2);
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  PositionSet before;
  GpuGate gate;
  GpuGateOpensAtEnd opens(gate);
  engine.push({.name = "first", .device = gpu(0), .access = {write(x)}}, [&, gate](Queue queue) {
    before.add(queue.position());
    gate.hold(queue.stream());
    enqueue_store(queue.stream(), &words[0], 31);
  });
  engine.push(
      {.name = "second", .device = gpu(0), .access = {write(y)}, .stream = StreamKind::copy_out}, [&](Queue queue) {
        queue.wait_for(before);
        enqueue_combine(queue.stream(), &words[1], &words[0]);
      });
  CHECK_FALSE(gate.gave_up());
  gate.open();
  engine.wait(y);
  CHECK(words[1] == 31);
  CHECK_FALSE(gate.gave_up());
}

TEST_CASE("Positions of one stream grow with each task", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  std::map<std::uint16_t, std::uint64_t> last;
  int wrong = 0;
  for (int i = 0; i < 300; ++i) {
    engine.push({.name = "look", .device = gpu(0), .access = {i % 3 == 0 ? write(x) : read(x)}}, [&](Queue queue) {
      const Position here = queue.position();
      wrong += here && here.sequence() > last[here.stream()] ? 0 : 1;
      last[here.stream()] = here.sequence();
    });
  }
  engine.wait_all();
  CHECK(wrong == 0);
}

TEST_CASE("A stream's slot is made once, belongs to that stream, and goes before it", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  struct Slot {
    explicit Slot(const Queue& queue) : stream(queue.stream()) { ++alive(); }
    ~Slot() { --alive(); }
    static std::atomic<int>& alive() {
      static std::atomic<int> count{0};
      return count;
    }
    void* stream;
    int uses = 0;
  };
  struct Other {
    explicit Other(const Queue&) {}
    int value = 4;
  };
  {
    Engine engine({.workers = 1});
    std::map<void*, Slot*> slots;
    int wrong = 0, uses = 0;
    Var vars[5];
    for (Var& var : vars)
      var = engine.new_var();
    for (int i = 0; i < 100; ++i) {
      const StreamKind kind = i % 4 == 0 ? StreamKind::copy_in : StreamKind::compute;
      engine.push({.name = "use", .device = gpu(0), .access = {write(vars[i % 5])}, .stream = kind}, [&](Queue queue) {
        Slot& slot = queue.slot<Slot>();
        Slot*& known = slots[queue.stream()];
        wrong += slot.stream == queue.stream() && (known == nullptr || known == &slot) ? 0 : 1;
        wrong += queue.slot<Other>().value == 4 ? 0 : 1;
        known = &slot;
        ++slot.uses;
      });
    }
    engine.wait_all();
    for (const auto& [stream, slot] : slots)
      uses += slot->uses;
    CHECK(wrong == 0);
    CHECK(uses == 100);
    CHECK(slots.size() >= 2);
    CHECK(Slot::alive() == static_cast<int>(slots.size()));
  }
  CHECK(Slot::alive() == 0);
}

TEST_CASE("Many threads retire GPU Vars and reuse their positions", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  constexpr int k_threads = 4, k_rounds = 300;
  PinnedWords words(k_threads);
  std::atomic<int> wrong{0};
  Engine engine({.workers = 2});
  std::vector<std::thread> threads;
  for (int t = 0; t < k_threads; ++t) {
    threads.emplace_back([&, t] {
      std::uint64_t* word = &words[static_cast<std::size_t>(t)];
      std::uint64_t expected = 0;
      PositionSet pending;
      for (std::uint64_t i = 0; i < k_rounds; ++i) {
        KeepingHook hook;
        {
          Var owner = engine.new_var({.home = gpu(0), .on_retire = &hook, .pending = &pending});
          engine.push({.name = "own", .device = gpu(0), .access = {out(owner)}}, [word, i](Queue queue) {
            enqueue_append(queue.stream(), word, i, i % 32 == 0 ? 30 : 0);
          });
        }
        wrong += eventually([&] { return hook.calls == 1; }) ? 0 : 1;
        pending = hook.kept;
        expected = 3 * expected + i;
      }
      detail::EngineAccess::wait_passed(engine, pending);
      wrong += *word == expected ? 0 : 1;
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}
