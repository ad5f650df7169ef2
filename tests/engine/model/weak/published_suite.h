#pragma once

// What threads read while one exchanges it, with weak memory. Objects are plain variables: one that is let go while
// somebody reads it is a race. There are fewer than are published, so that addresses come again, and fewer marks than
// readings, so that marks are added.
#include "tests/engine/model/weak/kits.h"
#include "tests/engine/model/weak/words.h"

namespace sluice::weak {

/// What may be left out, to see that it is missed.
enum class PublishedFault { none, looks_before_exchanging };

template <class Kit, PublishedFault fault>
struct PublishedSuite : rl::test_suite<PublishedSuite<Kit, fault>, 3> {
  static constexpr int k_objects = 3, k_rounds = 3;
  struct Object {
    Plain<int> number{0};
  };
  using Marks = typename Kit::template Marks<Atomic, 1>;
  using Pointer = typename Kit::template Pointer<Object, Atomic>;

  Object objects[k_objects];
  Marks marks;
  Pointer pointer;

  void before() {
    objects[0].number = 1;
    pointer.exchange(&objects[0]);
  }

  void read(unsigned index) {
    const auto outer = pointer.enter(marks, index);
    RL_ASSERT(outer.at->number > 0);
    const auto inner = pointer.enter(marks, index);
    RL_ASSERT(inner.at->number >= outer.at->number);
    Pointer::leave(inner);
    RL_ASSERT(outer.at->number > 0);
    Pointer::leave(outer);
  }

  void publish() {
    bool waits[k_objects] = {};  // to be let go
    int current = 0;
    for (int round = 0; round < k_rounds; ++round) {
      for (int i = 0; i < k_objects; ++i) {
        if (waits[i] && !marks.is_read(&objects[i])) {
          objects[i].number = 0;
          waits[i] = false;
        }
      }
      int next = 0;
      while (next < k_objects && (next == current || waits[next]))
        ++next;
      if (next == k_objects)
        continue;
      objects[next].number = round + 2;
      const bool seen = fault == PublishedFault::looks_before_exchanging && marks.is_read(&objects[current]);
      pointer.exchange(&objects[next]);
      waits[current] = fault != PublishedFault::looks_before_exchanging || seen;
      if (!waits[current])
        objects[current].number = 0;
      current = next;
    }
  }

  void thread(unsigned index) {
    if (index == 0)
      return publish();
    read(index);
    if (index == 1)
      read(index);
  }
};

}  // namespace sluice::weak
