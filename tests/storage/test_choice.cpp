// What the environment chooses, and how a large pool of a GPU grows.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include <sluice/engine/api.h>
#include <sluice/storage/api.h>

#include "tests/storage/fakes.h"
#include "tests/support/catch.h"
#include "tests/support/variable.h"

using namespace sluice;

namespace {

std::string name_of_host_pool() {
  Engine engine;
  return std::string(Storage::of(engine).pool(cpu()).name());
}

/// Counts who waits for a task; none is under way.
struct NoTasks final : detail::Passage {
  bool passed(const PositionSet&) const noexcept override { return done; }
  void wait_passed(const PositionSet&) override { done = true; }
  bool await_task() override {
    ++awaited;
    return false;
  }
  void relieve(Device) override { ++relieved; }
  int awaited = 0, relieved = 0;
  bool done = true;
};

constexpr std::size_t operator""_gib(unsigned long long n) {
  return static_cast<std::size_t>(n) << 30;
}

}  // namespace

TEST_CASE("SLUICE_POOL chooses the pools of who does not, where they fit; empty it says nothing") {
  const std::string usual = StorageOptions().host;
  {
    const test::Variable variable("SLUICE_POOL", "");
    CHECK(name_of_host_pool() == usual);
  }
  for (const char* name : {"split", "direct", "bucket"}) {
    const test::Variable variable("SLUICE_POOL", name);
    CHECK(name_of_host_pool() == name);
  }
  for (const char* name : {"paged", "cuda_async"}) {  // of GPUs alone
    const test::Variable variable("SLUICE_POOL", name);
    CHECK(name_of_host_pool() == usual);
  }
  const test::Variable variable("SLUICE_POOL", "puddle");
  Engine engine;
  CHECK_THROWS_AS(Storage::of(engine), ValueError);
}

TEST_CASE("A large pool of a GPU waits for tasks before it grows beyond half its peak, a smaller one does not") {
  NoTasks tasks;
  detail::SplitPool pool(tasks, std::make_unique<test::AddressSource>(), {});
  pool.release(pool.acquire(32_gib));
  pool.trim();
  REQUIRE(pool.stats().reserved == 0);
  const int before = tasks.awaited;
  Chunk first = pool.acquire(12_gib);
  CHECK(tasks.awaited == before);
  Chunk second = pool.acquire(12_gib);
  CHECK(tasks.awaited > before);
  pool.release(std::move(first));
  pool.release(std::move(second));
}

TEST_CASE("What a direct pool no longer needs goes before everybody's caches do, in a large pool too") {
  NoTasks tasks;
  detail::DirectPool pool(tasks, "direct", detail::exact_rule(256), std::make_unique<test::AddressSource>());
  pool.set_limit(16_gib);
  tasks.done = false;
  Chunk chunk = pool.acquire(12_gib);
  chunk.pending.add(Position(1, 1));
  pool.release(std::move(chunk));
  tasks.done = true;
  Chunk next = pool.acquire(10_gib);
  CHECK(tasks.relieved == 0);
  CHECK(pool.stats().trims == 0);
  pool.release(std::move(next));
}
