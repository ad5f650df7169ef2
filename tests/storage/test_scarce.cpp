// The host's memory runs out inside a pool: each allocation of a program fails once. What the pool says it holds is
// what it holds, it goes on, and in the end all is back where it came from.
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "tests/storage/fakes.h"
#include "tests/support/catch.h"
#include "tests/support/scarce.h"

using namespace sluice;
using test::Clock;

namespace {

constexpr std::size_t k_sizes[] = {100, 3000, 5000, 70'000, 700, 20'000, 131'072, 64, 9000, 40'000, 300'000, 2500};

/// Takes and gives back, with work pending on several streams, some of it until memory has run out.
struct Program {
  Pool& pool;
  Clock& clock;
  std::vector<Chunk> held = {};
  std::uint64_t turn = 0;

  void acquire(std::size_t bytes) {
    try {
      held.push_back(pool.acquire(bytes, static_cast<std::uint16_t>(1 + turn % 3)));
    } catch (const std::bad_alloc&) {
    } catch (const OutOfMemory&) {
    }
  }
  void release(std::size_t at, int streams) {
    if (at >= held.size())
      return;
    std::swap(held[at], held.back());
    for (int i = 0; i < streams; ++i) {
      try {
        held.back().pending.add(Position(static_cast<std::uint16_t>(1 + i), ++turn));
      } catch (const std::bad_alloc&) {
      }
    }
    pool.release(std::move(held.back()));
    held.pop_back();
  }
  void run() {
    for (int i = 0; i < 70; ++i)  // more pieces than are made at a time
      acquire(64);
    for (int round = 0; round < 3; ++round) {
      for (const std::size_t bytes : k_sizes)
        acquire(bytes);
      for (std::size_t at = 0; at < held.size(); at += 2)
        release(at, static_cast<int>(turn % 6));
      clock.now = turn / 2;
      for (int i = 0; i < 6; ++i)
        acquire(150'000);
      trim();
    }
  }
  void trim() {
    try {
      pool.trim();
    } catch (const std::bad_alloc&) {
    }
  }
  void end() {
    while (!held.empty())
      release(held.size() - 1, 0);
    clock.now = turn;
    trim();
  }
};

}  // namespace

TEST_CASE("T48: a pool keeps its books and loses no memory whichever allocation on the host fails") {
  for (const char* name : {"split", "paged", "bucket", "direct"}) {
    INFO(name);
    int failed = 0;
    long n = 1;
    for (bool struck = true; struck; ++n) {
      test::Scarcity scarcity(n);
      Clock clock;
      std::atomic<std::size_t> out{0};
      {
        const auto pool = test::make_pool(clock, std::size_t{1} << 20, out, name);
        Program program{*pool, clock};
        program.held.reserve(256);  // what is taken is not lost here
        scarcity.arm();
        program.run();
        scarcity.disarm();
        struck = scarcity.struck();
        INFO("allocation " << n << " failed: " << test::Scarcity::where());
        REQUIRE(pool->stats().reserved == out);
        program.end();
        REQUIRE(pool->stats().allocated == 0);
        REQUIRE(pool->stats().reserved == 0);
        REQUIRE(out == 0);
        program.acquire(200'000);  // all is well again
        REQUIRE(program.held.size() == 1);
        program.end();
      }
      REQUIRE(out == 0);
      failed += struck ? 1 : 0;
    }
    CHECK(failed > 0);
  }
}

namespace {

/// Has no memory, and throws that it has none to say so.
class ThrowingSource final : public detail::MemorySource {
 public:
  ThrowingSource() : MemorySource(cpu(), MemoryKind::host, 64) {}
  void* allocate(std::size_t) override { throw std::bad_alloc(); }
  void deallocate(void*) noexcept override {}
};

}  // namespace

TEST_CASE("A source that throws takes no nodes with it, however often") {
  Clock clock;
  detail::SplitPool pool(clock, std::make_unique<ThrowingSource>(), {});
  CHECK_THROWS_AS(pool.acquire(5000), std::bad_alloc);
  const long before = test::allocations_here();
  bool all = true;
  for (int i = 0; i < 500; ++i) {
    try {
      pool.acquire(5000);
      all = false;
    } catch (const std::bad_alloc&) {
    }
  }
  CHECK(all);
  CHECK(test::allocations_here() - before < 8);
  CHECK(pool.stats().reserved == 0);
}
