// Memory of other libraries as a pool of one chunk: who gives it back, and when.
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/storage/foreign.h>
#include <sluice/storage/storage.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

struct Lender {
  std::vector<std::byte> memory = std::vector<std::byte>(256);
  std::atomic<int> returned{0};

  ForeignMemory lent() {
    return {
        .data = memory.data(),
        .bytes = memory.size(),
        .give_back = [](void* self) noexcept { ++static_cast<Lender*>(self)->returned; },
        .context = this};
  }
};

}  // namespace

TEST_CASE("A foreign pool has one chunk, and gives what the device's own pool has after it", "[foreign]") {
  Engine engine({.workers = 1});
  Pool& own = Storage::of(engine).pool(cpu());
  Lender lender;
  {
    const ForeignLoan loan(engine, lender.lent());
    Pool& pool = loan.pool();
    CHECK(pool.name() == "foreign");
    Chunk foreign = pool.acquire(256), other = pool.acquire(100);
    CHECK(foreign.data == lender.memory.data());
    CHECK(foreign.bytes == 256);
    CHECK(foreign.requested == 256);
    CHECK(foreign.pool == &pool);
    CHECK(other.pool == &own);
    CHECK(pool.stats().allocated == 100);
    other.pool->release(std::move(other));
    foreign.pool->release(std::move(foreign));
    CHECK_FALSE(foreign);
    CHECK(lender.returned == 0);  // as long as the loan may name the pool
  }
  CHECK(lender.returned == 1);
  CHECK(own.stats().allocated == 0);
}

TEST_CASE("Foreign memory goes back with its chunk or its loan, whichever is last", "[foreign]") {
  Engine engine({.workers = 1});
  Lender lender, unused, silent;
  Chunk chunk;
  {
    const ForeignLoan loan(engine, lender.lent()), never(engine, unused.lent());
    chunk = loan.pool().acquire(256);
  }
  CHECK(unused.returned == 1);
  CHECK(lender.returned == 0);
  chunk.pool->release(std::move(chunk));
  CHECK(lender.returned == 1);
  ForeignMemory nobody = silent.lent();
  nobody.give_back = nullptr;
  { const ForeignLoan loan(engine, nobody); }
  CHECK(silent.returned == 0);
}

TEST_CASE("Foreign memory goes back once, however loan and chunk end at the same time", "[foreign]") {
  Engine engine({.workers = 1});
  constexpr int k_turns = 2000;
  Lender lender;
  std::atomic<ForeignLoan*> ending{nullptr};
  std::thread other([&] {
    for (int turn = 0; turn < k_turns; ++turn) {
      ForeignLoan* loan = nullptr;
      while ((loan = ending.exchange(nullptr)) == nullptr)
        std::this_thread::yield();
      delete loan;
    }
  });
  for (int turn = 0; turn < k_turns; ++turn) {
    auto* const loan = new ForeignLoan(engine, lender.lent());
    Chunk chunk = loan->pool().acquire(256);
    while (ending.load() != nullptr)
      std::this_thread::yield();
    ending = loan;
    chunk.pool->release(std::move(chunk));
  }
  other.join();
  CHECK(lender.returned == k_turns);
}
