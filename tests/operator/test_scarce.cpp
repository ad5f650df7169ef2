// What eager calls take from the heap: nothing once they are under way, and where it gives nothing, no harm is done.
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sluice/engine/detail/node_pool.h>
#include <sluice/engine/detail/task_node.h>
#include <sluice/operator/api.h>
#include <sluice/storage/api.h>

#include "tests/support/catch.h"
#include "tests/support/scarce.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Case {
  const char* name;
  std::function<NDArray()> call;
};

// Calls on 16 floats; recorded ones leave the tape with their result.
std::vector<Case> cases() {
  const NDArray a = full({16}, 2), b = full({16}, 3), square = full({4, 4}, 2), row = full({4}, 3);
  NDArray variable = full({16}, 2);
  variable.attach_grad();
  return {
      {"add", [=] { return a + b; }},
      {"recorded",
       [=] {
         const autograd::RecordScope record;
         return variable * b;
       }},
      {"number", [=] { return 1 - a; }},
      {"row", [=] { return square + row; }},
      {"unary", [=] { return exp(a); }},
      {"view", [=] { return square[1] + row; }},
      {"sum", [=] { return sum(square, {1}); }},
      {"in place", [=] { return NDArray(a) += 0; }},
      {"cast", [=] { return a.astype(float64); }},
  };
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__)  // under which every array comes from the heap
TEST_CASE("eager calls on a serial engine take nothing from the heap once they are under way", "[eager]") {
  Engine engine({.cpu_policy = CpuMode::serial});
  const EngineScope scope(engine);
  for (const Case& one : cases()) {
    CAPTURE(one.name);
    NDArray kept;
    for (int i = 0; i < 300; ++i)
      kept = one.call();
    const long before = allocations_here();
    for (int i = 0; i < 1000; ++i)
      kept = one.call();
    CHECK(allocations_here() - before == 0);
  }
}
#endif

TEST_CASE("an eager call that gets no memory throws, leaks nothing and may be made again", "[eager]") {
  Engine engine({.cpu_policy = CpuMode::serial});
  const EngineScope scope(engine);
  const std::vector<Case> all = cases();
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].name);
    const std::vector<float> expected = all[i].call().astype(float32).to_vector<float>();
    const std::uint64_t live = memory_stats(cpu()).active;
    for (long nth = 1; nth < 100; ++nth) {
      bool struck = false, good = true;
      // A new thread: its lists are empty, so that those of others are asked, or the heap.
      std::thread([&] {
        const EngineScope inside(engine);
        std::vector<NDArray> held;
        Scarcity scarcity(nth);
        try {
          scarcity.arm();
          for (int n = 0; n < 70; ++n)
            held.push_back(all[i].call());
        } catch (const std::bad_alloc&) {
        } catch (const Error&) {
        }
        scarcity.disarm();
        struck = scarcity.struck();
        held.clear();
        good = all[i].call().astype(float32).to_vector<float>() == expected;
      }).join();
      CHECK(good);
      CHECK(memory_stats(cpu()).active == live);
      if (!struck)
        break;
    }
  }
}

TEST_CASE("a write in place that got no memory is none for gradients that are taken later", "[eager]") {
  using Nodes = detail::NodePool<detail::TaskNode, &detail::TaskNode::next>;
  Engine engine({.cpu_policy = CpuMode::serial});
  const EngineScope scope(engine);
  NDArray variable = full({16}, 2), kept = full({16}, 3), y;
  variable.attach_grad();
  {
    const autograd::RecordScope record;
    y = sum(variable * kept);
  }
  const auto write = [&] { NDArray(kept) += 1; };
  int failures = 0;
  for (bool struck = true; struck;) {
    for (long before = allocations_here(); allocations_here() == before;)
      Nodes::take();
    for (int i = 1; i < 64; ++i)
      Nodes::take();
    Scarcity scarcity(1 + failures);
    bool threw = false;
    scarcity.arm();
    try {
      write();
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    scarcity.disarm();
    struck = scarcity.struck();
    failures += threw ? 1 : 0;
    REQUIRE(threw == struck);
    INFO("at " << Scarcity::where());
    if (threw)
      CHECK_NOTHROW(y.backward({}, {.retain_graph = true}));
    else
      CHECK_THROWS_AS(y.backward(), AutogradError);
  }
  CHECK(failures > 0);
}
