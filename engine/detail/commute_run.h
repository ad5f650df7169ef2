#pragma once

#include <cstdint>

#include <sluice/engine/detail/block_pool.h>
#include <sluice/engine/detail/commute_protocol.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

struct CommuteRun;
struct CommuteSet;

/// A task's commuting access; in one of its run's lists until it has its turn. Changed under the Var's lock.
struct CommuteMember {
  struct List {
    CommuteMember* first = nullptr;
    CommuteMember* last = nullptr;
  };

  AccessNode* access = nullptr;
  CommuteSet* set = nullptr;
  CommuteRun* run = nullptr;    // from push to the end of its turn
  CommuteRun* fresh = nullptr;  // for a run that it begins
  List* in = nullptr;
  CommuteMember* previous = nullptr;
  CommuteMember* next = nullptr;
};

/// All that a task commutes on, in a block of its own.
struct CommuteSet {
  TaskNode* task = nullptr;
  std::uint16_t count = 0;
  std::uint16_t room = 0;
  std::uint8_t tries = 0;
  bool has_turns = false;
  CommuteMember members[1];  // `room` of them

  static std::size_t bytes(std::size_t room) noexcept {
    return sizeof(CommuteSet) + (room - 1) * sizeof(CommuteMember);
  }
};

/// A run of commuting accesses of one Var. `writer` stands for it in the Var: a task of kind probe that commutes.
struct CommuteRun {
  TaskNode* writer = nullptr;
  AccessNode* access = nullptr;      // the writer's
  CommuteSet* holder = nullptr;      // whose turn it is
  CommuteMember::List early;         // not ready yet
  CommuteMember::List wanting[4];    // ready but for turns, by class
  AccessNode* first_told = nullptr;  // who is told when the run is granted
  AccessNode* last_told = nullptr;
  std::uint64_t left = 0;  // members that have not finished; 0: it is over
  bool granted = false;
};

/// What the engine does about commuting accesses (commuting.cpp). Tasks without any come to none of it.
struct Commuting {
  /// Before a task is known to others: what it needs for its commuting accesses. Throws std::bad_alloc.
  static void prepare(const AccessList& wanted, TaskNode& task);
  /// Once its accesses are merged.
  static void enlist(TaskNode& task) noexcept;
  /// Gives back what prepare() has made.
  static void discard(CommuteSet* set) noexcept;
  static void discard(CommuteRun* run) noexcept;
  /// Enters a task in all its Vars, which are locked together. Returns how many accesses were granted on the spot.
  static int enter(Core& core, TaskNode& task);
  /// For a task that has all its accesses: true if it may go on. A run's writer lets its members in instead.
  static bool gets_in(TaskNode& task) noexcept;
  static void leave(AccessNode& access) noexcept;
  static CommuteMember& member_of(const AccessNode& access) noexcept;
  /// The run that a task stands for; null for others.
  static CommuteRun* run_of(const TaskNode& task) noexcept;
  /// With the Var's lock held: the access that waits in the Var's queue for this one of a task that commutes; null if
  /// none does. Visits the tasks of a run that it waits for beside that.
  template <class Visit>
  static AccessNode* place_of(TaskNode& task, AccessNode& access, Visit&& visit);
};

/// What the protocol tells the engine.
struct CommuteHost {
  Core& core;
  TaskNode* lacked = nullptr;  // who has the turn that a set waits for, raised and kept

  bool append(AccessNode& writer);
  void grant(AccessNode& access);
  void turns_come(CommuteSet& set);
  void ended(CommuteRun& run);
  void may_lack(CommuteSet& set, CommuteSet& by);
  int urgency(const CommuteSet& set) const noexcept {
    return static_cast<int>(set.task->priority.load(std::memory_order_relaxed));
  }
};

using CommuteRules = CommuteProtocol<CommuteHost, VarCore, AccessNode, CommuteSet, CommuteMember, CommuteRun>;

/// All whose turn has not come.
template <class Visit>
void visit_members(const CommuteRun& run, Visit&& visit) {
  for (const CommuteMember* member = run.early.first; member != nullptr; member = member->next)
    visit(member->set->task);
  for (const CommuteMember::List& list : run.wanting) {
    for (const CommuteMember* member = list.first; member != nullptr; member = member->next)
      visit(member->set->task);
  }
}

template <class Visit>
AccessNode* Commuting::place_of(TaskNode& task, AccessNode& access, Visit&& visit) {
  if (const CommuteRun* run = run_of(task)) {
    if (run->holder != nullptr)
      visit(run->holder->task);
    visit_members(*run, visit);
    return run->granted ? nullptr : &access;
  }
  if (access.mode() != AccessMode::commute)
    return &access;
  CommuteMember& member = member_of(access);
  if (member.run == nullptr)
    return nullptr;
  CommuteHost host{*task.core};
  CommuteRules::urge(host, member);
  if (!member.run->granted)
    return member.run->access;
  if (member.run->holder != nullptr && member.run->holder != member.set)
    visit(member.run->holder->task);
  return nullptr;
}

}  // namespace sluice::detail
