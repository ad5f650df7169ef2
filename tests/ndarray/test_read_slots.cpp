// The places that small reads land in, with threads in the role of kernels.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <sluice/ndarray/detail/read_slots.h>

#include "tests/support/catch.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::detail;
using namespace sluice::test;

namespace {

std::atomic<int> slabs_out{0};

void* allocate(std::size_t bytes) {
  ++slabs_out;
  return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
}

void release(void* memory) noexcept {
  --slabs_out;
  std::free(memory);
}

/// What the kernel does: bytes, then the flag.
void land(ReadSlot& slot, std::uint64_t value) {
  for (std::size_t at = 0; at < ReadSlot::k_bytes; at += sizeof value)
    std::memcpy(slot.data + at, &value, sizeof value);
  std::atomic_ref<std::uint64_t>(*slot.flag).store(slot.sequence, std::memory_order_release);
}

}  // namespace

TEST_CASE("A slot has room for its bytes, aligned, and nothing has landed in it yet") {
  {
    ReadSlots slots(allocate, release);
    std::set<std::byte*> seen;
    std::vector<ReadSlotRef> held;
    for (int i = 0; i < 40; ++i) {
      held.push_back(slots.take());
      ReadSlot& slot = *held.back();
      CHECK(reinterpret_cast<std::uintptr_t>(slot.data) % 16 == 0);
      CHECK_FALSE(slot.landed());
      for (std::byte* other : seen)
        CHECK(std::abs(other - slot.data) >= static_cast<std::ptrdiff_t>(ReadSlot::k_bytes + sizeof(std::uint64_t)));
      seen.insert(slot.data);
      std::memset(slot.data, i, ReadSlot::k_bytes);
    }
    CHECK(slabs_out > 0);
    for (int i = 0; i < 40; ++i)
      CHECK(held[static_cast<std::size_t>(i)]->data[ReadSlot::k_bytes - 1] == std::byte(i));
  }
  CHECK(slabs_out == 0);
}

TEST_CASE("A slot comes again once both who held it have let go, and not before") {
  ReadSlots slots(allocate, release);
  std::byte* first = nullptr;
  std::uint64_t sequence = 0;
  {
    ReadSlotRef mine = slots.take();
    first = mine->data;
    sequence = mine->sequence;
    ReadSlotRef body = mine.share();
    ReadSlotRef moved = std::move(body);
    { const ReadSlotRef gone = std::move(mine); }
    CHECK(slots.take()->data != first);  // the body still holds it
  }
  const ReadSlotRef again = slots.take();
  CHECK(again->data == first);
  CHECK(again->sequence != sequence);
  CHECK_FALSE(again->landed());
}

TEST_CASE("A slot whose kernel was launched is not handed out before the kernel has written its flag") {
  ReadSlots slots(allocate, release);
  ReadSlot* late = nullptr;
  {
    const ReadSlotRef slot = slots.take();
    slot->launched = true;
    late = &*slot;
  }
  {
    std::vector<ReadSlotRef> held;
    for (int i = 0; i < 20; ++i) {
      held.push_back(slots.take());
      CHECK(&*held.back() != late);
    }
  }
  land(*late, 1);
  CHECK(slots.take().share()->home == &slots);
  std::vector<ReadSlotRef> held;
  bool found = false;
  for (std::size_t i = 0; i < slots.count(); ++i) {
    held.push_back(slots.take());
    found |= &*held.back() == late;
  }
  CHECK(found);
}

TEST_CASE("Whoever sees the flag sees the bytes, from many threads at once, in few slots") {
  ReadSlots slots(allocate, release);
  constexpr int k_threads = 4, k_rounds = 500;
  std::atomic<int> wrong{0};
  const auto reader = [&](int number) {
    for (int round = 0; round < k_rounds; ++round) {
      const ReadSlotRef slot = slots.take();
      const auto value = static_cast<std::uint64_t>(number * k_rounds + round + 1);
      std::thread kernel([held = slot.share(), value] {
        held->launched = true;
        land(*held, value);
      });
      if (!eventually([&] { return slot->spin_until_landed(std::chrono::microseconds(50)); }))
        ++wrong;
      std::uint64_t last = 0;
      std::memcpy(&last, slot->data + ReadSlot::k_bytes - sizeof last, sizeof last);
      wrong += last != value ? 1 : 0;
      kernel.join();
    }
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < k_threads; ++i)
    readers.emplace_back(reader, i);
  for (std::thread& thread : readers)
    thread.join();
  CHECK(wrong == 0);
  CHECK(slots.count() == 16);
}

TEST_CASE("Spinning ends when nothing lands") {
  ReadSlots slots(allocate, release);
  CHECK_FALSE(slots.take()->spin_until_landed(std::chrono::microseconds(50)));
}
