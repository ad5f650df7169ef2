// The ring of a worker: owner and thieves together.
#include <memory>
#include <thread>
#include <vector>

#include <sluice/engine/detail/ring.h>

#include "tests/support/catch.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Item {
  std::uint64_t number = 0;  // written before it is appended: ThreadSanitizer sees what the ring hands on
  std::atomic<int> times_taken{0};
};

template <std::uint64_t Size>
using TestRing = detail::BasicRing<Item, Size, std::atomic>;

// One thread's takes. Those of one thief come in the order of the ring, since the head only moves on.
struct Taken {
  std::uint64_t count = 0;
  std::uint64_t last = 0;
  bool in_order = true;

  void note(Item* item) {
    in_order = in_order && (count == 0 || item->number > last);
    last = item->number;
    ++count;
    item->times_taken.fetch_add(1, std::memory_order_relaxed);
  }
};

template <std::uint64_t Size>
void owner_and_thieves(int items, int thieves, unsigned owner_takes_every) {
  auto ring = std::make_unique<TestRing<Size>>();
  std::vector<Item> all(static_cast<std::size_t>(items));
  std::atomic<bool> over{false};
  std::vector<Taken> taken(static_cast<std::size_t>(thieves) + 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < thieves; ++t) {
    threads.emplace_back([&, t] {
      Taken& mine = taken[static_cast<std::size_t>(t)];
      while (!over.load(std::memory_order_acquire) || ring->size() > 0) {
        Item* out[32];
        const int limit = 1 + t * 7;
        const int got = ring->steal(out, limit);
        if (got > limit)
          mine.in_order = false;
        for (int i = 0; i < got; ++i)
          mine.note(out[i]);
        if (got == 0)
          std::this_thread::yield();
      }
    });
  }
  Taken& mine = taken.back();
  for (std::size_t i = 0; i < all.size();) {
    all[i].number = i + 1;
    if (ring->append(&all[i])) {
      ++i;
      if (owner_takes_every == 0 || i % owner_takes_every != 0)
        continue;
    }
    if (Item* item = ring->take())
      mine.note(item);
  }
  while (Item* item = ring->take())
    mine.note(item);
  over.store(true, std::memory_order_release);
  for (std::thread& thread : threads)
    thread.join();
  std::uint64_t total = 0;
  for (const Taken& one : taken) {
    CHECK(one.in_order);
    total += one.count;
  }
  CHECK(total == all.size());
  std::size_t wrong = 0;
  for (const Item& item : all)
    wrong += item.times_taken != 1 ? 1 : 0;
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("T8: a ring is first in, first out, past its end, and full at its size") {
  TestRing<4> ring;
  Item items[12];
  CHECK(ring.take() == nullptr);
  std::size_t put = 0, got = 0;
  for (int round = 0; round < 3; ++round) {
    while (put - got < 4)
      CHECK(ring.append(&items[put++ % 12]));
    CHECK_FALSE(ring.append(&items[put % 12]));
    CHECK(ring.size() == 4);
    for (int i = 0; i < 3; ++i)
      CHECK(ring.take() == &items[got++ % 12]);
    CHECK(ring.size() == 1);
  }
}

TEST_CASE("T8: thieves take half, rounded up, from the head, and no more than they want") {
  TestRing<8> ring;
  Item items[8];
  Item* out[8] = {};
  CHECK(ring.steal(out, 8) == 0);
  for (Item& item : items)
    REQUIRE(ring.append(&item));
  CHECK(ring.steal(out, 8) == 4);
  CHECK(out[0] == &items[0]);
  CHECK(out[3] == &items[3]);
  CHECK(ring.steal(out, 1) == 1);
  CHECK(out[0] == &items[4]);
  CHECK(ring.steal(out, 8) == 2);
  CHECK(ring.steal(out, 8) == 1);
  CHECK(out[0] == &items[7]);
  CHECK(ring.steal(out, 8) == 0);
}

TEST_CASE("T8: owner and thieves take each task once, around the end of a small ring") {
  owner_and_thieves<4>(scaled(400'000), 3, 3);
  owner_and_thieves<2>(scaled(200'000), 2, 2);
}

TEST_CASE("T8: owner and thieves take each task once, in a ring of the size that workers have") {
  owner_and_thieves<256>(scaled(1'000'000), 3, 2);
  owner_and_thieves<256>(scaled(500'000), 2, 0);  // the owner only when it is full
}
