#pragma once

#include <cstdint>

#include <sluice/engine/detail/var_protocol.h>

namespace sluice::detail {

/// How commuting accesses enter Vars and leave them. A run of them, with nothing else pushed between, is one writer in
/// its Var's queue: its first member queues that writer, the later ones join it as long as nothing stands behind it.
/// Once it is granted, members that have all else take the Var in turns: all their turns at once or none, so that
/// nobody holds one Var while it waits for another. When no member is left the writer leaves, whether or not more might
/// have joined.
///
/// All of it happens under the Vars' locks, taken in the order of the Vars. `Set` is what a task commutes on: its
/// `members`, sorted by Var. `Host` queues a run's writer (append) and is told: grant(access), a member's run has come;
/// turns_come(set), with no lock held; ended(run), likewise; may_lack(set, by), with locks held, that `set` waits for a
/// turn of `by`; and it says how urgent a set is, 0 first.
template <class Host, class Var, class Access, class Set, class Member, class Run>
struct CommuteProtocol {
  static constexpr int k_classes = 4;
  static constexpr int k_patience = 16;  // turns that others took instead, before a set keeps what it can have

  /// With the lock held: a task that is being pushed becomes a member. True if the run is granted already.
  static bool join(Host& host, Member& member) {
    Access* access = member.access;
    Var* var = access->var;
    Run* run = var->commuting;
    if (run == nullptr || !nothing_behind(var, run->access)) {
      run = member.fresh;
      member.fresh = nullptr;
      run->access->next = nullptr;
      run->granted = host.append(*run->access);
      var->commuting = run;
    }
    member.run = run;
    run->left = run->left + 1;
    append(run->early, member);
    if (run->granted)
      return true;
    access->next = nullptr;
    Access* last = run->last_told;
    if (last == nullptr)
      run->first_told = access;
    else
      last->next = access;
    run->last_told = access;
    return false;
  }

  /// The run's writer is granted.
  static void open(Host& host, Run& run) {
    Var* var = run.access->var;
    var->lock.lock();
    run.granted = true;
    Access* access = run.first_told;
    run.first_told = nullptr;
    var->lock.unlock();
    while (access != nullptr) {
      Access* next = access->next;  // a granted node may be gone at once
      host.grant(*access);
      access = next;
    }
  }

  /// For a set that has all else. False if it has to wait for a turn: then others may run it at any moment.
  static bool take_turns(Host& host, Set& set) {
    for (int i = 0; i < set.count; ++i)
      set.members[i].access->var->lock.lock();
    int busy = 0;
    while (busy < set.count && is_free(set.members[busy], set))
      ++busy;
    const bool all = busy == set.count;
    const bool keeps = set.tries == k_patience;  // what comes before, as locks are taken: no circle
    for (int i = 0; i < set.count; ++i) {
      if (all || (keeps && i < busy))
        take(set.members[i], set);
      else
        give_back(set.members[i], set);
    }
    if (!all) {
      if (!keeps)
        set.tries = set.tries + 1;
      Member& lacking = set.members[busy];
      host.may_lack(set, *lacking.run->holder);
      remove(lacking);
      append(lacking.run->wanting[host.urgency(set)], lacking);
    }
    for (int i = set.count; i-- > 0;)
      set.members[i].access->var->lock.unlock();
    return all;
  }

  /// Ends a member's turn, and the run with the last one.
  static void leave(Host& host, Member& member) {
    Var* var = member.access->var;
    Run* run = member.run;
    var->lock.lock();
    member.run = nullptr;
    run->holder = nullptr;
    // Counted as left only at the end: nobody ends the run before.
    while (Member* next = run->holder == nullptr ? most_urgent(*run) : nullptr) {
      Set* set = next->set;
      take(*next, *set);
      if (set->count == 1) {
        run->left = run->left - 1;
        var->lock.unlock();
        return host.turns_come(*set);
      }
      var->lock.unlock();
      const bool all = take_turns(host, *set);
      var->lock.lock();
      if (!all)
        continue;
      run->left = run->left - 1;  // not to 0: that set has a turn here
      var->lock.unlock();
      return host.turns_come(*set);
    }
    run->left = run->left - 1;
    const bool over = run->left == 0;
    if (over && var->commuting == run)
      var->commuting = nullptr;
    var->lock.unlock();
    if (over)
      host.ended(*run);
  }

  /// With the lock held: a set that waits for a turn has become more urgent.
  static void urge(Host& host, Member& member) {
    auto& wanted = member.run->wanting[host.urgency(*member.set)];
    if (member.in == nullptr || member.in == &member.run->early || member.in == &wanted)
      return;
    remove(member);
    append(wanted, member);
  }

 private:
  // A writer's node at the end of its Var's queue, wherever that is just now: what comes next is linked behind it, or
  // lies in an inbox that it has left.
  static bool nothing_behind(Var* var, Access* writer) {
    return writer->next == nullptr && (var->inbox_head == nullptr || var->inbox_tail == writer);
  }

  static bool is_free(const Member& member, const Set& set) {
    const Set* holder = member.run->holder;
    return holder == nullptr || holder == &set;
  }

  static void take(Member& member, Set& set) {
    if (member.run->holder == nullptr) {
      member.run->holder = &set;
      remove(member);
    }
  }

  static void give_back(Member& member, Set& set) {
    if (member.run->holder == &set) {
      member.run->holder = nullptr;
      append(member.run->early, member);
    }
  }

  static Member* most_urgent(Run& run) {
    for (auto& list : run.wanting) {
      if (list.first != nullptr)
        return list.first;
    }
    return nullptr;
  }

  template <class List>
  static void append(List& list, Member& member) {
    member.in = &list;
    member.next = nullptr;
    member.previous = list.last;
    if (list.last == nullptr)
      list.first = &member;
    else
      list.last->next = &member;
    list.last = &member;
  }

  static void remove(Member& member) {
    auto* list = static_cast<decltype(&member.run->early)>(member.in);
    Member* previous = member.previous;
    Member* next = member.next;
    if (previous == nullptr)
      list->first = next;
    else
      previous->next = next;
    if (next == nullptr)
      list->last = previous;
    else
      next->previous = previous;
    member.in = nullptr;
  }
};

}  // namespace sluice::detail
