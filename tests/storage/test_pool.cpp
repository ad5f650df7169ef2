// Pools of host memory, on a source that tests can make fail.
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <sluice/engine/api.h>
#include <sluice/storage/api.h>

#include "tests/storage/fakes.h"
#include "tests/support/catch.h"

using namespace sluice;
using test::Clock;
using test::make_pool;

TEST_CASE("The bucket rule wastes a quarter at most below a mebibyte and rounds to its step above") {
  for (const bool gpu : {false, true}) {
    const auto rule = detail::bucket_rule(gpu ? 256 : 64, gpu);
    std::size_t before = 0;
    for (std::size_t bytes = 1; bytes <= (1u << 20); bytes += bytes < 5000 ? 1 : 997) {
      const std::size_t size = rule.round(bytes);
      REQUIRE(size >= bytes);
      REQUIRE(size >= before);
      REQUIRE(size % rule.smallest == 0);
      REQUIRE(rule.round(size) == size);
      if (bytes > 4 * rule.smallest) {
        REQUIRE(size - bytes <= bytes / 4);
      }
      before = size;
    }
    REQUIRE(rule.round(1u << 20) == 1u << 20);
    REQUIRE(rule.round((1u << 20) + 1) == (gpu ? std::size_t{2} << 20 : std::size_t{3} << 19));
  }
}

TEST_CASE("A chunk that came back is handed out again") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto owner = make_pool(clock, 1 << 20, out);
  Pool& pool = *owner;
  Chunk first = pool.acquire(1000);
  REQUIRE(first.bytes == 1024);
  REQUIRE(first.requested == 1000);
  REQUIRE(reinterpret_cast<std::uintptr_t>(first.data) % 64 == 0);
  void* const data = first.data;
  pool.release(std::move(first));
  REQUIRE_FALSE(first);  // NOLINT: a released chunk is empty
  Chunk again = pool.acquire(900);
  REQUIRE(again.data == data);
  REQUIRE(pool.stats().source_allocations == 1);
  REQUIRE(pool.acquire(0).data == nullptr);
  pool.release(std::move(again));
}

TEST_CASE("Peaks stay when less is in use, of what was asked for and of what was given") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto pool = make_pool(clock, 1 << 20, out);
  pool->release(pool->acquire(1025));
  Chunk a = pool->acquire(513), b = pool->acquire(400);  // given less than the first one, more than that asked for
  const auto now = pool->stats();
  CHECK(now.active > now.peak_allocated);
  CHECK(now.peak_allocated == 1025);
  CHECK(now.peak_active == 1280);
  pool->release(std::move(a));
  pool->release(std::move(b));
}

TEST_CASE("Pending positions come out with the chunk, and idle memory is preferred") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto owner = make_pool(clock, 1 << 20, out);
  Pool& pool = *owner;
  Chunk a = pool.acquire(100), b = pool.acquire(100), c = pool.acquire(100);
  void* const on_seven = a.data;
  void* const on_eight = b.data;
  void* const idle = c.data;
  a.pending.add(Position(7, 50));
  b.pending.add(Position(8, 60));
  pool.release(std::move(c));
  pool.release(std::move(a));
  pool.release(std::move(b));

  Chunk first = pool.acquire(100);
  REQUIRE(first.data == idle);
  REQUIRE(first.pending.empty());
  Chunk second = pool.acquire(100, std::uint16_t{7});
  REQUIRE(second.data == on_seven);
  REQUIRE(second.pending.size() == 1);
  REQUIRE(*second.pending.begin() == Position(7, 50));
  Chunk third = pool.acquire(100);
  REQUIRE(third.data == on_eight);
  REQUIRE(*third.pending.begin() == Position(8, 60));
  REQUIRE(pool.stats().source_allocations == 3);
  for (Chunk* chunk : {&first, &second, &third})
    pool.release(std::move(*chunk));
}

TEST_CASE("What a GPU has passed comes out with nothing pending, before what it has not") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto owner = make_pool(clock, 1 << 20, out);
  Pool& pool = *owner;
  Chunk a = pool.acquire(100), b = pool.acquire(100);
  void* const early = a.data;
  a.pending.add(Position(1, 10));
  b.pending.add(Position(1, 90));
  pool.release(std::move(a));
  pool.release(std::move(b));
  clock.now = 20;
  Chunk first = pool.acquire(100);
  REQUIRE(first.data == early);
  REQUIRE(first.pending.empty());
  pool.release(std::move(first));
}

TEST_CASE(
    "Memory that a copy still reads is not for computations, nor what they use for copies, while there is other") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto owner = make_pool(clock, 6 * 128, out);
  Pool& pool = *owner;
  const auto leave = [&](Chunk chunk, std::uint16_t stream, std::uint64_t sequence) {
    chunk.pending.add(Position(stream, sequence));
    pool.release(std::move(chunk));
  };
  Chunk a = pool.acquire(100), b = pool.acquire(100);
  void* const computed = a.data;
  void* const copied = b.data;
  leave(std::move(a), 1, 10);
  leave(std::move(b), Clock::k_first_copy_stream, 10);
  // A computation follows a computation and leaves the copy alone; a copy takes new memory.
  Chunk c = pool.acquire(100);
  CHECK(c.data == computed);
  Chunk d = pool.acquire(100);
  CHECK((d.data != computed && d.data != copied));
  leave(std::move(c), 1, 11);
  Chunk e = pool.acquire(100, {}, ChunkUse::copy_target);
  CHECK((e.data != computed && e.data != copied && e.data != d.data));
  leave(std::move(d), Clock::k_first_copy_stream, 12);
  leave(std::move(e), Clock::k_first_copy_stream, 12);
  // With enough of a size cached, one is taken all the same.
  for (int i = 0; i < 20; ++i)
    leave(pool.acquire(100, {}, ChunkUse::copy_target), Clock::k_first_copy_stream, 12);
  CHECK(pool.stats().source_allocations <= 6);
  // What has passed holds up nobody.
  clock.now = 12;
  Chunk f = pool.acquire(100, {}, ChunkUse::copy_target);
  CHECK(f.pending.empty());
  CHECK(pool.stats().source_allocations <= 6);
  pool.release(std::move(f));
}

TEST_CASE("Memory that holds up is taken before memory runs out, and nobody waits") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto owner = make_pool(clock, 128, out);
  Pool& pool = *owner;
  Chunk a = pool.acquire(128);
  void* const only = a.data;
  a.pending.add(Position(Clock::k_first_copy_stream, 5));
  pool.release(std::move(a));
  Chunk b = pool.acquire(128);
  CHECK(b.data == only);
  CHECK(b.pending.size() == 1);
  CHECK(clock.waits == 0);
  CHECK(clock.relieved == 0);
  pool.release(std::move(b));
}

TEST_CASE("A trim leaves what a GPU may still use; the last rung waits for it") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto owner = make_pool(clock, 8192, out);
  Pool& pool = *owner;
  Chunk a = pool.acquire(4096);
  a.pending.add(Position(1, 10));
  pool.release(std::move(a));
  REQUIRE(pool.trim() == 0);
  REQUIRE(out == 4096);
  Chunk large = pool.acquire(8000);
  REQUIRE(large.bytes == 8192);
  REQUIRE(clock.waits == 1);
  REQUIRE(clock.relieved == 2);
  pool.release(std::move(large));
}

TEST_CASE("Statistics follow what is held, cached and given back") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto owner = make_pool(clock, 1 << 20, out);
  Pool& pool = *owner;
  Chunk a = pool.acquire(100), b = pool.acquire(1000);
  MemoryStats stats = pool.stats();
  REQUIRE(stats.allocated == 1100);
  REQUIRE(stats.active == 128 + 1024);
  REQUIRE(stats.reserved == 128 + 1024);
  REQUIRE(stats.allocations == 2);
  pool.release(std::move(b));
  stats = pool.stats();
  REQUIRE(stats.allocated == 100);
  REQUIRE(stats.active == 128);
  REQUIRE(stats.reserved == 128 + 1024);
  REQUIRE(stats.peak_allocated == 1100);
  REQUIRE(stats.releases == 1);
  REQUIRE(pool.trim() == 1024);
  REQUIRE(pool.trim() == 0);
  REQUIRE(pool.stats().reserved == 128);
  REQUIRE(out == 128);
  REQUIRE(pool.stats().peak_reserved == 128 + 1024);
  pool.reset_peaks();
  REQUIRE(pool.stats().peak_reserved == 128);
  REQUIRE(pool.stats().peak_allocated == 100);
  pool.release(std::move(a));
}

TEST_CASE("When memory runs out the cache is given back and the request tried again") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto owner = make_pool(clock, 8192, out);
  Pool& pool = *owner;
  pool.release(pool.acquire(4096));
  pool.release(pool.acquire(2048));
  REQUIRE(pool.stats().reserved == 6144);
  Chunk large = pool.acquire(8192);  // fits only once the cache is gone
  REQUIRE(large.bytes == 8192);
  REQUIRE(pool.stats().trims >= 1);
  REQUIRE(pool.stats().reserved == 8192);
  pool.release(std::move(large));
}

TEST_CASE("Out of memory says what was asked, held, cached and by which sizes, and the pool goes on") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto owner = make_pool(clock, 1 << 20, out);
  Pool& pool = *owner;
  pool.set_limit(8192);
  Chunk a = pool.acquire(2048), b = pool.acquire(2000);
  std::string text;
  try {
    pool.acquire(6000);
  } catch (const OutOfMemory& error) {
    text = error.what();
    REQUIRE(error.requested() == 6000);
  }
  INFO(text);
  REQUIRE(text.find("host memory on cpu(0)") != std::string::npos);
  REQUIRE(text.find("pool bucket") != std::string::npos);
  REQUIRE(text.find("asked 5.86 KiB (chunk of 6.00 KiB)") != std::string::npos);
  REQUIRE(text.find("held 4.00 KiB, cached 0 B (largest 0 B), limit 8.00 KiB") != std::string::npos);
  REQUIRE(text.find("  sizes up to        held             cached\n") != std::string::npos);
  REQUIRE(text.find("     2.00 KiB     2    4.00 KiB     0         0 B") != std::string::npos);
  pool.release(std::move(b));
  Chunk c = pool.acquire(6000);  // the released one makes room
  REQUIRE(c);
  REQUIRE(pool.stats().active == 2048 + 6144);
  pool.release(std::move(a));
  pool.release(std::move(c));
  REQUIRE_THROWS_AS(pool.acquire(~std::size_t{0}), OutOfMemory);
  pool.set_limit(0);
  REQUIRE_THROWS_AS(pool.acquire(std::size_t{1} << 21), OutOfMemory);  // the source itself says no
}

TEST_CASE("A direct pool keeps nothing that no GPU may touch") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  {
    const auto owner = make_pool(clock, 1 << 20, out, "direct");
    Pool& pool = *owner;
    Chunk a = pool.acquire(100);
    REQUIRE(a.bytes == 128);
    pool.release(std::move(a));
    REQUIRE(out == 0);
    REQUIRE(pool.stats().reserved == 0);
    Chunk b = pool.acquire(100);
    b.pending.add(Position(9, 30));
    pool.release(std::move(b));
    REQUIRE(out == 128);
    clock.now = 30;
    Chunk c = pool.acquire(500);
    REQUIRE(out == 512);
    pool.release(std::move(c));
  }
  REQUIRE(out == 0);
}

TEST_CASE("Several threads share a pool without sharing a chunk") {
  Clock clock;
  for (const char* name : {"bucket", "direct", "split", "paged"}) {
    std::atomic<std::size_t> out{0};
    std::atomic<bool> clash{false};
    {
      const auto owner = make_pool(clock, 1 << 24, out, name);
      Pool& pool = *owner;
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
          std::vector<Chunk> mine;
          for (int i = 0; i < 3000; ++i) {
            Chunk chunk = pool.acquire(static_cast<std::size_t>(8 + (i * 37 + t) % 900));
            *static_cast<std::uint64_t*>(chunk.data) = static_cast<std::uint64_t>(t) << 32 | static_cast<unsigned>(i);
            mine.push_back(std::move(chunk));
            if (mine.size() > 8) {
              const std::size_t at = static_cast<std::size_t>(i) % mine.size();
              if (*static_cast<std::uint64_t*>(mine[at].data) >> 32 != static_cast<std::uint64_t>(t))
                clash = true;
              pool.release(std::move(mine[at]));
              mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(at));
            }
            if (i % 500 == 0)
              pool.trim();
          }
          for (Chunk& chunk : mine)
            pool.release(std::move(chunk));
        });
      }
      for (std::thread& thread : threads)
        thread.join();
      REQUIRE_FALSE(clash);
      REQUIRE(pool.stats().active == 0);
      REQUIRE(pool.stats().allocated == 0);
      REQUIRE(pool.stats().allocations == 12000);
      REQUIRE(pool.stats().releases == 12000);
      pool.trim();
      REQUIRE(pool.stats().reserved == 0);
    }
    REQUIRE(out == 0);
  }
}
