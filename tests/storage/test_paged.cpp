// Pages that move: on memory that really does, so that a wrong move shows in what the chunks hold.
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/api.h>
#include <sluice/storage/api.h>

#include "tests/storage/fakes.h"
#include "tests/support/catch.h"
#include "tests/support/gate.h"

using namespace sluice;
using test::Clock;
using test::PagedMemory;

namespace {

constexpr std::size_t k_page = test::HostPages::k_page;

/// A pool over pages, and what it asks.
struct Setup {
  Clock clock;
  std::atomic<std::size_t> out{0};
  PagedMemory memory{clock, std::size_t{1} << 24, out};
  Pool& pool = *memory.pool;

  Setup() = default;
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;
  ~Setup() {  // every chunk is back
    memory.pool.reset();
    CHECK(out == 0);
  }
};

void fill(const Chunk& chunk, int value) {
  std::memset(chunk.data, value, chunk.bytes);
}
bool holds(const Chunk& chunk, int value) {
  const auto* bytes = static_cast<const unsigned char*>(chunk.data);
  for (std::size_t i = 0; i < chunk.bytes; ++i) {
    if (bytes[i] != value)
      return false;
  }
  return true;
}

/// Chunks of two pages side by side, filled with their numbers; every other one given back, pending on `position` if
/// there is one.
std::vector<Chunk> comb(Pool& pool, int count, std::optional<Position> position = {}) {
  std::vector<Chunk> chunks;
  for (int i = 0; i < count; ++i) {
    chunks.push_back(pool.acquire(2 * k_page));
    fill(chunks.back(), i);
  }
  for (std::size_t i = 0; i < chunks.size(); i += 2) {
    if (position)
      chunks[i].pending.add(*position);
    pool.release(std::move(chunks[i]));
  }
  return chunks;
}

std::size_t bytes_of(const MemorySnapshot& snapshot) {
  std::size_t bytes = 0;
  for (const MemorySegment& segment : snapshot.segments)
    bytes += segment.bytes;
  return bytes;
}

void release_all(Pool& pool, std::vector<Chunk>& chunks) {
  for (Chunk& chunk : chunks)
    pool.release(std::move(chunk));
}

}  // namespace

TEST_CASE("Free pages between live chunks move to where a long stretch is wanted") {
  Setup here;
  Pool& pool = here.pool;
  std::vector<Chunk> chunks = comb(pool, 8);
  REQUIRE(pool.stats().reserved == 16 * k_page);
  Chunk large = pool.acquire(8 * k_page);  // as much as is free, nowhere more than two pages of it together
  REQUIRE(pool.stats().reserved == 16 * k_page);
  REQUIRE(here.memory.pages->made == 16);
  fill(large, 99);
  for (std::size_t i = 1; i < 8; i += 2)
    REQUIRE(holds(chunks[i], static_cast<int>(i)));
  REQUIRE(holds(large, 99));
  Chunk more = pool.acquire(k_page);
  REQUIRE(pool.stats().reserved == 17 * k_page);
  pool.release(std::move(large));
  pool.release(std::move(more));
  release_all(pool, chunks);
  REQUIRE(pool.stats().active == 0);
  REQUIRE(pool.trim() == 17 * k_page);
  REQUIRE(here.out == 0);
}

TEST_CASE("A page that work may still use stays until that has passed") {
  Setup here;
  Pool& pool = here.pool;
  std::vector<Chunk> chunks = comb(pool, 8, Position(3, 50));
  Chunk fresh = pool.acquire(8 * k_page);
  REQUIRE(here.memory.pages->made == 24);
  here.clock.now = 50;
  Chunk moved = pool.acquire(8 * k_page);
  REQUIRE(here.memory.pages->made == 24);
  REQUIRE(moved.pending.empty());
  pool.release(std::move(fresh));
  pool.release(std::move(moved));
  release_all(pool, chunks);
}

TEST_CASE("What is pending stays apart, lest a copy waits for more than its own place") {
  Setup here;
  Pool& pool = here.pool;
  std::vector<Chunk> chunks;
  std::vector<void*> places;
  for (int i = 0; i < 3; ++i) {
    chunks.push_back(pool.acquire(2 * k_page));
    places.push_back(chunks.back().data);
  }
  for (std::uint16_t i = 0; i < 3; ++i) {  // side by side, work of one stream
    chunks[i].pending.add(Position(7, 10u + i));
    pool.release(std::move(chunks[i]));
  }
  here.clock.now = 10;
  Chunk first = pool.acquire(2 * k_page, {}, ChunkUse::copy_target);
  REQUIRE(first.data == places[0]);
  REQUIRE(first.pending.empty());
  Chunk both = pool.acquire(4 * k_page, std::uint16_t{7});  // the stream itself: one piece, nothing to wait for
  REQUIRE(both.data == places[1]);
  REQUIRE(here.memory.pages->made == 6);
  pool.release(std::move(first));
  pool.release(std::move(both));
}

TEST_CASE("Who has to wait for a piece waits for its last owner alone, not for its neighbours'") {
  Setup here;
  Pool& pool = here.pool;
  pool.set_limit(6 * k_page);
  std::vector<Chunk> chunks;
  std::vector<void*> places;
  for (int i = 0; i < 3; ++i) {
    chunks.push_back(pool.acquire(2 * k_page));
    places.push_back(chunks.back().data);
  }
  const Position ends[] = {Position(7, 10), Position(Clock::k_first_copy_stream, 11), Position(7, 12)};
  for (std::size_t i = 0; i < 3; ++i) {
    chunks[i].pending.add(ends[i]);
    pool.release(std::move(chunks[i]));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    chunks[i] = pool.acquire(2 * k_page, std::uint16_t{Clock::k_first_copy_stream + 1}, ChunkUse::copy_target);
    REQUIRE(chunks[i].data == places[i]);
    REQUIRE(chunks[i].pending.size() == 1);
    REQUIRE(*chunks[i].pending.begin() == ends[i]);
  }
  REQUIRE(here.clock.waits == 0);
  release_all(pool, chunks);
}

TEST_CASE("A gap is filled where the fewest pages are missing, next to what is free there") {
  Setup here;
  Pool& pool = here.pool;
  Chunk first = pool.acquire(6 * k_page), wall = pool.acquire(k_page), other = pool.acquire(3 * k_page);
  void* const low = first.data;
  Chunk end = pool.acquire(k_page);
  pool.release(std::move(first));
  REQUIRE(pool.trim() == 6 * k_page);  // a gap of six pages
  Chunk third = pool.acquire(2 * k_page);
  REQUIRE(third.data == low);
  pool.release(std::move(third));
  pool.release(std::move(other));
  Chunk five = pool.acquire(5 * k_page);  // two are there, three move
  REQUIRE(five.data == low);
  REQUIRE(pool.stats().reserved == 7 * k_page);
  fill(five, 5);
  for (Chunk* chunk : {&five, &wall, &end})
    pool.release(std::move(*chunk));
}

TEST_CASE("What is free behind a gap is made longer to the front, and what is too long lends its end") {
  Setup here;
  Pool& pool = here.pool;
  Chunk gone = pool.acquire(10 * k_page), idle = pool.acquire(9 * k_page), wall = pool.acquire(k_page);
  auto* const start = static_cast<std::byte*>(idle.data);
  pool.release(std::move(gone));
  REQUIRE(pool.trim() == 10 * k_page);
  pool.release(std::move(idle));
  Chunk twelve = pool.acquire(12 * k_page);
  REQUIRE(static_cast<std::byte*>(twelve.data) == start - 3 * k_page);
  REQUIRE(here.memory.pages->made == 23);
  fill(twelve, 12);
  Chunk rest = pool.acquire(7 * k_page);  // the gap that is left
  fill(rest, 7);
  REQUIRE(holds(twelve, 12));
  for (Chunk* chunk : {&twelve, &rest, &wall})
    pool.release(std::move(*chunk));
}

TEST_CASE("Whole idle pages go back to the system, whatever lies beside them") {
  Setup here;
  Pool& pool = here.pool;
  Chunk a = pool.acquire(k_page / 2), b = pool.acquire(3 * k_page), c = pool.acquire(k_page / 2);
  fill(a, 1);
  fill(c, 3);
  pool.release(std::move(b));
  REQUIRE(pool.trim() == 2 * k_page);  // the third is shared with its neighbours
  REQUIRE(pool.stats().segments == 2);
  REQUIRE(pool.snapshot().segments.size() == 2);
  REQUIRE(holds(a, 1));
  REQUIRE(holds(c, 3));
  pool.release(std::move(a));
  pool.release(std::move(c));
  pool.trim();
  REQUIRE(pool.stats().segments == 0);
  REQUIRE(here.out == 0);
}

TEST_CASE("When a page can be put nowhere, the request fails and everything is as before") {
  for (long maps = 0; maps < 6; ++maps) {
    Setup here;
    Pool& pool = here.pool;
    std::vector<Chunk> chunks = comb(pool, 7);  // the last one is free, six pages would move to it
    here.memory.pages->maps_left = maps;
    REQUIRE_THROWS_AS(pool.acquire(8 * k_page), CudaError);
    here.memory.pages->maps_left = 1L << 40;
    for (std::size_t i = 1; i < 7; i += 2)
      REQUIRE(holds(chunks[i], static_cast<int>(i)));
    INFO("after " << maps << " pages");
    REQUIRE(pool.stats().reserved == bytes_of(pool.snapshot()));
    REQUIRE(here.out == bytes_of(pool.snapshot()));
    const std::size_t made = here.memory.pages->made;
    Chunk same = pool.acquire(2 * k_page);  // the place that was to grow
    REQUIRE(here.memory.pages->made == made);
    pool.release(std::move(same));
    Chunk large = pool.acquire(8 * k_page);
    fill(large, 9);
    pool.release(std::move(large));
    release_all(pool, chunks);
    pool.trim();
    REQUIRE(here.out == 0);
  }
}

TEST_CASE("When there is no memory to put pages somewhere, the ladder is climbed") {
  Setup here;
  Pool& pool = here.pool;
  std::vector<Chunk> chunks = comb(pool, 7);
  here.memory.pages->refuses = true;
  here.memory.pages->maps_left = 3;  // enough for neither attempt
  REQUIRE_THROWS_AS(pool.acquire(8 * k_page), OutOfMemory);
  REQUIRE(here.clock.relieved > 0);
  REQUIRE(here.out == bytes_of(pool.snapshot()));
  here.memory.pages->maps_left = 9;  // for the attempt after the caches have gone back
  Chunk large = pool.acquire(8 * k_page);
  fill(large, 9);
  for (std::size_t i = 1; i < 7; i += 2)
    REQUIRE(holds(chunks[i], static_cast<int>(i)));
  pool.release(std::move(large));
  release_all(pool, chunks);
}

TEST_CASE("What is asked in vain takes no page from others") {
  Setup here;
  Pool& pool = here.pool;
  REQUIRE_THROWS_AS(pool.acquire(std::size_t{1} << 25), OutOfMemory);
  REQUIRE(here.memory.pages->made == 0);
  REQUIRE(pool.stats().peak_reserved == 0);
  REQUIRE(pool.stats().source_allocations == 0);
}

TEST_CASE("Memory on its way back to the system is waited for") {
  struct OpensWhenAsked final : detail::Passage {
    bool passed(const PositionSet&) const noexcept override { return true; }
    void wait_passed(const PositionSet&) override {}
    void relieve(Device) override { gate.open(); }
    test::Gate gate;
  } passage;
  for (const char* name : {"split", "paged"}) {
    std::atomic<std::size_t> out{0};
    passage.gate = test::Gate();
    const test::Gate gate = passage.gate;
    std::unique_ptr<Pool> pool;
    if (name == std::string("paged")) {
      PagedMemory memory(passage, 1 << 20, out);
      memory.pages->on_destroy = [gate] { gate.wait(); };
      pool = std::move(memory.pool);
    } else {
      pool = test::make_pool(passage, 1 << 20, out, name, [gate] { gate.wait(); });
    }
    pool->set_limit(16 * k_page);
    pool->release(pool->acquire(16 * k_page));
    std::thread trimming([&] { pool->trim(); });
    const bool under_way = gate.reached();
    bool served = false;
    try {
      Chunk chunk = pool->acquire(16 * k_page);  // asks everybody for memory, which opens the gate
      served = chunk.data != nullptr;
      pool->release(std::move(chunk));
    } catch (const OutOfMemory&) {
    }
    gate.open();
    trimming.join();
    INFO(name);
    CHECK(under_way);
    CHECK(served);
  }
}

TEST_CASE("A limit is kept, and pages that are idle serve before it is reached") {
  Setup here;
  Pool& pool = here.pool;
  pool.set_limit(16 * k_page);
  std::vector<Chunk> chunks = comb(pool, 8);
  Chunk large = pool.acquire(8 * k_page);
  REQUIRE(pool.stats().trims == 0);
  REQUIRE_THROWS_AS(pool.acquire(2000), OutOfMemory);
  REQUIRE(pool.stats().peak_reserved == 16 * k_page);
  pool.release(std::move(large));
  release_all(pool, chunks);
}

TEST_CASE("Random sizes on pages that move: nothing is damaged and little unused") {
  // bench_alloc's workload, a 2048th of its sizes and pages. Sizes are rounded to 256 bytes, which costs much more
  // here.
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    Setup here;
    Pool& pool = here.pool;
    std::mt19937 random(seed);
    std::vector<std::pair<Chunk, unsigned char>> live;
    std::size_t damaged = 0;
    for (int step = 0; step < 20000; ++step) {
      const std::size_t bytes = random() % 2 ? std::size_t{256} << random() % 8 : 1 + random() % 8192;
      live.emplace_back(pool.acquire(bytes), static_cast<unsigned char>(step));
      fill(live.back().first, live.back().second);
      if (live.size() > 64) {
        std::swap(live[random() % 64], live.back());
        damaged += holds(live.back().first, live.back().second) ? 0 : 1;
        pool.release(std::move(live.back().first));
        live.pop_back();
      }
    }
    const MemoryStats stats = pool.stats();
    INFO("seed " << seed << ", reserved " << stats.peak_reserved << " of " << stats.peak_active);
    REQUIRE(damaged == 0);
    REQUIRE(static_cast<double>(stats.peak_reserved) < 1.15 * static_cast<double>(stats.peak_active));
    for (auto& [chunk, value] : live)
      pool.release(std::move(chunk));
  }
}
