#pragma once

// Programs in which one allocation fails: what was pushed, what became of it, and whether that is right.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/api.h>

#include "tests/engine/dag_step.h"
#include "tests/support/scarce.h"

namespace sluice::test {

/// True if `act` threw for lack of memory; other exceptions pass.
template <class Act>
bool lacks_memory(Act&& act) {
  try {
    act();
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const OutOfMemory&) {
    return true;
  }
  return false;
}

/// Tasks on a few cells, in the order of their pushes. At the end each of them has run, on the values that a serial
/// program would have given it, or has failed as its push, its inputs or its body say; one more failed at most, for
/// lack of memory.
class Ledger {
 public:
  enum class Body : std::uint8_t { small, large, huge, throws };
  using Uses = std::initializer_list<std::pair<int, Touch>>;

  /// How a GPU body enqueues a function.
  using Launch = void (*)(const Queue& queue, std::function<void()> work);

  Ledger(Engine& engine, int cells, Launch launch = nullptr) : engine_(engine), launch_(launch) {
    for (int i = 0; i < cells; ++i)
      vars_.push_back(engine.new_var());
    cells_.resize(vars_.size());
  }
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  const Var& var(int cell) const { return vars_[static_cast<std::size_t>(cell)]; }

  /// Pushes a task on these cells; false if memory was short. Any thread.
  bool push(Uses uses, Body body = Body::small, const Task& like = {}) {
    Entry* const entry = note(uses, body);
    Task task = like;
    if (task.name.c_str() == Task().name.c_str())
      task.name = "entry";
    entry->pushed = !lacks_memory([&] {
      task.access = {};
      for (int i = 0; i < entry->step.count; ++i) {
        const Var& var = vars_[entry->step.cell[i]];
        const Touch touch = entry->step.touch[i];
        task.access.push_back(touch == Touch::read ? read(var) : touch == Touch::write ? write(var) : out(var));
      }
      push_body(task, *entry);
    });
    return entry->pushed;
  }
  /// Waits for all cells. What is wrong; empty if nothing is.
  std::string differs();
  bool all_ran() const {
    return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.ran.load(); });
  }

 private:
  struct Entry {
    Step step;
    Body body = Body::small;
    std::size_t number = 0;
    Seen seen = {};
    bool pushed = false;
    TaskHandle handle = {};
    std::atomic<bool> ran{false}, threw{false};
    Cell* cells = nullptr;

    void run() {
      if (body == Body::throws) {
        threw = true;
        throw ValueError("as it should");
      }
      run_step(step, number, cells, seen);
      ran = true;
    }
  };

  struct Model {
    bool failed = false;
    std::uint64_t version = 0;
  };
  static std::string replay(Entry& entry, std::vector<Model>& model, std::vector<Cell>& plain, int& lost);

  Entry* note(Uses uses, Body body) {
    const Plenty plenty;
    const std::lock_guard hold(mutex_);
    Entry& entry = entries_.emplace_back();
    for (const auto& [cell, touch] : uses) {
      entry.step.cell[entry.step.count] = static_cast<std::uint32_t>(cell);
      entry.step.touch[entry.step.count++] = touch;
    }
    entry.body = body;
    entry.number = entries_.size();
    entry.cells = cells_.data();
    return &entry;
  }
  template <std::size_t Bytes>
  void push_filled(const Task& task, Entry& entry) {
    entry.handle = engine_.push(task, [this, &entry, fill = std::array<char, Bytes>{}](Queue queue) {
      static_cast<void>(fill);
      enter(entry, queue);
    });
  }
  void enter(Entry& entry, const Queue& queue) {
    if (queue.device().is_cpu() || entry.body == Body::throws)
      return entry.run();
    launch_(queue, [&entry] { entry.run(); });
  }
  void push_body(const Task& task, Entry& entry) {
    switch (entry.body) {
      case Body::large:
        return push_filled<300>(task, entry);
      case Body::huge:
        return push_filled<20'000>(task, entry);
      default:
        entry.handle = engine_.push(task, [this, &entry](Queue queue) { enter(entry, queue); });
    }
  }

  Engine& engine_;
  const Launch launch_;
  std::vector<Var> vars_;
  std::vector<Cell> cells_;
  std::mutex mutex_;
  std::deque<Entry> entries_;
};

// What the entry should have done with the cells, and whether it has.
inline std::string Ledger::replay(Entry& entry, std::vector<Model>& model, std::vector<Cell>& plain, int& lost) {
  const Step& step = entry.step;
  if (!entry.pushed)
    return entry.ran || entry.threw ? "ran, and its push threw" : "";
  bool fails = false;
  try {
    entry.handle.wait();
  } catch (const Error&) {
    fails = true;
  }
  bool bad_input = false;
  for (int i = 0; i < step.count; ++i)
    bad_input = bad_input || (step.touch[i] != Touch::out && model[step.cell[i]].failed);
  if ((entry.ran || entry.threw) && bad_input)
    return "ran on a failed input";
  if (!fails && !entry.ran)
    return "did not run, and nobody says so";
  if (entry.ran) {
    Seen seen;
    run_step(step, entry.number, plain.data(), seen);
    if (seen.digest != entry.seen.digest)
      return "saw other values than in a serial run";
  }
  lost += fails && !entry.threw && !bad_input ? 1 : 0;
  for (int i = 0; i < step.count; ++i) {
    if (step.touch[i] == Touch::read)
      continue;
    model[step.cell[i]].failed = fails;
    model[step.cell[i]].version += fails ? 0 : 1;
  }
  return "";
}

inline std::string Ledger::differs() {
  std::vector<bool> failed(vars_.size());
  for (std::size_t cell = 0; cell < vars_.size(); ++cell) {
    try {
      engine_.wait(write(vars_[cell]));
    } catch (const Error&) {
      failed[cell] = true;
    }
  }
  std::vector<Model> model(vars_.size());
  std::vector<Cell> plain(vars_.size());
  int lost = 0;
  for (Entry& entry : entries_) {
    const std::string wrong = replay(entry, model, plain, lost);
    if (!wrong.empty())
      return "task " + std::to_string(entry.number) + " " + wrong;
  }
  for (std::size_t cell = 0; cell < vars_.size(); ++cell) {
    const std::string which = "cell " + std::to_string(cell);
    if (failed[cell] != model[cell].failed)
      return which + (failed[cell] ? " carries a failure of nobody's" : " is clean, and its writer has failed");
    if (cells_[cell].value != plain[cell].value)
      return which + " holds another value than in a serial run";
    if (vars_[cell].version() != model[cell].version)
      return which + " has version " + std::to_string(vars_[cell].version()) + ", " +
             std::to_string(model[cell].version) + " tasks wrote it";
  }
  return lost <= 1 ? "" : std::to_string(lost) + " tasks were not begun, for no reason";
}

}  // namespace sluice::test
