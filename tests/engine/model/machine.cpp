#include "tests/engine/model/machine.h"

#include "tests/engine/model/rules.h"
#include "tests/engine/model/state.h"

namespace sluice::model {

State now;
const Protocol* under_test = nullptr;
Thread* running = nullptr;
int position = 0;
bool stop_everywhere = false;
int hot_read_limit = 0;

namespace {

std::jmp_buf end_of_step;
bool stepped = false;    // the step has done its operation
Kind last = Kind::none;  // what it did last

}  // namespace

std::uint16_t where_of(const void* address) noexcept {
  const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(&now);
  static_assert(sizeof(State) < k_nowhere);
  return offset < sizeof(State) ? static_cast<std::uint16_t>(offset) : k_nowhere;
}

void pause_here() {
  std::longjmp(end_of_step, 1);
}

// A step is one operation that others can tell from what comes before and after it, with what follows it up to the next
// such one. What follows taking a lock may be done with it, giving up a lock and plain fields with what was before
// (Lipton's movers): then only orders are left out that end in the same states.
bool may_go_on(Kind kind, std::uint16_t where) {
  const bool held = kind == Kind::lock && reinterpret_cast<const Lock*>(reinterpret_cast<char*>(&now) + where)->held;
  bool go_on = !stepped;
  if (stepped && !stop_everywhere && last != Kind::grant) {
    const bool plain = kind == Kind::plain_read || kind == Kind::plain_write || kind == Kind::unlock;
    go_on = plain || (kind == Kind::atomic && last == Kind::lock);
  }
  if (held || !go_on) {
    running->next = kind;
    running->next_where = where;
    return false;
  }
  stepped = true;
  if (kind != Kind::plain_read && kind != Kind::plain_write)
    last = kind;
  return true;
}

bool run_step(Thread& thread, void (*call)(Thread&)) {
  running = &thread;
  position = 0;
  stepped = false;
  last = Kind::none;
  if (setjmp(end_of_step) != 0)
    return false;
  call(thread);
  thread.answers = 0;
  thread.next = Kind::none;
  return true;
}

// -- What the state's objects are --

std::int8_t Access::number(const Access* access) noexcept {
  if (access == nullptr)
    return 0;
  const auto* task = &now.task[(where_of(access) - offsetof(State, task)) / sizeof(Task)];
  return static_cast<std::int8_t>(1 + (task - now.task) * k_task_accesses + (access - task->access));
}

Access* Access::at(int number) noexcept {
  return number == 0 ? nullptr : &now.task[(number - 1) / k_task_accesses].access[(number - 1) % k_task_accesses];
}

std::int8_t Gate::number(const Gate* gate) noexcept {
  for (int i = 0; i < k_vars; ++i) {
    if (gate == &now.var[i].gate_room)
      return static_cast<std::int8_t>(i + 1);
  }
  return 0;
}

Gate* Gate::at(int number) noexcept {
  return number == 0 ? nullptr : &now.var[number - 1].gate_room;
}

void Gate::enter(unsigned shard) {
  under_test->enter_gate(*this, shard);
}
void Gate::leave(unsigned shard) {
  under_test->leave_gate(*this, shard);
}
bool Gate::empty() const {
  return under_test->gate_empty(*this);
}

int hot_reads() noexcept {
  return hot_read_limit;
}

}  // namespace sluice::model
