// What the engine does about commuting accesses: the rules stand in detail/commute_protocol.h.
#include <algorithm>
#include <new>

#include <sluice/engine/detail/commute_run.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/in_lists.h>

namespace sluice::detail {

namespace {

using Protocol = VarProtocol<Core, VarCore, AccessNode>;
using TaskPool = NodePool<TaskNode, &TaskNode::next>;

// A writer for a Var to be named later. It passes on the urgency of what waits behind its run, and has none itself.
CommuteRun* make_run(Core& core) {
  void* const block = take_block(sizeof(CommuteRun));
  TaskNode* writer = nullptr;
  try {
    writer = TaskPool::take();
    writer->need_extras();
  } catch (...) {
    if (writer != nullptr)
      TaskPool::give(writer);
    give_block(block, sizeof(CommuteRun));
    throw;
  }
  auto* const run = ::new (block) CommuteRun;
  const std::uint32_t generation = TaskNode::generation(writer->state.load(std::memory_order_relaxed)) + 1;
  writer->state.store(generation << TaskNode::k_generation_shift, std::memory_order_release);
  static_cast<TaskMarks&>(*writer) = TaskMarks{.commutes = true, .kind = TaskKind::probe};
  writer->core = &core;
  writer->name = "commute";
  writer->file = "";
  writer->device = cpu();
  writer->threads = 1;
  writer->era = core.era();
  writer->access_count = 1;
  writer->priority.store(Priority::background, std::memory_order_relaxed);
  writer->submitted.store(false, std::memory_order_relaxed);
  writer->waiting.store(1, std::memory_order_relaxed);
  writer->extras_there->commute_run = run;
  run->writer = writer;
  run->access = &writer->accesses_in_place[0];
  return run;
}

CommuteSet& set_of(const TaskNode& task) noexcept {
  return *task.extras()->commutes_on;
}

}  // namespace

void Commuting::prepare(const AccessList& wanted, TaskNode& task) {
  const auto room = static_cast<std::size_t>(std::count_if(
      wanted.begin(), wanted.end(), [](const Access& access) { return access.mode == AccessMode::commute; }));
  TaskExtras& extras = task.need_extras();
  auto* const set = ::new (take_block(CommuteSet::bytes(room))) CommuteSet;
  std::uninitialized_default_construct_n(set->members + 1, room - 1);
  set->task = &task;
  set->room = static_cast<std::uint16_t>(room);
  extras.commutes_on = set;
  for (std::size_t i = 0; i < room; ++i)
    set->members[i].fresh = make_run(*task.core);
}

// Without any left where another access of the same Var made each a write.
void Commuting::enlist(TaskNode& task) noexcept {
  CommuteSet& set = set_of(task);
  for (AccessNode& access : task.accesses()) {
    if (access.mode() != AccessMode::commute)
      continue;
    CommuteMember& member = set.members[set.count++];
    member.access = &access;
    member.set = &set;
    member.fresh->access->set(access.var, member.fresh->writer, AccessMode::write);
  }
  task.commutes = set.count > 0;
}

void Commuting::discard(CommuteSet* set) noexcept {
  const std::size_t room = set->room;
  for (std::size_t i = 0; i < room; ++i) {
    if (CommuteRun* run = set->members[i].fresh)
      Core::recycle(run->writer);
  }
  give_block(set, CommuteSet::bytes(room));
}

void Commuting::discard(CommuteRun* run) noexcept {
  give_block(run, sizeof(CommuteRun));
}

int Commuting::enter(Core& core, TaskNode& task) {
  CommuteHost host{core};
  int granted = 0;
  for (AccessNode& access : task.accesses())
    access.var->lock.lock();
  for (AccessNode& access : task.accesses()) {
    const bool commutes = access.mode() == AccessMode::commute;
    granted += (commutes ? CommuteRules::join(host, member_of(access)) : Protocol::append_locked(core, access)) ? 1 : 0;
  }
  if (task.traced)
    Tracer::queued(task);
  for (AccessNode& access : task.accesses())
    access.var->lock.unlock();
  return granted;
}

bool Commuting::gets_in(TaskNode& task) noexcept {
  CommuteHost host{*task.core};
  if (CommuteRun* run = run_of(task)) {
    CommuteRules::open(host, *run);
    return false;
  }
  CommuteSet& set = set_of(task);
  const Priority wanted = task.priority.load(std::memory_order_relaxed);
  Core& core = *task.core;
  if (!set.has_turns) {
    const InLists in_lists(core);
    if (!CommuteRules::take_turns(host, set)) {  // `task` may be over by now
      if (host.lacked != nullptr)
        core.raise_on(host.lacked, wanted);
      return false;
    }
    set.has_turns = true;
  }
  core.inherit_from_runs(task);
  return true;
}

void Commuting::leave(AccessNode& access) noexcept {
  CommuteHost host{*access.task()->core};
  CommuteRules::leave(host, member_of(access));
}

CommuteMember& Commuting::member_of(const AccessNode& access) noexcept {
  CommuteMember* member = set_of(*access.task()).members;
  while (member->access != &access)
    ++member;
  return *member;
}

CommuteRun* Commuting::run_of(const TaskNode& task) noexcept {
  return task.commutes && task.kind == TaskKind::probe ? task.extras()->commute_run : nullptr;
}

// -- What the protocol tells --

bool CommuteHost::append(AccessNode& writer) {
  return Protocol::append_locked(core, writer);
}

void CommuteHost::grant(AccessNode& access) {
  core.grant(access);
}

void CommuteHost::turns_come(CommuteSet& set) {
  set.has_turns = true;
  core.ready(set.task);
}

void CommuteHost::ended(CommuteRun& run) {
  TaskNode* const writer = run.writer;
  Core::claim(writer);  // who finds its name in the Var later leaves it alone
  core.leave(*run.access);
  Core::close_task(writer);
}

void CommuteHost::may_lack(CommuteSet& set, CommuteSet& by) {
  lacked = core.raise_one(by.task, set.task->priority.load(std::memory_order_relaxed));
}

}  // namespace sluice::detail
