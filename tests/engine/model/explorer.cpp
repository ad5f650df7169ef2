#include "tests/engine/model/explorer.h"

#include <algorithm>
#include <memory>

#include "tests/engine/model/rules.h"

namespace sluice::model {

namespace {

using detail::VarMode;

constexpr int k_choices = k_threads + k_tasks;

/// 128 bits of a state: that two of 10^8 states share them by chance has odds of about 10^-23.
struct Print {
  std::uint64_t a = 0x9e3779b97f4a7c15, b = 0xc2b2ae3d27d4eb4f;

  void add(const void* data, std::size_t bytes) noexcept {
    const char* at = static_cast<const char*>(data);
    for (; bytes > 0; at += 8) {
      std::uint64_t word = 0;
      const std::size_t part = std::min<std::size_t>(bytes, 8);
      std::memcpy(&word, at, part);
      bytes -= part;
      a = (a ^ word) * 0xff51afd7ed558ccd;
      a ^= a >> 32;
      b = (b + word) * 0xc4ceb9fe1a85ec53;
      b ^= b >> 29;
    }
  }
};

/// The states seen so far: open addressing, at most half full.
class Seen {
 public:
  /// False if it was there.
  bool insert(Print print) {
    print.a |= 1;  // an empty place is 0
    if (2 * ++count_ > slots_.size())
      grow();
    if (put(print))
      return true;
    --count_;
    return false;
  }
  std::uint64_t count() const noexcept { return count_; }

 private:
  bool put(Print print) {
    for (std::size_t at = print.b;; ++at) {
      Print& slot = slots_[at & (slots_.size() - 1)];
      if (slot.a == 0) {
        slot = print;
        return true;
      }
      if (slot.a == print.a && slot.b == print.b)
        return false;
    }
  }
  void grow() {
    std::vector<Print> old = std::exchange(slots_, std::vector<Print>(2 * slots_.size(), Print{0, 0}));
    for (const Print& print : old) {
      if (print.a != 0)
        put(print);
    }
  }

  std::vector<Print> slots_ = std::vector<Print>(1 << 12, Print{0, 0});
  std::uint64_t count_ = 0;
};

void add_thread(Print& print, const Thread& thread) {
  print.add(&thread, offsetof(Thread, next));
  print.add(thread.answer, thread.answers * sizeof(Answer));
}

// Workers are all the same: their order does not count.
Print print_of(const Scenario& scenario) {
  Print print;
  print.add(now.task, scenario.tasks.size() * sizeof(Task));
  print.add(now.var, scenario.tasks.front().size() * sizeof(Var));
  const std::size_t pushers = scenario.pushers.size();
  for (std::size_t i = 0; i < pushers; ++i)
    add_thread(print, now.thread[i]);
  std::uint64_t sum[2] = {0, 0};
  for (int i = 0; i < scenario.workers; ++i) {
    Print worker;
    add_thread(worker, now.thread[pushers + static_cast<std::size_t>(i)]);
    sum[0] += worker.a;
    sum[1] += worker.b;
  }
  print.add(sum, sizeof sum);
  return print;
}

struct Frame {
  alignas(State) std::byte state[sizeof(State)];  // fields ask before they are copied: bytes do not
  Choice choice[k_choices];
  int count = 0;
  int tried = 0;
};

std::string trace_of(const std::vector<std::unique_ptr<Frame>>& path, std::size_t depth) {
  std::string text;
  for (std::size_t i = 0; i < depth && path[i]->tried > 0; ++i) {
    std::memcpy(static_cast<void*>(&now), path[i]->state, sizeof now);
    text += describe(path[i]->choice[path[i]->tried - 1]) + "\n";
  }
  return text;
}

}  // namespace

Outcome explore(const Protocol& protocol, const Scenario& scenario, std::uint64_t limit) {
  under_test = &protocol;
  stop_everywhere = scenario.every_operation;
  hot_read_limit = scenario.hot_reads;
  violation = nullptr;
  set_up(scenario);

  Outcome outcome;
  Seen seen;
  seen.insert(print_of(scenario));
  std::vector<std::unique_ptr<Frame>> path;
  std::size_t depth = 0;
  const auto enter = [&] {
    if (depth == path.size())
      path.push_back(std::make_unique<Frame>());
    Frame& frame = *path[depth++];
    std::memcpy(frame.state, &now, sizeof now);
    frame.count = choices(scenario, frame.choice);
    frame.tried = 0;
    if (frame.count == 0)
      check_end(scenario);
  };
  enter();
  while (depth > 0 && violation == nullptr && seen.count() < limit) {
    Frame& frame = *path[depth - 1];
    if (frame.tried == frame.count) {
      --depth;
      continue;
    }
    std::memcpy(static_cast<void*>(&now), frame.state, sizeof now);
    take(scenario, frame.choice[frame.tried++]);
    ++outcome.steps;
    if (violation == nullptr)
      check_state(scenario);
    if (violation == nullptr && seen.insert(print_of(scenario)))
      enter();
  }
  outcome.states = seen.count();
  outcome.complete = depth == 0 || violation != nullptr;
  if (violation != nullptr) {
    outcome.violation = violation;
    outcome.trace = trace_of(path, depth);
  }
  return outcome;
}

// -- The state --

void set_up(const Scenario& scenario) {
  std::memset(static_cast<void*>(&now), 0, sizeof now);  // padding too: states are compared by their bytes
  for (Var& var : now.var) {
    var.mode.raw = VarMode::idle;
    var.handles.raw = scenario.handles;
    var.alive = true;
  }
  for (std::size_t i = 0; i < scenario.tasks.size(); ++i) {
    Task& task = now.task[i];
    for (std::size_t v = 0; v < scenario.tasks[i].size(); ++v) {
      const char use = scenario.tasks[i][v];
      if (use != 'r' && use != 'w' && use != 't')
        continue;
      task.tries = use == 't';
      Access& access = task.access[task.count++];
      access.var = &now.var[v];
      access.writes = use == 'w';
    }
  }
  for (Thread& thread : now.thread)
    thread.task = -1;
}

void check_state(const Scenario& scenario) {
  for (std::size_t v = 0; v < scenario.tasks.front().size(); ++v) {
    const Var& var = now.var[v];
    if (var.lock.held)
      continue;
    const bool queued = var.inbox_head.raw != 0 || var.run.raw != 0;
    if (queued && var.mode.raw == VarMode::idle)
      fail("V6: accesses are queued in an idle Var");
    if (queued && var.mode.raw == VarMode::reading_open)
      fail("V4: accesses are queued in a Var that readers may join");
    if (var.mode.raw == VarMode::writing && var.readers.raw != 0)
      fail("V1: readers are counted beside a writer");
    if (var.gate_open.raw && var.mode.raw != VarMode::reading_open)
      fail("a gate stands open though readers may not join");
  }
  if (!scenario.every_operation)
    return;
  const std::size_t threads = scenario.pushers.size() + static_cast<std::size_t>(scenario.workers);
  for (std::size_t i = 0; i < threads; ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const Thread &a = now.thread[i], &b = now.thread[k];
      const auto plain = [](Kind kind) { return kind == Kind::plain_read || kind == Kind::plain_write; };
      if (a.next_where == b.next_where && plain(a.next) && plain(b.next) &&
          (a.next == Kind::plain_write || b.next == Kind::plain_write))
        fail("V3: two threads use a plain field at once");
    }
  }
}

void check_end(const Scenario& scenario) {
  for (std::size_t i = 0; i < scenario.pushers.size(); ++i) {
    if (now.thread[i].command != scenario.pushers[i].size())
      fail("stuck: a pusher cannot go on");
  }
  for (std::size_t i = 0; i < scenario.tasks.size(); ++i) {
    if (now.task[i].pushed && !now.task[i].finished)
      fail("stuck: a pushed task was never granted all its Vars");
  }
  for (std::size_t v = 0; v < scenario.tasks.front().size(); ++v) {
    const Var& var = now.var[v];
    if (var.lock.held)
      fail("stuck: a lock is held for ever");
    if (var.mode.raw != VarMode::idle && var.mode.raw != VarMode::reading_open)
      fail("V6: nobody uses a Var, yet nobody may");
    int handles = scenario.handles;
    for (const auto& script : scenario.pushers) {
      for (const Command& command : script) {
        if (command.what == static_cast<int>(v))
          handles += command.verb == Verb::renew ? 1 : command.verb == Verb::drop ? -1 : 0;
      }
    }
    if (var.handles.raw != handles)
      fail("a handle's count was lost");
    if (var.alive == (handles == 0))
      fail("a Var without handles did not retire");
  }
}

std::string describe(Choice choice) {
  const Thread& thread = now.thread[choice.thread];
  std::string text = "thread " + std::to_string(choice.thread);
  if (choice.task >= 0 || (thread.task >= 0 && !thread.inside))
    text += " task " + std::to_string(choice.task >= 0 ? choice.task : thread.task) + " begins to leave";
  static constexpr const char* k_kinds[] = {"begins", "atomic", "lock", "unlock", "reads", "writes", "grants"};
  text += std::string(" ") + k_kinds[static_cast<int>(thread.next)];
  const std::size_t in_vars = thread.next_where - offsetof(State, var);
  if (thread.next == Kind::none)
    return text;
  if (thread.next_where < sizeof now.task)
    return text + " task " + std::to_string(thread.next_where / sizeof(Task));
  text += " Var " + std::to_string(in_vars / sizeof(Var));
  const std::size_t at = in_vars % sizeof(Var);
  const std::pair<std::size_t, const char*> fields[] = {
      {offsetof(Var, gate_room), "gate's counters"},
      {offsetof(Var, alive), "life"},
      {offsetof(Var, frozen), "frozen"},
      {offsetof(Var, handles), "handles"},
      {offsetof(Var, reads_in_a_row), "reads_in_a_row"},
      {offsetof(Var, gate), "gate"},
      {offsetof(Var, run), "run"},
      {offsetof(Var, inbox_tail), "inbox_tail"},
      {offsetof(Var, inbox_head), "inbox_head"},
      {offsetof(Var, readers), "readers"},
      {offsetof(Var, orphan), "orphan"},
      {offsetof(Var, gate_open), "gate_open"},
      {offsetof(Var, mode), "mode"},
      {offsetof(Var, lock), "lock"}};
  for (const auto& [offset, name] : fields) {
    if (at >= offset)
      return text + " " + name;
  }
  return text;
}

}  // namespace sluice::model
