#pragma once

// The ring with weak memory: an owner that appends and takes past the ring's end, and two thieves. What a task holds is
// a plain variable, written before it is appended.
#include "tests/engine/model/weak/kits.h"
#include "tests/engine/model/weak/words.h"

namespace sluice::weak {

template <class Kit>
struct RingSuite : rl::test_suite<RingSuite<Kit>, 3> {
  static constexpr int k_tasks = 5;
  struct Task {
    Plain<int> holds{0};
    Atomic<int> taken{0};
  };
  typename Kit::template Ring<Task, 2, Atomic> ring;
  Task tasks[k_tasks];

  void take(Task* task) {
    RL_ASSERT(task != nullptr);
    RL_ASSERT(task->holds == 1);
    task->holds = 2;  // a second taker would race with this one
    RL_ASSERT(task->taken.fetch_add(1, std::memory_order::relaxed) == 0);
  }

  void thread(unsigned index) {
    if (index == 0) {
      for (Task& task : tasks) {
        task.holds = 1;
        if (!ring.append(&task))
          take(&task);
      }
      while (Task* task = ring.take())
        take(task);
      return;
    }
    for (int round = 0; round < 2; ++round) {
      Task* stolen[2];
      const int got = ring.steal(stolen, 2);
      for (int i = 0; i < got; ++i)
        take(stolen[i]);
    }
  }

  void after() {
    for (Task& task : tasks)
      RL_ASSERT(task.taken.load(std::memory_order::relaxed) == 1);
  }
};

}  // namespace sluice::weak
