#pragma once

// Commuting tasks on Vars with weak memory: as var_suite.h, with the letter c for a commuting access. A task takes its
// turns on the thread that made it ready.
#include "tests/engine/model/weak/kits.h"
#include "tests/engine/model/weak/var_words.h"
#include "tests/engine/model/weak/words.h"

namespace sluice::weak::commuting {

inline constexpr int k_threads = 3, k_vars = 2, k_tasks = 6, k_commands = 3;

struct Script {
  const char* name;
  int tries[k_threads];  // that each thread's tasks have had already
  const char* threads[k_threads][k_commands + 1];
};

struct Var;
struct Set;
struct Run;
struct Task;

struct Access {
  Var* var = nullptr;
  Plain<Access*> next;
  Plain<bool> through_gate;
  bool writes = false;
  Task* task = nullptr;
  Run* opens = nullptr;  // of a run's writer

  bool exclusive() const noexcept { return writes; }
  bool gated() const { return through_gate; }
  void set_gated(bool gated) { through_gate = gated; }
};

struct Member {
  struct List {
    Plain<Member*> first, last;
  };
  Access* access = nullptr;
  Set* set = nullptr;
  Plain<Run*> run, fresh;
  Plain<List*> in;
  Plain<Member*> previous, next;
};

struct Set {
  Task* task = nullptr;
  int count = 0;
  Plain<int> tries{0};
  Member members[k_vars];
};

struct Run {
  Access writer;
  Access* access = &writer;
  Plain<Set*> holder;
  Member::List early, wanting[4];
  Plain<Access*> first_told, last_told;
  Plain<int> left{0};
  Plain<bool> granted{false};
  Plain<bool> over{false};
};

struct NoGate {
  void enter(unsigned) {}
  void leave(unsigned) {}
  bool empty() const { return true; }
};

struct Var : VarWords<Access, NoGate> {
  Plain<Run*> commuting;
  Plain<int> data{0};
};

struct Task {
  Access access[k_vars];
  int count = 0;
  int least[k_vars] = {}, most[k_vars] = {};  // tasks that have written each Var before
  Set commutes;
  Run fresh[k_vars];
  Atomic<int> waiting{0};
  Plain<int> runs{0};
};

template <class Kit, const Script& script>
struct Suite : rl::test_suite<Suite<Kit, script>, k_threads> {
  struct Host;
  using Calls = typename Kit::template Protocol<Host, Var, Access>;
  using Rules = typename Kit::template Commute<Host, Var, Access, Set, Member, Run>;

  Var var[k_vars];
  Task task[k_tasks];

  struct Host {
    Suite& suite;
    Task* ready[k_tasks] = {};
    int first = 0, end = 0;

    bool append(Access& writer) { return Calls::append_locked(*this, writer); }
    void grant(Access& access) {
      if (access.opens != nullptr)
        return Rules::open(*this, *access.opens);
      if (access.task->waiting.fetch_sub(1, std::memory_order::acq_rel) == 1)
        all_granted(*access.task);
    }
    void all_granted(Task& task) {
      if (task.commutes.count == 0 || Rules::take_turns(*this, task.commutes))
        ready[end++] = &task;
    }
    void turns_come(Set& set) { ready[end++] = set.task; }
    void ended(Run& run) {
      RL_ASSERT(!run.over);
      run.over = true;
      Calls::leave(*this, *run.access, 0);
    }
    void may_lack(Set&, Set&) {}
    int urgency(const Set&) const noexcept { return 0; }
    void came_in(Var*, Access&) {}
    void came_next(Var*, Access&) {}
    void came_together(Var*, Access*) {}
    void joined(Var*) {}
    void idle(Var* of) {
      of->mode.store(detail::VarMode::idle, std::memory_order::relaxed);
      of->lock.unlock();
    }
  };

  static int number_of(unsigned thread, int command) {
    int number = command;
    for (unsigned t = 0; t < thread; ++t) {
      for (int c = 0; script.threads[t][c] != nullptr; ++c)
        ++number;
    }
    return number;
  }

  void thread(unsigned index) {
    Host host{*this};
    for (int c = 0; script.threads[index][c] != nullptr; ++c) {
      Task& made = task[number_of(index, c)];
      make(made, index, c);
      push(host, made);
      while (host.first < host.end)
        run(host, *host.ready[host.first++]);
    }
  }

  static int writes_of(int v) {
    int writes = 0;
    for (const auto& thread : script.threads) {
      for (int c = 0; thread[c] != nullptr; ++c)
        writes += thread[c][v] == 'w' || thread[c][v] == 'c' ? 1 : 0;
    }
    return writes;
  }

  // Whether a task with that letter writes at a place that is fixed.
  static int writes_apart(char letter, bool& same_run) {
    same_run = same_run && (letter == 'c' || letter == '-');
    return letter != '-' && letter != 'r' && !same_run ? 1 : 0;
  }

  void make(Task& made, unsigned index, int command) {
    const char* what = script.threads[index][command];
    made.commutes.task = &made;
    made.commutes.tries = script.tries[index];
    for (int v = 0; v < k_vars && what[v] != 0; ++v) {
      if (what[v] == '-')
        continue;
      Access& access = made.access[made.count];
      access.var = &var[v];
      access.writes = what[v] != 'r';
      access.task = &made;
      made.most[made.count] = writes_of(v) - (access.writes ? 1 : 0);
      bool same_run = what[v] == 'c';
      for (int before = command; before-- > 0;)
        made.least[made.count] += writes_apart(script.threads[index][before][v], same_run);
      same_run = what[v] == 'c';
      for (int after = command + 1; script.threads[index][after] != nullptr; ++after)
        made.most[made.count] -= writes_apart(script.threads[index][after][v], same_run);
      ++made.count;
      if (what[v] != 'c')
        continue;
      Member& member = made.commutes.members[made.commutes.count];
      Run& run = made.fresh[made.commutes.count++];
      member.access = &access;
      member.set = &made.commutes;
      member.fresh = &run;
      run.writer.var = &var[v];
      run.writer.writes = true;
      run.writer.opens = &run;
    }
  }

  static Member* member_of(Task& of, const Access& access) {
    for (int m = 0; m < of.commutes.count; ++m) {
      if (of.commutes.members[m].access == &access)
        return &of.commutes.members[m];
    }
    return nullptr;
  }

  // As Core::push and Commuting::enter do.
  void push(Host& host, Task& made) {
    made.waiting.store(made.count + 1, std::memory_order::relaxed);
    int granted = 0;
    if (made.commutes.count == 0) {
      granted = Calls::enter(host, made.access, made.count, 0);
    } else {
      for (int k = 0; k < made.count; ++k)
        made.access[k].var->lock.lock();
      for (int k = 0; k < made.count; ++k) {
        Member* member = member_of(made, made.access[k]);
        granted +=
            (member == nullptr ? Calls::append_locked(host, made.access[k]) : Rules::join(host, *member)) ? 1 : 0;
      }
      for (int k = 0; k < made.count; ++k)
        made.access[k].var->lock.unlock();
    }
    if (granted == made.count || made.waiting.fetch_sub(granted + 1, std::memory_order::acq_rel) == granted + 1)
      host.all_granted(made);
  }

  void run(Host& host, Task& ready) {
    for (int k = 0; k < ready.count; ++k) {
      const Access& access = ready.access[k];
      const int seen = access.var->data;
      RL_ASSERT(seen >= ready.least[k] && seen <= ready.most[k]);
      if (access.writes)
        access.var->data = seen + 1;
    }
    ready.runs = ready.runs + 1;
    for (int k = 0; k < ready.count; ++k) {
      if (Member* member = member_of(ready, ready.access[k]))
        Rules::leave(host, *member);
      else
        Calls::leave(host, ready.access[k], 0);
    }
  }

  void after() {
    int writes[k_vars] = {};
    for (unsigned t = 0; t < k_threads; ++t) {
      for (int c = 0; script.threads[t][c] != nullptr; ++c) {
        const char* what = script.threads[t][c];
        RL_ASSERT(task[number_of(t, c)].runs == 1);
        for (int v = 0; v < k_vars && what[v] != 0; ++v)
          writes[v] += what[v] == 'w' || what[v] == 'c' ? 1 : 0;
      }
    }
    for (int v = 0; v < k_vars; ++v) {
      RL_ASSERT(var[v].data == writes[v]);
      RL_ASSERT(var[v].mode.load(std::memory_order::relaxed) != detail::VarMode::writing);
      RL_ASSERT(var[v].commuting == nullptr);
    }
  }
};

inline constexpr Script k_one_var{"one Var", {}, {{"c-", "c-"}, {"c-", "r-"}, {"w-"}}};
inline constexpr Script k_runs{"runs of one Var", {}, {{"c-", "r-", "c-"}, {"c-"}, {"c-"}}};
inline constexpr Script k_two_vars{"two Vars", {}, {{"cc", "c-"}, {"-c", "cc"}, {"c-"}}};
inline constexpr Script k_waiting{"two Vars, one of them late", {}, {{"w-", "cc"}, {"rc", "-c"}, {"cr"}}};
inline constexpr Script k_keeping{"two Vars, without patience", {16, 16, 16}, {{"cc", "c-"}, {"-c", "cc"}, {"cc"}}};
inline constexpr Script k_behind{"something stands behind a run", {}, {{"r-", "c-"}, {"c-"}, {}}};
inline constexpr Script k_opening{"a run that opens", {}, {{"w-"}, {"c-"}, {"c-"}}};
inline constexpr Script k_passing{"two Vars, passed on", {0, 15, 16}, {{"-c"}, {"cc"}, {"cc"}}};

}  // namespace sluice::weak::commuting
