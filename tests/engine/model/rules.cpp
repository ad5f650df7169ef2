#include "tests/engine/model/rules.h"

namespace sluice::model {

const char* violation = nullptr;

using detail::VarMode;

void fail(const char* what) {
  if (violation == nullptr)
    violation = what;
}

namespace {

Task& task_of(const Access& access) {
  return now.task[(Access::number(&access) - 1) / k_task_accesses];
}

bool conflict(const Access& a, const Access& b) {
  return a.var == b.var && (a.writes || b.writes);
}

template <class Visit>
void for_other_tasks(const Task& task, Visit&& visit) {
  for (int i = 0; i < k_tasks; ++i) {
    for (int k = 0; k < now.task[i].count; ++k) {
      if (&now.task[i] != &task)
        visit(i, now.task[i].access[k]);
    }
  }
}

void note_grant(Access& access) {
  if (access.granted)
    fail("V5: an access was granted twice");
  const Task& task = task_of(access);
  for_other_tasks(task, [&](int i, const Access& other) {
    if (!conflict(access, other))
      return;
    if (other.holds)
      fail("V1: a writer holds a Var beside somebody else");
    const bool earlier = (task.before >> i & 1) != 0;
    if (earlier && !(other.granted && !other.holds))
      fail("V2: an access was granted before an earlier one that conflicts with it was done");
  });
  access.granted = true;
  access.holds = true;
}

void count_down(Task& task, int by) {
  task.waiting.raw -= by;
  if (task.waiting.raw < 0)
    fail("V5: a task counted below zero");
  if (task.waiting.raw == 0)
    task.ready = true;
}

}  // namespace

// -- What the protocol tells --

void on_grant(Access& access) {
  operation(Kind::grant, &task_of(access).waiting, [&] {
    note_grant(access);
    count_down(task_of(access), 1);
    return 0;
  });
}

void on_retire(Var* var) {
  operation(Kind::atomic, &var->alive, [&] {
    if (!var->alive)
      fail("a Var retired twice");
    if (var->handles.raw != 0)
      fail("a Var retired under a handle");
    if (var->inbox_head.raw != 0 || var->run.raw != 0)
      fail("a Var retired with accesses queued");
    if (var->mode.raw != VarMode::idle || var->gate_open.raw)
      fail("a Var retired that is not idle");
    for (const Task& task : now.task) {
      for (int k = 0; k < task.count; ++k) {
        const Access& access = task.access[k];
        if (access.var == var && (access.holds || (task.pushing && !access.granted)))
          fail("a Var retired while it was used");
      }
    }
    var->alive = false;
    var->gate.raw = 0;
    return 0;
  });
}

Gate* on_new_gate(Var* var) {
  operation(Kind::plain_write, &var->alive, [&] {
    if (var->gate.raw != 0)
      fail("a gate was lost");
    var->gate.raw = Gate::number(&var->gate_room);  // it may be used from now on; the Var names it at once
    var->gate_room = Gate();
    return 0;
  });
  return &var->gate_room;
}

void Access::written(const Plain<Access*>* field, const Access* value) noexcept {
  // The one that is about to be queued is made the end of the list first.
  const Task* task = running->task < 0 ? nullptr : &now.task[running->task];
  if (task == nullptr || value != nullptr || !task->pushing || task->pushed)
    return;
  for (int k = 0; k < task->count; ++k) {
    if (field == &task->access[k].next)
      const_cast<Access&>(task->access[k]).queued = true;
  }
}

void check_alive(std::uint16_t where) {
  if (where < sizeof now.task) {
    if (now.task[where / sizeof(Task)].finished)
      fail("a node was used after its task had finished");
    return;
  }
  const std::size_t in_vars = where - offsetof(State, var);
  if (in_vars < sizeof now.var && in_vars % sizeof(Var) >= offsetof(Var, gate_room)) {
    const Var& var = now.var[in_vars / sizeof(Var)];
    if (var.gate.raw == 0)
      fail("a gate was used that is gone");
  }
}

// -- Calls --

namespace {

const Scenario* played = nullptr;

unsigned shard_of(const Thread& thread) {
  const auto index = static_cast<std::size_t>(&thread - now.thread);
  return index < played->pushers.size() ? static_cast<unsigned>(index) % k_shards : 1;
}

void call_leave(Thread& thread) {
  under_test->leave(now.task[thread.task].access[thread.access], shard_of(thread));
}

// As Core::push does, or Core::run_at_once before it.
void call_push(Thread& thread) {
  Task& task = now.task[thread.task];
  const bool at_once = task.tries && under_test->try_read(task.access, task.count, shard_of(thread));
  const int granted = at_once ? task.count : under_test->enter(task.access, task.count, shard_of(thread));
  operation(Kind::atomic, &task.waiting, [&] {
    int on_the_spot = 0;
    for (int k = 0; k < task.count; ++k) {
      if (!task.access[k].queued) {
        note_grant(task.access[k]);
        ++on_the_spot;
      }
    }
    if (on_the_spot != granted)
      fail("V5: enter says another number of granted accesses than it granted");
    task.pushed = true;
    count_down(task, granted + 1);
    return 0;
  });
}

Command command_of(const Thread& thread) {
  return played->pushers[static_cast<std::size_t>(&thread - now.thread)][thread.command];
}

void call_drop(Thread& thread) {
  under_test->drop(&now.var[command_of(thread).what]);
}
void call_freeze(Thread& thread) {
  under_test->freeze(&now.var[command_of(thread).what], true);
}
void call_unfreeze(Thread& thread) {
  under_test->freeze(&now.var[command_of(thread).what], false);
}

// As Core::new_var does.
void call_renew(Thread& thread) {
  Var& var = now.var[command_of(thread).what];
  var.lock.lock();
  operation(Kind::plain_write, &var.alive, [&] { return var.alive = true, 0; });
  var.orphan = false;
  var.handles.store(1, 0);
  var.frozen.store(false, 0);
  var.reads_in_a_row = 0;
  var.lock.unlock();
}

void step_of_worker(Thread& thread, int chosen) {
  if (thread.task < 0) {
    thread.task = static_cast<std::int8_t>(chosen);
    thread.access = 0;
    now.task[chosen].ready = false;
  }
  Task& task = now.task[thread.task];
  if (!thread.inside)
    task.access[thread.access].holds = false;
  thread.inside = !run_step(thread, call_leave);
  if (thread.inside)
    return;
  if (++thread.access < task.count)
    return;
  task.finished = true;
  thread.task = -1;
  thread.access = 0;
}

void step_of_pusher(Thread& thread) {
  const Command command = command_of(thread);
  if (command.verb == Verb::push && !thread.inside) {
    thread.task = static_cast<std::int8_t>(command.what);
    Task& task = now.task[command.what];
    task.pushing = true;
    task.waiting.raw = task.count + 1;
    for (int i = 0; i < k_tasks; ++i)
      task.before |= static_cast<std::uint16_t>(now.task[i].pushed << i);
  }
  static constexpr void (*k_calls[])(Thread&) = {call_push, call_drop, call_freeze, call_unfreeze, call_renew};
  thread.inside = !run_step(thread, k_calls[static_cast<int>(command.verb)]);
  if (thread.inside)
    return;
  thread.task = -1;
  ++thread.command;
}

bool can_go_on(const Thread& thread) {
  return thread.next != Kind::lock ||
         !reinterpret_cast<const Lock*>(reinterpret_cast<char*>(&now) + thread.next_where)->held;
}

}  // namespace

int choices(const Scenario& scenario, Choice* out) {
  int count = 0;
  const int pushers = static_cast<int>(scenario.pushers.size());
  bool seen_idle = false;  // idle workers are all the same
  for (int t = 0; t < pushers + scenario.workers; ++t) {
    const Thread& thread = now.thread[t];
    const auto index = static_cast<std::int8_t>(t);
    if (t < pushers) {
      if (thread.command == scenario.pushers[static_cast<std::size_t>(t)].size())
        continue;
      const Command& command = scenario.pushers[static_cast<std::size_t>(t)][thread.command];
      const bool waits = command.verb == Verb::renew && !thread.inside && now.var[command.what].alive;
      if (!waits && can_go_on(thread))
        out[count++] = {index, -1};
    } else if (thread.task >= 0) {
      if (can_go_on(thread))
        out[count++] = {index, -1};
    } else if (!seen_idle) {
      seen_idle = true;
      for (std::int8_t k = 0; k < static_cast<std::int8_t>(scenario.tasks.size()); ++k) {
        if (now.task[k].ready)
          out[count++] = {index, k};
      }
    }
  }
  return count;
}

void take(const Scenario& scenario, Choice choice) {
  played = &scenario;
  Thread& thread = now.thread[choice.thread];
  if (choice.thread < static_cast<int>(scenario.pushers.size())) {
    step_of_pusher(thread);
  } else {
    step_of_worker(thread, choice.task);
  }
}

}  // namespace sluice::model
