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

using namespace sluice;

namespace {

class PoolVariable {
 public:
  explicit PoolVariable(const char* value) { setenv("SLUICE_POOL", value, 1); }
  PoolVariable(const PoolVariable&) = delete;
  PoolVariable& operator=(const PoolVariable&) = delete;
  ~PoolVariable() { unsetenv("SLUICE_POOL"); }
};

std::string name_of_host_pool() {
  Engine engine;
  return std::string(Storage::of(engine).pool(cpu()).name());
}

/// Addresses of a GPU that nobody reads or writes.
class Addresses final : public detail::Source {
 public:
  Addresses() : Source(gpu(0), MemoryKind::device, 256) {}
  void* allocate(std::size_t bytes) override {
    next_ += bytes;
    return reinterpret_cast<void*>(next_ - bytes);
  }
  void deallocate(void*) noexcept override {}

 private:
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
};

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
    const PoolVariable variable("");
    CHECK(name_of_host_pool() == usual);
  }
  for (const char* name : {"split", "direct", "bucket"}) {
    const PoolVariable variable(name);
    CHECK(name_of_host_pool() == name);
  }
  for (const char* name : {"paged", "cuda_async"}) {  // of GPUs alone
    const PoolVariable variable(name);
    CHECK(name_of_host_pool() == usual);
  }
  const PoolVariable variable("puddle");
  Engine engine;
  CHECK_THROWS_AS(Storage::of(engine), ValueError);
}

TEST_CASE("A large pool of a GPU waits for tasks before it grows beyond half its peak, a smaller one does not") {
  NoTasks tasks;
  detail::SplitPool pool(tasks, std::make_unique<Addresses>(), {});
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
  detail::DirectPool pool(tasks, "direct", detail::exact_rule(256), std::make_unique<Addresses>());
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
