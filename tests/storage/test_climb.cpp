// What is tried on the way up to OutOfMemory, and in which order pieces that were merged come.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <sluice/engine/api.h>
#include <sluice/storage/api.h>

#include "tests/storage/fakes.h"
#include "tests/support/catch.h"

using namespace sluice;
using test::Clock;
using test::make_pool;

namespace {

/// Keeps what it gets back, as the driver's own pool does, until it is told to let go.
class KeepingSource final : public detail::MemorySource {
 public:
  KeepingSource(std::size_t most, int& trims) : MemorySource(cpu(), MemoryKind::host, 64), left_(most), trims_(trims) {}
  void* allocate(std::size_t bytes) override {
    if (bytes > left_)
      return nullptr;
    left_ -= bytes;
    return test::take_sized(bytes);
  }
  void deallocate(void* data) noexcept override { kept_ += test::give_sized(data); }
  std::size_t trim() noexcept override {
    ++trims_;
    left_ += kept_;
    return std::exchange(kept_, 0);
  }

 private:
  std::size_t left_, kept_ = 0;
  int& trims_;
};

/// Tasks that finish for ever, and free nothing.
struct Endless final : detail::Passage {
  static constexpr int k_live = 5;
  bool passed(const PositionSet&) const noexcept override { return passes > 0; }
  void wait_passed(const PositionSet&) override { ++passes; }
  void relieve(Device) override {}
  bool await_task() override {
    if (++waits > 1000)
      throw std::runtime_error("it waits without end");
    return true;
  }
  std::uint64_t live_tasks() const override { return k_live; }
  std::chrono::nanoseconds longest_wait() const override { return {}; }

  int waits = 0, passes = 0;
};

}  // namespace

TEST_CASE("What the source itself keeps is asked for before memory is said to be out") {
  Clock clock;
  int trims = 0;
  detail::ShelfPool pool(
      clock, detail::bucket_rule(64, false), std::make_unique<KeepingSource>(std::size_t{1} << 20, trims));
  pool.release(pool.acquire(700 << 10));
  Chunk other = pool.acquire(600 << 10);  // room for one of the two
  CHECK(other.data != nullptr);
  CHECK(trims == 1);
  CHECK(pool.stats().out_of_memory == 0);
  CHECK(clock.waits == 0);
  pool.release(std::move(other));
}

TEST_CASE("What is beyond the limit is out of memory at once, and nobody waits") {
  for (const char* name : {"bucket", "direct", "split", "paged"}) {
    Endless others;
    std::atomic<std::size_t> out{0};
    const auto pool = make_pool(others, 1 << 22, out, name);
    pool->set_limit(1 << 20);
    Chunk held = pool->acquire(1 << 19);
    INFO(name);
    CHECK_THROWS_AS(pool->acquire((1 << 20) + 1), OutOfMemory);
    CHECK(others.waits == 0);
    CHECK(pool->stats().out_of_memory == 1);
    pool->release(std::move(held));
    if (name == std::string_view("direct"))  // which keeps nothing
      continue;
    Chunk whole = pool->acquire(1 << 20);
    pool->set_limit(1 << 19);  // what was got before has room still
    pool->release(std::move(whole));
    Chunk again = pool->acquire(1 << 20);
    CHECK(again.data != nullptr);
    pool->release(std::move(again));
  }
}

TEST_CASE("What was got before a limit is waited for beyond it, where work is pending there") {
  for (const char* name : {"split", "paged"}) {
    INFO(name);
    Clock clock;
    std::atomic<std::size_t> out{0};
    const auto pool = make_pool(clock, 1 << 22, out, name);
    pool->release(pool->acquire(1 << 20));
    Chunk halves[] = {pool->acquire(1 << 19), pool->acquire(1 << 19)};
    const std::size_t reserved = pool->stats().reserved;
    pool->set_limit(1 << 18);
    std::uint16_t stream = 3;
    for (Chunk& half : halves) {
      half.pending.add(Position(stream++, 50));
      pool->release(std::move(half));
    }
    Chunk whole = pool->acquire(1 << 20);
    CHECK(whole.data != nullptr);
    CHECK(pool->stats().reserved <= reserved);
    pool->release(std::move(whole));
  }
}

TEST_CASE("Who is short of memory waits for as many tasks as are under way, not for others that come without end") {
  for (const char* name : {"bucket", "split"}) {
    Endless others;
    std::atomic<std::size_t> out{0};
    const auto pool = make_pool(others, 1 << 20, out, name);
    pool->set_limit(1 << 20);
    Chunk held = pool->acquire(1 << 19);
    Chunk pending = pool->acquire(1 << 17);
    pending.pending.add(Position(1, 7));
    pool->release(std::move(pending));
    INFO(name);
    CHECK_THROWS_AS(pool->acquire(1 << 20), OutOfMemory);
    CHECK(others.waits == Endless::k_live + 2);
    CHECK(others.passes == 1);  // what is pending is waited for all the same
    pool->release(std::move(held));
  }
}

TEST_CASE("Where a segment of the usual size has no room, one of the size asked for is made") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto pool = make_pool(clock, 1 << 20, out, "split");
  pool->set_limit(40 << 10);  // a usual segment has 64 KiB
  Chunk chunk = pool->acquire(30 << 10);
  CHECK(chunk.data != nullptr);
  CHECK(pool->stats().reserved == 32 << 10);
  CHECK(pool->stats().trims == 0);
  CHECK_THROWS_AS(pool->acquire(30 << 10), OutOfMemory);
  pool->release(std::move(chunk));
}

TEST_CASE("A merged piece is as young as the younger of the two: who has to wait takes what came back before it") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto pool = make_pool(clock, 1 << 20, out, "split");
  pool->set_limit(2 << 16);
  Chunk left = pool->acquire(1 << 15), right = pool->acquire(1 << 15), other = pool->acquire(1 << 16);
  const void* const merged = left.data;
  const void* const before = other.data;
  REQUIRE(static_cast<std::byte*>(right.data) == static_cast<std::byte*>(left.data) + (1 << 15));
  left.pending.add(Position(7, 100));
  other.pending.add(Position(7, 101));
  right.pending.add(Position(7, 102));
  pool->release(std::move(left));
  pool->release(std::move(other));
  pool->release(std::move(right));
  Chunk first = pool->acquire(1 << 16, {}, ChunkUse::copy_target);
  CHECK(first.data == before);
  Chunk second = pool->acquire(1 << 16, {}, ChunkUse::copy_target);
  CHECK(second.data == merged);
  pool->release(std::move(first));
  pool->release(std::move(second));
}
