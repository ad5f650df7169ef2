#pragma once

// Vars, accesses and tasks of the checker, all of a state in one plain object, and the protocol by function pointers
// so that mutated copies of it can be explored too.
#include <sluice/engine/detail/var_life.h>
#include <sluice/engine/detail/var_protocol.h>

#include "tests/engine/model/machine.h"

namespace sluice::model {

struct Var;

/// A queued access. Immutable parts come from the scenario.
struct Access {
  Var* var = nullptr;
  Plain<Access*> next;
  Plain<bool> through_gate;
  bool writes = false;
  bool queued = false;   // appended to the inbox
  bool granted = false;  // by the protocol, or on the spot
  bool holds = false;    // granted and not left yet

  bool exclusive() const noexcept { return writes; }
  bool gated() const { return through_gate; }
  void set_gated(bool gated) { through_gate = gated; }

  static std::int8_t number(const Access* access) noexcept;
  static Access* at(int number) noexcept;
  static void written(const Plain<Access*>* field, const Access* value) noexcept;
};

/// The counters of a read gate; the protocol under test brings the code.
struct Gate {
  struct alignas(64) Shard {
    Atomic<std::uint64_t> entered, left;
  };
  Shard shards[k_shards];

  void enter(unsigned shard);
  void leave(unsigned shard);
  bool empty() const;

  static std::int8_t number(const Gate* gate) noexcept;
  static Gate* at(int number) noexcept;
  static void written(const Plain<Gate*>*, const Gate*) noexcept {}
};

struct Var {
  Lock lock;
  Atomic<detail::VarMode> mode{detail::VarMode::idle};
  Atomic<bool> gate_open{false};
  Plain<bool> orphan;
  Atomic<int> readers{0};
  Plain<Access*> inbox_head, inbox_tail, run;
  Plain<Gate*> gate;
  Plain<std::uint16_t> reads_in_a_row;
  Atomic<int> handles{0};
  Atomic<bool> frozen{false};
  bool alive = true;
  Gate gate_room;
};

struct Task {
  Access access[k_task_accesses];
  Atomic<int> waiting{0};
  std::uint8_t count = 0;
  std::uint16_t before = 0;  // tasks whose push was over when this push began
  bool tries = false;        // before it is pushed: its accesses, reads all of them, come in at once or not at all
  bool pushing = false, pushed = false, ready = false, finished = false;
};

struct State {
  Task task[k_tasks];
  Var var[k_vars];
  Thread thread[k_threads];
};

extern State now;

/// One copy of the protocol. `enter`, `try_read` and `leave` work for all of a task; `drop` and `freeze` for one Var.
struct Protocol {
  const char* name;
  int (*enter)(Access*, int count, unsigned shard);
  bool (*try_read)(Access*, int count, unsigned shard);
  void (*leave)(Access&, unsigned shard);
  void (*drop)(Var*);
  void (*freeze)(Var*, bool frozen);
  void (*enter_gate)(Gate&, unsigned shard);
  void (*leave_gate)(Gate&, unsigned shard);
  bool (*gate_empty)(const Gate&);
};
extern const Protocol* under_test;

int hot_reads() noexcept;  // of the scenario
void on_grant(Access& access);
void on_retire(Var* var);
Gate* on_new_gate(Var* var);

/// What the protocol tells its host.
template <template <class, class, class> class Life>
struct Host {
  using Lives = Life<Host, Var, Access>;
  Var* at = nullptr;

  void grant(Access& access) { on_grant(access); }
  void came_in(Var*, Access&) {}
  void came_next(Var*, Access& access) { (void)static_cast<Access*>(access.next); }
  void came_together(Var*, Access* first) {
    for (Access* access = first; access != nullptr;)
      access = access->next;
  }
  void joined(Var* var) { at = var, Lives::joined(*this, var); }
  void idle(Var* var) { at = var, Lives::idle(*this, var); }
  void orphaned(Var*) {}
  void retire(Var* var) { on_retire(var); }
  int hot_reads() const noexcept { return model::hot_reads(); }
  Gate* new_gate() { return on_new_gate(at); }
};

template <template <class, class, class> class Calls, template <class, class, class> class Life, class GateCode>
constexpr Protocol make_protocol(const char* name) {
  using H = Host<Life>;
  using C = Calls<H, Var, Access>;
  using L = Life<H, Var, Access>;
  Protocol made{name, {}, {}, {}, {}, {}, {}, {}, {}};
  made.enter = [](Access* accesses, int count, unsigned shard) {
    H host;
    return C::enter(host, accesses, count, shard);
  };
  made.try_read = [](Access* accesses, int count, unsigned shard) {
    H host;
    return C::try_read(host, accesses, count, shard);
  };
  made.leave = [](Access& access, unsigned shard) {
    H host;
    C::leave(host, access, shard);
  };
  made.drop = [](Var* var) {
    H host{var};
    L::release(host, var);
  };
  made.freeze = [](Var* var, bool frozen) {
    H host{var};
    L::freeze(host, var, frozen);
  };
  // The counters lie in the same places: GateCode is a ReadGate of the same words.
  static_assert(sizeof(GateCode) == sizeof(Gate));
  made.enter_gate = [](Gate& gate, unsigned shard) { reinterpret_cast<GateCode&>(gate).enter(shard); };
  made.leave_gate = [](Gate& gate, unsigned shard) { reinterpret_cast<GateCode&>(gate).leave(shard); };
  made.gate_empty = [](const Gate& gate) { return reinterpret_cast<const GateCode&>(gate).empty(); };
  return made;
}

}  // namespace sluice::model
