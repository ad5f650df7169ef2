#pragma once

// Tasks on Vars with weak memory. Every thread follows a script; a task runs on whichever thread made it ready, which
// is the least order that an engine could give. Bodies read or write a plain variable behind each Var, so whatever the
// protocol lets run at the wrong time, or without the right order of memory, is a race for Relacy to find.
#include "tests/engine/model/weak/kits.h"
#include "tests/engine/model/weak/var_words.h"
#include "tests/engine/model/weak/words.h"

namespace sluice::weak {

inline constexpr int k_threads = 3, k_vars = 2, k_tasks = 8;

/// For each thread what it does, one after the other: a letter a Var (r, w or -) for a task; D drops a handle of Var 0.
struct Script {
  const char* name;
  int hot_reads;
  int handles;  // of Var 0 that are dropped; 0: none is
  const char* threads[k_threads][4];
};

struct Var;

struct Access {
  Var* var = nullptr;
  Plain<Access*> next;
  Plain<bool> through_gate;
  bool writes = false;

  bool exclusive() const noexcept { return writes; }
  bool gated() const { return through_gate; }
  void set_gated(bool gated) { through_gate = gated; }
};

struct Task {
  Access access[k_vars];
  int count = 0;
  Atomic<int> waiting{0};
  Plain<int> runs{0};
};

/// What lies behind a Var's gate pointer: `made` is written before the gate is published.
struct Gate {
  virtual ~Gate() = default;
  virtual void enter(unsigned shard) = 0;
  virtual void leave(unsigned shard) = 0;
  virtual bool empty() const = 0;
  Plain<int> made{0};
};

template <class Counters>
struct GateOf final : Gate {
  void enter(unsigned shard) override {
    RL_ASSERT(this->made == 1);
    counters.enter(shard);
  }
  void leave(unsigned shard) override { counters.leave(shard); }
  bool empty() const override { return counters.empty(); }
  Counters counters;
};

struct Var : VarWords<Access, Gate> {
  Atomic<int> handles{1};
  Atomic<bool> frozen{false};
  Plain<int> data{0};
  Atomic<int> retired{0};
};

template <class Kit, const Script& script>
struct VarSuite : rl::test_suite<VarSuite<Kit, script>, k_threads> {
  struct Host;
  using Calls = typename Kit::template Protocol<Host, Var, Access>;
  using Life = typename Kit::template Life<Host, Var, Access>;
  using Counters = typename Kit::template Gate<Atomic<std::uint64_t>, 2>;

  Var var[k_vars];
  GateOf<Counters> gate[k_vars];
  Task task[k_tasks];

  /// One a thread: what the protocol tells, and what the thread has to run.
  struct Host {
    VarSuite& suite;
    unsigned shard;
    Task* ready[k_tasks] = {};
    int first = 0, end = 0;
    Var* at = nullptr;

    void grant(Access& access) {
      Task& task = suite.task_of(access);
      if (task.waiting.fetch_sub(1, std::memory_order::acq_rel) == 1)
        ready[end++] = &task;
    }
    void came_in(Var*, Access&) {}
    void came_next(Var*, Access&) {}
    void came_together(Var*, Access*) {}
    void joined(Var* of) { at = of, Life::joined(*this, of); }
    void idle(Var* of) { at = of, Life::idle(*this, of); }
    int hot_reads() const noexcept { return script.hot_reads; }
    Gate* new_gate() {
      Gate& made = suite.gate[at - suite.var];
      made.made = 1;
      return &made;
    }
    void orphaned(Var*) {}
    void retire(Var* of) {
      of->data = -1;
      of->gate = nullptr;
      RL_ASSERT(of->retired.fetch_add(1, std::memory_order::relaxed) == 0);
    }
  };

  Task& task_of(Access& access) {
    for (Task& each : task) {
      if (&access >= each.access && &access < each.access + k_vars)
        return each;
    }
    RL_ASSERT(false);
    return task[0];
  }

  static int number_of(unsigned thread, int command) {
    int number = 0;
    for (unsigned t = 0; t < k_threads; ++t) {
      for (int c = 0; c < 4 && script.threads[t][c] != nullptr; ++c) {
        if (t == thread && c == command)
          return number;
        number += script.threads[t][c][0] == 'D' ? 0 : 1;
      }
    }
    return number;
  }

  void before() { var[0].handles.store(script.handles, std::memory_order::relaxed); }

  void thread(unsigned index) {
    Host host{*this, index % 2};
    for (int c = 0; c < 4 && script.threads[index][c] != nullptr; ++c) {
      const char* what = script.threads[index][c];
      if (what[0] == 'D') {
        Life::release(host, &var[0]);
        continue;
      }
      push(host, task[number_of(index, c)], what);
      for (; host.first < host.end; ++host.first)
        run(host, *host.ready[host.first]);
    }
    for (; host.first < host.end; ++host.first)
      run(host, *host.ready[host.first]);
  }

  // As Core::push does.
  void push(Host& host, Task& made, const char* what) {
    for (int v = 0; v < k_vars && what[v] != 0; ++v) {
      if (what[v] == '-')
        continue;
      Access& access = made.access[made.count++];
      access.var = &var[v];
      access.writes = what[v] == 'w';
    }
    made.waiting.store(made.count + 1, std::memory_order::relaxed);
    const int granted = Calls::enter(host, made.access, made.count, host.shard);
    if (granted == made.count || made.waiting.fetch_sub(granted + 1, std::memory_order::acq_rel) == granted + 1)
      host.ready[host.end++] = &made;
  }

  void run(Host& host, Task& ready) {
    for (int k = 0; k < ready.count; ++k) {
      const Access& access = ready.access[k];
      const int seen = access.var->data;
      RL_ASSERT(seen >= 0);
      if (access.writes)
        access.var->data = seen + 1;
    }
    ready.runs = ready.runs + 1;
    for (int k = 0; k < ready.count; ++k)
      Calls::leave(host, ready.access[k], host.shard);
  }

  void after() {
    int writes[k_vars] = {};
    for (unsigned t = 0; t < k_threads; ++t) {
      for (int c = 0; c < 4 && script.threads[t][c] != nullptr; ++c) {
        const char* what = script.threads[t][c];
        if (what[0] == 'D')
          continue;
        RL_ASSERT(task[number_of(t, c)].runs == 1);
        for (int v = 0; v < k_vars && what[v] != 0; ++v)
          writes[v] += what[v] == 'w' ? 1 : 0;
      }
    }
    const bool dropped = script.handles > 0;
    RL_ASSERT(var[0].retired.load(std::memory_order::relaxed) == (dropped ? 1 : 0));
    RL_ASSERT(var[0].data == (dropped ? -1 : writes[0]));
    RL_ASSERT(var[1].data == writes[1]);
  }
};

}  // namespace sluice::weak
