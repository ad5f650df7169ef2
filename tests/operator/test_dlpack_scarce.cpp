// Exchanges by DLPack where the heap gives nothing: every tensor is given back once all the same.
#include <functional>
#include <new>
#include <thread>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>

#include "tests/operator/dlpack_producer.h"
#include "tests/support/catch.h"
#include "tests/support/scarce.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Calls `attempt` on new threads, whose lists are empty, with one allocation failing after the other, until none does.
/// True if some failed.
bool each_failing(Engine& engine, const std::function<void()>& attempt) {
  for (long nth = 1; nth < 200; ++nth) {
    bool struck = false;
    std::thread([&] {
      const EngineScope inside(engine);
      Scarcity scarcity(nth);
      scarcity.arm();
      try {
        attempt();
      } catch (const std::bad_alloc&) {
      } catch (const OutOfMemory&) {
      }
      scarcity.disarm();
      struck = scarcity.struck();
    }).join();
    if (!struck)
      return nth > 1;
  }
  return false;
}

}  // namespace

TEST_CASE("A tensor is given back once, whichever allocation of its import, use and return fails", "[dlpack]") {
  Engine engine({.workers = 1, .report_failures = false});
  const EngineScope scope(engine);
  VersionedProducer producer({4}, {1}, 4);
  producer.import();  // what the first one makes for good
  int taken = 1;
  CHECK(each_failing(engine, [&] {
    ++taken;
    const NDArray array = producer.import();
    Engine::current().push({.name = "use", .access = {write(array.object()->buffer->var())}}, [] {});
  }));
  engine.wait_all();
  CHECK(taken > 3);
  producer.import();  // by which what was overdue is given back too
  engine.wait_all();
  CHECK(producer.came_back(taken + 1));
}

TEST_CASE("An export that gets no memory leaves the array as it was", "[dlpack]") {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  const NDArray array = full({100}, 2.0F);
  const std::uint64_t live = memory_stats(cpu()).active;
  CHECK(each_failing(engine, [&] { const Consumed<DLManagedTensor> out(to_dlpack(array, {.copy = true})); }));
  engine.wait_all();
  CHECK(memory_stats(cpu()).active == live);
  CHECK(array.object()->buffer->use_count() == 1);
}
