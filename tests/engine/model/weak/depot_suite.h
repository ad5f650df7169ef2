#pragma once

// The engine's spin lock with weak memory, and under it what threads give back to each other's nodes: a model that
// follows refill() and spill() of node_pool.h, with batches of two. A node that two threads take, or that one takes
// before another has written its link, is a race for Relacy to find.
#include "tests/engine/model/weak/kits.h"
#include "tests/engine/model/weak/words.h"

namespace sluice::weak {

/// What may be left out, to see that it is missed.
enum class DepotFault { none, takes_without_lock, gives_without_lock, keeps_link };

template <class Kit, DepotFault fault>
struct DepotSuite : rl::test_suite<DepotSuite<Kit, fault>, 3> {
  static constexpr int k_nodes = 4, k_batch = 2;
  struct Node {
    Plain<Node*> next;
    Plain<int> owner{-1};
  };
  struct Rest {
    static void rest(int) { rl::yield(1, $); }
  };
  struct Magazine {
    Node* head = nullptr;
    int count = 0;
  };

  Node nodes[k_nodes];
  typename Kit::template Lock<Atomic, Rest> lock;
  Plain<Node*> batches[k_nodes];  // each of two nodes
  Plain<int> batch_count{0};

  void before() {
    for (int i = 0; i < k_nodes; i += k_batch) {
      nodes[i].next = &nodes[i + 1];
      batches[i / k_batch] = &nodes[i];
    }
    batch_count = k_nodes / k_batch;
  }

  bool refill(Magazine& mine) {
    if (fault != DepotFault::takes_without_lock)
      lock.lock();
    const int left = batch_count - 1;
    if (left >= 0) {
      mine.head = batches[left];
      mine.count = k_batch;
      batch_count = left;
    }
    if (fault != DepotFault::takes_without_lock)
      lock.unlock();
    return left >= 0;
  }

  void spill(Magazine& mine) {
    Node* const first = mine.head;
    Node* const last = first->next;
    mine.head = last->next;
    mine.count -= k_batch;
    if (fault != DepotFault::keeps_link)
      last->next = nullptr;
    if (fault != DepotFault::gives_without_lock)
      lock.lock();
    batches[batch_count] = first;
    batch_count = batch_count + 1;
    if (fault != DepotFault::gives_without_lock)
      lock.unlock();
  }

  // Takes up to two nodes, marks them, gives them back in another order than they came.
  void thread(unsigned index) {
    Magazine mine;
    for (int round = 0; round < 2; ++round) {
      if (!refill(mine))
        continue;
      RL_ASSERT(mine.count == k_batch);
      Node* const first = mine.head;
      Node* const second = first->next;
      RL_ASSERT(static_cast<Node*>(second->next) == nullptr);
      for (Node* node : {first, second}) {
        RL_ASSERT(node->owner == -1);
        node->owner = static_cast<int>(index);
      }
      for (Node* node : {first, second}) {
        RL_ASSERT(node->owner == static_cast<int>(index));
        node->owner = -1;
      }
      second->next = first;
      first->next = nullptr;
      mine.head = second;
      if (fault == DepotFault::keeps_link)
        first->next = second;
      spill(mine);
    }
  }

  void after() {
    RL_ASSERT(batch_count == k_nodes / k_batch);
    bool found[k_nodes] = {};
    for (int i = 0; i < batch_count; ++i) {
      for (Node* node = batches[i]; node != nullptr; node = node->next) {
        RL_ASSERT(!found[node - nodes]);
        found[node - nodes] = true;
      }
    }
    for (const bool each : found)
      RL_ASSERT(each);
  }
};

}  // namespace sluice::weak
