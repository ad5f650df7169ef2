// Segments that are cut and made whole again.
#include <algorithm>
#include <cstdlib>
#include <new>
#include <optional>
#include <random>
#include <vector>

#include <sluice/engine/api.h>
#include <sluice/storage/api.h>

#include "tests/storage/fakes.h"
#include "tests/support/catch.h"

namespace {
thread_local std::size_t calls_of_new = 0;
}

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

// Counts the heap calls of this program's threads.
void* operator new(std::size_t bytes) {
  ++calls_of_new;
  if (void* data = std::malloc(bytes != 0 ? bytes : 1))
    return data;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++calls_of_new;
  return std::malloc(bytes != 0 ? bytes : 1);
}
void operator delete(void* data) noexcept {
  std::free(data);
}
void operator delete(void* data, std::size_t) noexcept {
  std::free(data);
}

using namespace sluice;
using test::Clock;
using test::make_pool;

namespace {

std::size_t streams_of(const MemoryBlock& a, const MemoryBlock& b) {
  PositionSet both;
  for (const Position position : a.pending)
    both.add(position);
  for (const Position position : b.pending)
    both.add(position);
  return both.size();
}

/// What is wrong with the segments of a split pool that has just been tidied; empty if nothing is.
std::string fault_of(const MemorySnapshot& snapshot) {
  std::size_t reserved = 0, active = 0, split = 0;
  for (const MemorySegment& segment : snapshot.segments) {
    std::uintptr_t next = segment.address;
    const MemoryBlock* before = nullptr;
    std::size_t free = 0, live = 0;
    for (const MemoryBlock& block : segment.blocks) {
      if (block.address != next)
        return "a gap or an overlap";
      if (block.bytes == 0 || block.requested > block.bytes)
        return "a block without its bytes";
      next += block.bytes;
      const bool is_free = block.state != MemoryBlock::State::live;
      if (is_free && before != nullptr && before->state != MemoryBlock::State::live && streams_of(*before, block) <= 4)
        return "two free neighbours";
      (is_free ? free : live) += block.bytes;
      before = &block;
    }
    if (next != segment.address + segment.bytes)
      return "the blocks are not the segment";
    reserved += segment.bytes;
    active += live;
    split += live > 0 ? free : 0;
  }
  if (reserved != snapshot.stats.reserved || active != snapshot.stats.active || split != snapshot.stats.inactive_split)
    return "the statistics do not add up";
  return {};
}

}  // namespace

TEST_CASE("A segment is cut to what is asked for and whole again when all came back") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto pool = make_pool(clock, 1 << 20, out, "split");
  Chunk a = pool->acquire(10000), b = pool->acquire(20000), c = pool->acquire(30000);
  REQUIRE(a.bytes == 10240);
  REQUIRE(static_cast<std::byte*>(b.data) == static_cast<std::byte*>(a.data) + a.bytes);
  REQUIRE(pool->stats().source_allocations == 1);
  REQUIRE(pool->stats().reserved == 65536);
  REQUIRE(pool->stats().inactive_split == 65536 - pool->stats().active);
  void* const start = a.data;
  pool->release(std::move(b));
  REQUIRE(fault_of(pool->snapshot()).empty());
  pool->release(std::move(a));
  pool->release(std::move(c));
  REQUIRE(fault_of(pool->snapshot()).empty());
  REQUIRE(pool->snapshot().segments.at(0).blocks.size() == 1);
  Chunk whole = pool->acquire(65536);
  REQUIRE(whole.data == start);
  pool->release(std::move(whole));
  REQUIRE(pool->trim() == 65536);
}

TEST_CASE("The tightest free piece is taken, small chunks have segments of their own") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto pool = make_pool(clock, 1 << 20, out, "split");
  Chunk a = pool->acquire(8192), keep = pool->acquire(2048), b = pool->acquire(4096), keep2 = pool->acquire(2048);
  Chunk small = pool->acquire(100);
  REQUIRE(small.bytes == 256);
  REQUIRE(pool->stats().segments == 2);
  REQUIRE(pool->stats().small.live == 5);
  void* const tight = b.data;
  pool->release(std::move(a));
  pool->release(std::move(b));
  Chunk again = pool->acquire(3900);
  REQUIRE(again.data == tight);
  for (Chunk* chunk : {&keep, &keep2, &small, &again})
    pool->release(std::move(*chunk));
}

TEST_CASE("A merged piece is pending on what both were, and on four streams at most") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto pool = make_pool(clock, 1 << 20, out, "split");
  std::vector<Chunk> chunks;
  for (int i = 0; i < 8; ++i)
    chunks.push_back(pool->acquire(8192));  // 64 KiB: a whole segment
  for (std::uint16_t i = 0; i < 8; ++i) {
    chunks[i].pending.add(Position(static_cast<std::uint16_t>(i + 1), 10u + i));
    pool->release(std::move(chunks[i]));
  }
  MemorySnapshot snapshot = pool->snapshot();
  REQUIRE(fault_of(snapshot).empty());
  REQUIRE(snapshot.segments.at(0).blocks.size() == 2);
  REQUIRE(snapshot.segments.at(0).blocks[0].pending.size() == 4);
  Chunk first = pool->acquire(32768);
  REQUIRE(first.pending.size() == 4);
  pool->release(std::move(first));  // never used: it goes back as it came
  clock.now = 15;                   // 16 and 17 are left
  Chunk large = pool->acquire(65536);
  REQUIRE(pool->stats().source_allocations == 1);
  REQUIRE(large.pending.size() == 2);
  for (const Position position : large.pending)
    REQUIRE(position.sequence() > 15);
  pool->release(std::move(large));
}

TEST_CASE("A piece of the stream that asks is handed out at once, another's after what has passed") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto pool = make_pool(clock, 1 << 20, out, "split");
  Chunk a = pool->acquire(8192), gap = pool->acquire(8192), b = pool->acquire(8192), gap2 = pool->acquire(40960);
  void* const on_seven = a.data;
  void* const on_eight = b.data;
  a.pending.add(Position(7, 50));
  b.pending.add(Position(8, 60));
  pool->release(std::move(a));
  pool->release(std::move(b));
  Chunk eight = pool->acquire(8000, std::uint16_t{8});
  REQUIRE(eight.data == on_eight);
  REQUIRE(*eight.pending.begin() == Position(8, 60));
  pool->release(std::move(eight));
  clock.now = 60;
  Chunk any = pool->acquire(8000);
  REQUIRE((any.data == on_seven || any.data == on_eight));
  REQUIRE(any.pending.empty());
  for (Chunk* chunk : {&gap, &gap2, &any})
    pool->release(std::move(*chunk));
}

TEST_CASE("Who has to wait for a piece gets the one whose work began first") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto pool = make_pool(clock, 1 << 20, out, "split");
  pool->set_limit(3 << 16);
  std::vector<Chunk> chunks;
  std::vector<void*> places;
  for (int i = 0; i < 3; ++i) {
    chunks.push_back(pool->acquire(1 << 16));  // a segment each
    places.push_back(chunks.back().data);
  }
  const std::size_t order[] = {1, 2, 0};
  for (std::size_t i = 0; i < 3; ++i) {
    chunks[order[i]].pending.add(Position(7, 100 + i));
    pool->release(std::move(chunks[order[i]]));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    Chunk next = pool->acquire(1 << 16, {}, ChunkUse::copy_target);
    CHECK(next.data == places[order[i]]);
    chunks[order[i]] = std::move(next);
  }
  for (Chunk& chunk : chunks)
    pool->release(std::move(chunk));
}

TEST_CASE("After any program the pieces cover their segments and no free neighbours are left apart") {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    Clock clock;
    std::atomic<std::size_t> out{0};
    const auto pool = make_pool(clock, std::size_t{1} << 26, out, "split");
    std::mt19937 random(seed);
    std::vector<Chunk> live;
    for (int step = 0; step < 2000; ++step) {
      if (live.size() < 40 && random() % 2 == 0) {
        live.push_back(pool->acquire(
            1 + random() % (random() % 3 == 0 ? 100'000 : 2000), static_cast<std::uint16_t>(random() % 6)));
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        if (random() % 2 == 0)
          live.back().pending.add(Position(static_cast<std::uint16_t>(1 + random() % 6), clock.now + random() % 100));
        pool->release(std::move(live.back()));
        live.pop_back();
      }
      clock.now += random() % 3;
      if (random() % 100 == 0)
        pool->trim();  // tidies
      if (step % 50 == 0) {
        pool->trim();
        REQUIRE(fault_of(pool->snapshot()) == "");
      }
    }
    for (Chunk& chunk : live)
      pool->release(std::move(chunk));
    clock.now = ~std::uint64_t{0} >> 16;
    pool->trim();
    REQUIRE(out == 0);
  }
}

TEST_CASE("Random sizes leave little unused") {
  // The workload of PyTorch's allocator measured beside bench_alloc, a thousandth of its sizes.
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    Clock clock;
    std::atomic<std::size_t> out{0};
    detail::SplitPool pool(
        clock,
        std::make_unique<test::BoundedSource>(std::size_t{1} << 30, out),
        {.small_most = 256, .small_segment = 8192, .large_segment = 80 << 10, .page = 8192});
    std::mt19937 random(seed);
    std::vector<Chunk> live;
    for (int step = 0; step < 30000; ++step) {
      const std::size_t bytes = random() % 2 ? std::size_t{256} << random() % 11 : 1 + random() % 65536;
      live.push_back(pool.acquire(bytes));
      if (live.size() > 64) {
        std::swap(live[random() % 64], live.back());
        pool.release(std::move(live.back()));
        live.pop_back();
      }
    }
    const MemoryStats stats = pool.stats();
    INFO("seed " << seed);
    REQUIRE(static_cast<double>(stats.peak_reserved) < 1.35 * static_cast<double>(stats.peak_allocated));
    for (Chunk& chunk : live)
      pool.release(std::move(chunk));
  }
}

TEST_CASE("Taking memory back never calls the heap, nor does a steady program") {
  for (const char* name : {"bucket", "split", "paged"}) {
    Clock clock;
    std::atomic<std::size_t> out{0};
    INFO(name);
    const auto pool = make_pool(clock, std::size_t{1} << 28, out, name);
    std::mt19937 random(1);
    std::vector<Chunk> live;
    live.reserve(2000);
    for (int i = 0; i < 2000; ++i)
      live.push_back(pool->acquire(1 + random() % 60000));
    for (std::size_t i = 0; i < live.size(); ++i) {
      for (std::uint16_t stream = 0; stream < i % 7; ++stream)
        live[i].pending.add(Position(static_cast<std::uint16_t>(1 + stream + i % 3), 100));
    }
    std::shuffle(live.begin(), live.end(), random);
    const std::size_t before = calls_of_new;
    for (Chunk& chunk : live)
      pool->release(std::move(chunk));
    REQUIRE(calls_of_new == before);
    clock.now = 100;
    Chunk chunk = pool->acquire(5000);
    pool->release(std::move(chunk));
    const std::size_t steady = calls_of_new;
    for (int i = 0; i < 1000; ++i)
      pool->release(pool->acquire(5000));
    REQUIRE(calls_of_new == steady);
  }
}
