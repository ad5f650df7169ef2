#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

namespace sluice::detail {

/// How a Var stands; changed under its lock only.
enum class VarMode : std::uint8_t {
  idle,            // nothing granted, nothing queued
  reading_open,    // readers active (perhaps none any more), nothing queued: a further read joins
  reading_closed,  // readers active, something queued: everything queues
  writing,         // a writer, or a thread that holds the right to advance
};

/// How accesses enter Vars and leave them. A task's Vars are locked together, in one order, while its accesses
/// are queued, so all queues agree with one total order of pushes and nothing can wait in a circle; leaving needs one
/// lock at a time. Pushers append to a Var's inbox under its lock; whoever holds the right to advance owns `run`, a
/// private list that it fills from the inbox. A node is in no list once it was granted. Reads of a Var share, writes
/// exclude, first come, first served.
///
/// `Host` is told what comes of it: grant(access); with the lock held joined(var) when readers may join, and idle(var),
/// which gives the lock up; came_in(var, access) with the lock held and came_next(var, access) for a writer that gets
/// in. `Var` and `Access` may be a checker's own.
template <class Host, class Var, class Access>
struct VarProtocol {
  /// Queues `count` accesses, sorted by Var, each Var once. Returns how many were granted on the spot.
  static int enter(Host& host, Access* accesses, int count, unsigned shard) {
    if (try_gates(host, accesses, count, shard)) {
      int granted = 0;
      for (int i = 0; i < count; ++i)
        granted += accesses[i].gated() || append(host, accesses[i]) ? 1 : 0;
      unlock(accesses, count);
      return granted;
    }
    // A writer has closed a gate meanwhile.
    return enter_locked(host, accesses, count, [] {});
  }

  /// The same through no gate: all Vars are locked, in order. Calls entered() before it unlocks them: at that moment
  /// the task has its place in the total order of pushes, and nobody can have come after it.
  template <class Entered>
  static int enter_locked(Host& host, Access* accesses, int count, Entered&& entered) {
    for (int i = 0; i < count; ++i)
      accesses[i].var->lock.lock();
    int granted = 0;
    for (int i = 0; i < count; ++i)
      granted += append(host, accesses[i]) ? 1 : 0;
    entered();
    unlock(accesses, count);
    return granted;
  }

  /// Reads alone, sorted by Var, each Var once: lets all of them in on the spot, as enter() would, or none. False: as
  /// if nothing had been tried.
  static bool try_read(Host& host, Access* accesses, int count, unsigned shard) {
    if (!try_gates(host, accesses, count, shard))
      return false;
    bool all = true;
    for (int i = 0; all && i < count; ++i)
      all = accesses[i].gated() || takes_readers(accesses[i].var);
    for (int i = 0; all && i < count; ++i) {
      if (!accesses[i].gated())
        append(host, accesses[i]);
    }
    unlock(accesses, count);
    for (int i = 0; !all && i < count; ++i) {  // with no lock held: who leaves may have to advance
      if (accesses[i].gated())
        leave(host, accesses[i], shard);
    }
    return all;
  }

  /// The same of one access, with its Var's lock held. True if granted.
  static bool append_locked(Host& host, Access& access) { return append(host, access); }

  /// Ends a granted access.
  static void leave(Host& host, Access& access, unsigned shard) {
    if (access.exclusive()) {
      advance(host, access.var);
    } else if (access.gated()) {
      leave_gate(host, access.var, shard);
    } else {
      Var* var = access.var;
      if (var->readers.fetch_sub(1, std::memory_order_seq_cst) == 1)
        last_reader(host, var);
    }
  }

  /// With the lock held, in mode reading_open: nobody joins from now on. True if nobody reads any more.
  static bool close(Var* var) {
    shut_gate(var);
    // Closing and counting pair with leaving and looking at the mode: one of the two sees the other.
    var->mode.store(VarMode::reading_closed, std::memory_order_seq_cst);
    return readers_gone(var);
  }

  static bool readers_gone(const Var* var) {
    return var->readers.load(std::memory_order_seq_cst) == 0 && (var->gate == nullptr || var->gate->empty());
  }

  /// With the lock held, in mode reading_open: true if readers have come and gone, and none can come by a gate. Then
  /// nobody is left who would have to see the mode change.
  static bool nobody_reads(const Var* var) {
    return var->gate == nullptr && var->readers.load(std::memory_order_acquire) == 0;
  }

 private:
  // With the lock held: a read would be let in.
  static bool takes_readers(const Var* var) {
    const VarMode mode = var->mode.load(std::memory_order_relaxed);
    return mode == VarMode::idle || mode == VarMode::reading_open;
  }

  static void shut_gate(Var* var) {
    if (var->gate_open.load(std::memory_order_relaxed))
      var->gate_open.store(false, std::memory_order_seq_cst);
  }

  static void unlock(Access* accesses, int count) {
    for (int i = 0; i < count; ++i) {
      if (!accesses[i].gated())
        accesses[i].var->lock.unlock();
    }
  }

  // Reads of hot Vars enter by the gate, while every other Var of the task is locked: a gate passed is a shared lock
  // kept to the end of the task, so that pushes stay atomic. False if one has closed: nothing is held then.
  // The gates of Vars to be written close before any is passed: of two tasks that read each other's output one sees it,
  // otherwise each would pass, queue behind the other and wait for ever.
  static bool try_gates(Host& host, Access* accesses, int count, unsigned shard) {
    int gates = 0;
    for (int i = 0; i < count; ++i) {
      const bool open = !accesses[i].exclusive() && accesses[i].var->gate_open.load(std::memory_order_acquire);
      accesses[i].set_gated(open);
      gates += open ? 1 : 0;
      if (!open)
        accesses[i].var->lock.lock();
    }
    if (gates == 0) [[likely]]
      return true;
    for (int i = 0; i < count; ++i) {
      if (accesses[i].exclusive())
        shut_gate(accesses[i].var);
    }
    int passed = 0;
    for (; passed < count; ++passed) {
      if (!accesses[passed].gated())
        continue;
      accesses[passed].var->gate->enter(shard);
      if (!accesses[passed].var->gate_open.load(std::memory_order_seq_cst))
        break;
    }
    if (passed == count)
      return true;
    unlock(accesses, count);
    for (int i = 0; i <= passed; ++i) {
      if (accesses[i].gated())
        leave_gate(host, accesses[i].var, shard);
    }
    for (int i = 0; i < count; ++i)
      accesses[i].set_gated(false);
    return false;
  }

  // With the lock held. True if granted.
  static bool append(Host& host, Access& access) {
    Var* var = access.var;
    const VarMode mode = var->mode.load(std::memory_order_relaxed);
    if (access.exclusive()) {
      if (mode == VarMode::idle || (mode == VarMode::reading_open && (nobody_reads(var) || close(var)))) {
        var->mode.store(VarMode::writing, std::memory_order_relaxed);
        host.came_in(var, access);
        return true;
      }
    } else if (mode == VarMode::idle || mode == VarMode::reading_open) {
      // With no reader left nobody else touches the count.
      if (mode == VarMode::idle || var->readers.load(std::memory_order_acquire) == 0) {
        var->readers.store(1, std::memory_order_relaxed);
      } else {
        var->readers.fetch_add(1, std::memory_order_relaxed);
      }
      if (mode == VarMode::idle) {
        var->reads_in_a_row = 0;  // a write has come between, if anything has
        var->mode.store(VarMode::reading_open, std::memory_order_relaxed);
      }
      host.joined(var);
      return true;
    }
    access.next = nullptr;
    (var->inbox_tail == nullptr ? var->inbox_head : var->inbox_tail->next) = &access;
    var->inbox_tail = &access;
    return false;
  }

  static void leave_gate(Host& host, Var* var, unsigned shard) {
    var->gate->leave(shard);
    last_reader(host, var);
  }

  // Perhaps the last: the Var stays open for readers until a writer comes, who then sees that none is left.
  static void last_reader(Host& host, Var* var) {
    if (var->mode.load(std::memory_order_seq_cst) != VarMode::reading_closed)
      return;
    var->lock.lock();
    if (var->mode.load(std::memory_order_relaxed) == VarMode::reading_closed && readers_gone(var)) {
      var->mode.store(VarMode::writing, std::memory_order_relaxed);
      var->lock.unlock();
      return advance(host, var);
    }
    var->lock.unlock();  // another last reader got here first, or a writer saw for itself
  }

  // The caller has the right to advance, alone.
  static void advance(Host& host, Var* var) {
    for (;;) {
      if (var->run == nullptr) {
        var->lock.lock();
        var->run = take_inbox(var);
        if (var->run == nullptr)
          return host.idle(var);
        var->lock.unlock();
      }
      Access* head = var->run;
      if (head->exclusive()) {  // the right to advance passes to the writer
        var->run = head->next;
        host.came_next(var, *head);
        return host.grant(*head);
      }
      if (grant_readers(host, var, head))
        return;
    }
  }

  static Access* take_inbox(Var* var) {
    var->inbox_tail = nullptr;
    return std::exchange(var->inbox_head, nullptr);
  }

  // The reads at the head of `run`, together. False if there may be more to let in with them.
  static bool grant_readers(Host& host, Var* var, Access* head) {
    Access* last = head;
    int count = 1;
    for (; last->next != nullptr && !last->next->exclusive(); last = last->next)
      ++count;
    var->lock.lock();
    if (last->next == nullptr && var->inbox_head != nullptr) {
      last->next = take_inbox(var);
      var->lock.unlock();
      return false;
    }
    var->run = std::exchange(last->next, nullptr);
    var->readers.store(count, std::memory_order_relaxed);
    var->reads_in_a_row = 0;
    const bool open = var->run == nullptr && !var->orphan;  // an orphan's last reader has to see to it
    var->mode.store(open ? VarMode::reading_open : VarMode::reading_closed, std::memory_order_relaxed);
    if (open)
      host.joined(var);
    var->lock.unlock();
    host.came_together(var, head);
    while (head != nullptr) {
      Access* next = head->next;  // a granted node may be gone at once
      host.grant(*head);
      head = next;
    }
    return true;
  }
};

}  // namespace sluice::detail
