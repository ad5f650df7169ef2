#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <sluice/engine/detail/spin_lock.h>
#include <sluice/engine/detail/static_tls.h>
#include <sluice/engine/detail/thread_end.h>

namespace sluice::detail {

/// Taken before a fork and given back after it, so that the child finds nothing half done.
void hold_over_forks(SpinLock& lock);
/// How many forks lie between this process and the one that it comes from, of those with an engine.
std::uint32_t fork_count() noexcept;

/// Recycled objects of one type for the whole process (magazines and a depot: Bonwick and Adams, 2001). Each thread
/// keeps a magazine; halves of full ones go through the depot, so a thread that only takes and one that only gives
/// meet once in k_batch objects. Memory is never returned: a late look at a recycled object never meets freed memory.
/// `Next` links objects while they are here.
template <class T, T* T::*Next>
class NodePool {
 public:
  /// Throws std::bad_alloc.
  static T* take() {
    Magazine& mine = magazine;
    if (mine.head == nullptr) [[unlikely]]
      refill(mine);
    T* node = mine.head;
    mine.head = node->*Next;
    --mine.count;
    prefetch(mine.head);  // another thread may have had it: fetched by the time it is wanted
    return node;
  }

  static void give(T* node) noexcept {
    Magazine& mine = magazine;
    if (mine.state != State::open) [[unlikely]]
      open(mine);
    node->*Next = mine.head;
    mine.head = node;
    if (++mine.count >= 2 * k_batch || mine.state == State::closed) [[unlikely]]
      spill(mine);
  }

  /// Objects ever made: what tests bound.
  static std::size_t made() {
    Depot& all = depot();
    const std::lock_guard hold(all.lock);
    return all.slabs.size() * k_batch;
  }

  /// Calls visit(object) for each of them, in use or not: what a test that hangs prints. False if somebody has the
  /// depot.
  template <class Visit>
  static bool visit(Visit&& visit) {
    Depot& all = depot();
    if (!all.lock.try_lock())
      return false;
    const std::lock_guard hold(all.lock, std::adopt_lock);
    for (const auto& slab : all.slabs) {
      for (int i = 0; i < k_batch; ++i)
        visit(slab[i]);
    }
    return true;
  }

 private:
  static constexpr int k_batch = 64;
  enum class State : unsigned char { fresh, open, closed };
  struct Magazine {  // trivially destructible: usable to the very end of its thread
    T* head = nullptr;
    int count = 0;
    State state = State::fresh;
  };
  struct Batch {
    T* head;
    int count;
  };
  struct Depot {
    SpinLock lock;
    std::vector<Batch> batches;
    std::vector<std::unique_ptr<T[]>> slabs;
  };
  static void close(void* ended) noexcept {  // gives the magazine of a thread back
    Magazine& mine = *static_cast<Magazine*>(ended);
    mine.state = State::closed;
    spill(mine);
  }

  static Depot& depot() {
    static Depot* all = [] {
      auto made = std::make_unique<Depot>();
      hold_over_forks(made->lock);
      return made.release();  // leaked: threads may outlive static objects
    }();
    return *all;
  }

  static void prefetch(T* node) noexcept {
    for (std::size_t at = 0; at < sizeof(T) && at < 192; at += 64)
      __builtin_prefetch(reinterpret_cast<char*>(node) + at, 1);
  }

  static void open(Magazine& mine) {
    if (mine.state != State::fresh)
      return;
    at_thread_end(close, &mine);
    mine.state = State::open;
  }

  static void refill(Magazine& mine) {
    open(mine);
    Depot& all = depot();
    const std::lock_guard hold(all.lock);
    if (all.batches.empty()) {
      // Room for one batch a slab and one a thread at its end: giving back never calls the heap.
      all.batches.reserve(2 * all.slabs.size() + 66);
      auto slab = std::make_unique<T[]>(k_batch);
      for (int i = 0; i < k_batch; ++i)
        slab[i].*Next = i + 1 < k_batch ? &slab[i + 1] : nullptr;
      all.slabs.push_back(std::move(slab));
      mine.head = all.slabs.back().get();
      mine.count = k_batch;
    } else {
      mine.head = all.batches.back().head;
      mine.count = all.batches.back().count;
      all.batches.pop_back();
    }
    if (mine.state == State::closed && mine.count > 1) {  // one alone: nobody will give back what it does not need
      all.batches.push_back({std::exchange(mine.head->*Next, nullptr), mine.count - 1});
      mine.count = 1;
    }
  }

  // Hands over half of a full magazine, or all of a closed one.
  static void spill(Magazine& mine) noexcept {
    if (mine.head == nullptr)
      return;
    const int given = mine.state == State::closed ? mine.count : k_batch;
    T* first = mine.head;
    T* last = first;
    for (int i = 1; i < given; ++i)
      last = last->*Next;
    mine.head = last->*Next;
    mine.count -= given;
    last->*Next = nullptr;
    Depot& all = depot();
    const std::lock_guard hold(all.lock);
    if (all.batches.size() < all.batches.capacity())
      return all.batches.push_back({first, given});
    Batch& before = all.batches.back();  // many threads have ended with a few each
    last->*Next = std::exchange(before.head, first);
    before.count += given;
  }

  SLUICE_STATIC_TLS static inline thread_local constinit Magazine magazine;
};

}  // namespace sluice::detail
