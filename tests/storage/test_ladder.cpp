// What happens before OutOfMemory is thrown: caches first, then the oldest work, one after another.
#include <string>
#include <vector>

#include <sluice/engine/api.h>
#include <sluice/storage/api.h>

#include "tests/storage/fakes.h"
#include "tests/support/catch.h"

using namespace sluice;
using test::Clock;
using test::make_pool;

TEST_CASE("The work that has been pending for longest is waited for, and no more than is needed") {
  for (const char* name : {"bucket", "direct"}) {
    Clock clock;
    std::atomic<std::size_t> out{0};
    const auto pool = make_pool(clock, 1 << 20, out, name);
    pool->set_limit(4 * 4096);
    std::vector<Chunk> chunks;
    for (int i = 0; i < 4; ++i)
      chunks.push_back(pool->acquire(4096));
    // The third one came back first.
    const int order[] = {2, 0, 3};
    for (std::uint16_t i = 0; i < 3; ++i) {
      Chunk& chunk = chunks[static_cast<std::size_t>(order[i])];
      chunk.pending.add(Position(static_cast<std::uint16_t>(5 + i), 100u + i));
      pool->release(std::move(chunk));
    }
    Chunk large = pool->acquire(2 * 4096);  // two of the three must go
    INFO(name);
    REQUIRE(clock.waits == 2);
    REQUIRE(clock.waited.at(0) == Position(5, 100));
    REQUIRE(clock.waited.at(1) == Position(6, 101));
    REQUIRE(pool->stats().retries == 1);
    REQUIRE(pool->stats().out_of_memory == 0);
    REQUIRE(pool->stats().reserved == 4 * 4096);
    pool->release(std::move(large));
    pool->release(std::move(chunks[1]));
  }
}

TEST_CASE("Caches go before anybody waits, and everybody is asked for theirs") {
  for (const char* name : {"bucket", "split", "paged"}) {
    Clock clock;
    std::atomic<std::size_t> out{0};
    const auto pool = make_pool(clock, 1 << 20, out, name);
    pool->set_limit(128 << 10);
    Chunk idle = pool->acquire(64 << 10), busy = pool->acquire(64 << 10);
    busy.pending.add(Position(1, 10));
    pool->release(std::move(idle));
    pool->release(std::move(busy));
    Chunk next = pool->acquire(40 << 10);
    INFO(name);
    REQUIRE(clock.waits == 0);
    Chunk all = pool->acquire(60 << 10, std::uint16_t{1});
    REQUIRE(clock.waits == 0);  // the stream itself waits
    REQUIRE(pool->stats().out_of_memory == 0);
    pool->release(std::move(next));
    pool->release(std::move(all));
    Chunk whole = pool->acquire(128 << 10);  // needs all that there is
    if (name != std::string("paged")) {      // whose idle pages come together
      REQUIRE(pool->stats().retries >= 1);
      REQUIRE(clock.relieved >= 1);
    }
    REQUIRE_THROWS_AS(pool->acquire(1), OutOfMemory);
    REQUIRE(pool->stats().out_of_memory == 1);
    pool->release(std::move(whole));
    Chunk after = pool->acquire(1);
    REQUIRE(after.data != nullptr);
    pool->release(std::move(after));
  }
}

TEST_CASE("A split pool gives idle segments back before it reaches a new peak, unless it may keep them") {
  for (const std::size_t threshold : {std::size_t{0}, std::size_t{1} << 20}) {
    Clock clock;
    std::atomic<std::size_t> out{0};
    detail::SplitPool pool(
        clock,
        std::make_unique<test::BoundedSource>(1 << 22, out),
        {.small_most = 1024,
         .small_segment = 8192,
         .large_segment = 65536,
         .page = 4096,
         .release_threshold = threshold});
    pool.release(pool.acquire(60'000));
    Chunk large = pool.acquire(100'000);
    REQUIRE(pool.stats().reserved == (threshold == 0 ? 102'400u : 102'400u + 65'536u));
    REQUIRE(pool.stats().trims == 0);
    pool.release(std::move(large));
  }
}

TEST_CASE("What GPU work has passed counts as idle only then") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto pool = make_pool(clock, 1 << 20, out, "split");
  Chunk a = pool->acquire(10'000), b = pool->acquire(10'000);
  a.pending.add(Position(3, 7));
  pool->release(std::move(a));
  pool->release(std::move(b));
  REQUIRE(pool->trim() == 0);
  clock.now = 7;
  REQUIRE(pool->trim() == 65536);
}

TEST_CASE("Limits and sizes are chosen with the strategies") {
  Engine engine;
  Storage& storage = Storage::of(engine);
  storage.configure({.host = "split", .host_limit = 1 << 20, .segment_bytes = 1 << 19});
  Pool& pool = storage.pool(cpu());
  REQUIRE_THROWS_AS(pool.acquire(2 << 20), OutOfMemory);
  REQUIRE_THROWS_AS(storage.configure({.host = "split"}), ValueError);  // other segments than those in use
  REQUIRE_THROWS_AS(storage.configure({.host = "split", .segment_bytes = 0}), ValueError);
  REQUIRE_THROWS_AS(
      storage.configure({.host = "split", .segment_bytes = 1 << 19, .release_threshold = 1 << 18}), ValueError);
  storage.configure({.host = "split", .host_limit = 8 << 20, .segment_bytes = 1 << 19});
  Chunk chunk = pool.acquire(3 << 20);
  REQUIRE(chunk.bytes >= (3u << 20));
  pool.release(std::move(chunk));
}

TEST_CASE("An unknown strategy is refused with the names that there are") {
  Engine engine;
  Storage& storage = Storage::of(engine);
  const auto text_of = [&](const StorageOptions& options) -> std::string {
    try {
      storage.configure(options);
    } catch (const ValueError& error) {
      return error.what();
    }
    return "";
  };
  REQUIRE(
      text_of({.host = "cuda_async"}).find("for host memory; there are bucket, direct, split") != std::string::npos);
  REQUIRE(text_of({.device = "arena"}).find("bucket, direct, split, paged, cuda_async") != std::string::npos);
  storage.configure({.device = "cuda_async"});
  REQUIRE(pool_names() == std::vector<std::string>{"bucket", "direct", "split"});
  REQUIRE(pool_names(MemoryKind::device).back() == "cuda_async");
}

namespace {

/// Tasks that hold a chunk each; the oldest finishes when somebody waits for one.
struct Backlog final : detail::Passage {
  bool passed(const PositionSet&) const noexcept override { return true; }
  void wait_passed(const PositionSet&) override {}
  void relieve(Device) override {}
  bool await_task() override {
    ++waits;
    if (held.empty())
      return false;
    pool->release(std::move(held.front()));
    held.erase(held.begin());
    return true;
  }

  Pool* pool = nullptr;
  std::vector<Chunk> held;
  int waits = 0;
};

}  // namespace

TEST_CASE("A program that pushes far ahead reuses what its first tasks held, instead of filling the GPU's memory") {
  constexpr std::size_t k_chunk = std::size_t{1} << 30;
  Backlog backlog;
  detail::SplitPool pool(backlog, std::make_unique<test::AddressSource>(), {});
  backlog.pool = &pool;
  for (int i = 0; i < 100; ++i)
    backlog.held.push_back(pool.acquire(k_chunk));
  CHECK(pool.stats().peak_reserved == 8 * k_chunk);
  CHECK(backlog.waits == 92);

  // Without tasks there is nothing to wait for: arrays that are there to stay get what they ask for.
  std::vector<Chunk> kept;
  for (Chunk& chunk : backlog.held)
    kept.push_back(std::move(chunk));
  backlog.held.clear();
  kept.push_back(pool.acquire(k_chunk));
  CHECK(backlog.waits == 93);
  CHECK(pool.stats().reserved == 9 * k_chunk);
  for (Chunk& chunk : kept)
    pool.release(std::move(chunk));
}
