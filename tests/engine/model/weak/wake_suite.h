#pragma once

// How workers fall asleep and are woken, with weak memory. A model: it follows announce() and wake() of
// policy_pool.cpp, live(), park(), search() and stop_searching() of pool_worker.cpp, with one lane, two workers and no
// limit of permits, and without the watcher that looks every millisecond: nothing may depend on it. Relacy cannot know
// membarrier(2), so light and heavy fence (fence.h) are both full fences here. A wake-up that is lost leaves everybody
// asleep: a deadlock.
#include "tests/engine/model/weak/words.h"

namespace sluice::weak {

/// What may be left out, to see that it is missed.
enum class WakeFault { none, no_light_fence, no_heavy_fence, looks_before_announcing };

template <WakeFault fault>
struct WakeSuite : rl::test_suite<WakeSuite<fault>, 3> {
  static constexpr int k_tasks = 3;
  Atomic<int> head{0}, tail{0};
  Atomic<int> searching{0}, sleepers{0};
  rl::mutex mutex;
  rl::condition_variable wake_up;
  rl::var<int> parked{0}, tokens{0}, stopping{0}, done{0};

  static constexpr std::memory_order k_relaxed = std::memory_order::relaxed, k_acquire = std::memory_order::acquire,
                                     k_seq_cst = std::memory_order::seq_cst;

  void thread(unsigned index) {
    if (index == 0) {
      for (int i = 0; i < k_tasks; ++i)
        submit(i);
    } else {
      live();
    }
  }

  void submit(int i) {
    tail.store(i + 1, std::memory_order::release);
    if (fault != WakeFault::no_light_fence)
      rl::atomic_thread_fence(rl::mo_seq_cst, $);
    if (sleepers.load(k_relaxed) == 0 || searching.load(k_relaxed) > 0)
      return;
    mutex.lock($);
    wake();
    mutex.unlock($);
  }

  void wake() {
    if (parked($).load() <= tokens($).load())
      return;
    tokens($) = tokens($).load() + 1;
    searching.fetch_add(1, k_seq_cst);
    wake_up.notify_one($);
  }

  bool in_sight() { return head.load(k_acquire) < tail.load(k_acquire); }

  bool take() {
    int at = head.load(k_acquire);
    while (at < tail.load(k_acquire)) {
      if (head.compare_exchange_weak(at, at + 1, std::memory_order::acq_rel, k_acquire))
        return true;
    }
    return false;
  }

  void live() {
    bool me_searching = false;
    for (;;) {
      work(me_searching);
      if (fault != WakeFault::looks_before_announcing)
        announce_sleep();
      mutex.lock($);
      park(me_searching);
      const bool over = stopping($).load() != 0;
      mutex.unlock($);
      if (over)
        return;
    }
  }

  void announce_sleep() {
    if (fault == WakeFault::no_heavy_fence) {
      sleepers.fetch_add(1, k_relaxed);
    } else {
      sleepers.fetch_add(1, k_seq_cst);
      rl::atomic_thread_fence(rl::mo_seq_cst, $);
    }
  }

  void work(bool& me_searching) {
    for (;;) {
      if (take()) {
        if (me_searching)
          stop_searching(me_searching, true);
        mutex.lock($);
        done($) = done($).load() + 1;
        if (done($).load() == k_tasks) {
          stopping($) = 1;
          wake_up.notify_all($);
        }
        mutex.unlock($);
      } else if (!search(me_searching)) {
        return;
      }
    }
  }

  void park(bool& me_searching) {
    bool looked_early = fault == WakeFault::looks_before_announcing && !in_sight();
    if (fault == WakeFault::looks_before_announcing)
      announce_sleep();
    while (stopping($).load() == 0 && ((looked_early || !in_sight()) && !me_searching)) {
      looked_early = false;
      parked($) = parked($).load() + 1;
      wake_up.wait(mutex, $);
      parked($) = parked($).load() - 1;
      if (tokens($).load() > 0) {
        tokens($) = tokens($).load() - 1;
        me_searching = true;
      }
    }
    sleepers.fetch_sub(1, k_seq_cst);
    if (!me_searching)
      searching.fetch_add(1, k_seq_cst);
    me_searching = true;
  }

  bool search(bool& me_searching) {
    if (!me_searching) {
      if (searching.load(k_seq_cst) >= 1)
        return false;
      me_searching = true;
      searching.fetch_add(1, k_seq_cst);
    }
    if (in_sight())
      return true;
    stop_searching(me_searching, false);
    return false;
  }

  void stop_searching(bool& me_searching, bool found) {
    me_searching = false;
    const bool last = searching.fetch_sub(1, k_seq_cst) == 1;
    if (!found || !last || sleepers.load(k_seq_cst) == 0 || !in_sight())
      return;
    mutex.lock($);
    wake();
    mutex.unlock($);
  }

  void after() { RL_ASSERT(done($).load() == k_tasks); }
};

}  // namespace sluice::weak
