#include "samples/stress/run.h"

#include <array>
#include <barrier>
#include <stdexcept>
#include <thread>

namespace samples::stress {

using namespace sluice;

namespace {

/// What a body throws on purpose.
class Planted : public Error {
 public:
  explicit Planted(std::uint32_t task) : Error(sluice::message("planted in task ", task)), task(task) {}
  std::uint32_t task;
};

class Foreign : public std::runtime_error {
 public:
  explicit Foreign(std::uint32_t task) : std::runtime_error("foreign"), task(task) {}
  std::uint32_t task;
};

struct Number {
  std::uint32_t task;
};

[[noreturn]] void throw_fault(const TaskPlan& task) {
  if (task.fault == Fault::error)
    throw Planted(task.number);
  if (task.fault == Fault::foreign)
    throw Foreign(task.number);
  throw Number{task.number};
}

void look_inside(const TaskFailed& error, Seen& seen) {
  try {
    std::rethrow_if_nested(error);
  } catch (const Foreign& inner) {
    seen.thrown = Thrown::planted;
    seen.task = inner.task;
  } catch (const Number& inner) {
    seen.thrown = Thrown::planted;
    seen.task = inner.task;
  } catch (...) {
    seen.text += " (with something nested that nobody threw)";
  }
}

/// Writes down what `wait` throws.
template <class Wait>
Seen seen_by(Wait&& wait) {
  Seen seen{.done = true, .thrown = Thrown::other};
  try {
    wait();
    seen.thrown = Thrown::nothing;
  } catch (const Planted& error) {
    seen.thrown = Thrown::planted;
    seen.task = error.task;
    seen.record = error.record();
    seen.text = error.what();
  } catch (const Cancelled& error) {
    seen.thrown = Thrown::cancelled;
    seen.record = error.record();
    seen.text = error.what();
  } catch (const TaskFailed& error) {
    seen.record = error.record();
    seen.text = error.what();
    look_inside(error, seen);
  } catch (const std::exception& error) {
    seen.text = error.what();
  } catch (...) {
    seen.text = "something that is no exception";
  }
  return seen;
}

constexpr int k_writer = 1'000'000;

/// Stands on the cells of a task while its body runs.
class Inside {
 public:
  Inside(std::deque<Cell>& cells, const TaskPlan& task) : cells_(cells), task_(task) {
    for (const Use& use : task.uses) {
      const int before = cells[use.cell].inside.fetch_add(weight(use), std::memory_order_relaxed);
      alone_ = alone_ && (use.touch == Touch::read ? before >= 0 : before == 0);
    }
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() {
    for (const Use& use : task_.uses)
      cells_[use.cell].inside.fetch_sub(weight(use), std::memory_order_relaxed);
  }
  bool alone() const noexcept { return alone_; }

 private:
  static int weight(const Use& use) noexcept { return use.touch == Touch::read ? 1 : -k_writer; }

  std::deque<Cell>& cells_;
  const TaskPlan& task_;
  bool alone_ = true;
};

void spin(int turns) {
  std::uint64_t x = 1;
  for (int i = 0; i < turns; ++i) {
    x = mix(x);
    asm volatile("" : "+r"(x));
  }
}

}  // namespace

std::atomic<std::uint64_t>& bodies_run() {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

// One round of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

Run::Run(const Plan& plan, Engine& engine, Plant plant)
    : plan(plan),
      cells(plan.cells),
      tasks(plan.tasks.size()),
      slots(plan.slots),
      quiet(plan.phases.size()),
      engine_(engine),
      plant_(plant),
      open_(plan.tasks.size()) {
  for (std::uint32_t i = 0; i < plan.cells; ++i)
    vars.push_back(engine.new_var());
  for (const TaskPlan& task : plan.tasks)
    tasks[task.number].before.resize(task.uses.size());
}

void Run::execute() {
  const std::size_t threads = plan.phases[0].scripts.size();
  std::barrier meet(static_cast<std::ptrdiff_t>(threads));
  auto thread = [&](std::size_t index) {
    for (std::size_t p = 0; p < plan.phases.size(); ++p) {
      try {
        follow(plan.phases[p].scripts[index]);
      } catch (const std::exception& error) {
        note(message("a pushing thread caught: ", error.what()));
      }
      meet.arrive_and_wait();
      if (index == 0 && plan.phases[p].quiet)
        drain(p);
      meet.arrive_and_wait();
    }
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < threads; ++i)
    others.emplace_back(thread, i);
  thread(0);
  for (std::thread& other : others)
    other.join();
  counters = engine_.counters();
  for (TaskLog& log : tasks) {
    if (log.pushed)
      log.outcome = seen_by([&] { log.handle.wait(); });
  }
}

void Run::follow(const Script& script) {
  for (const Step& next : script)
    step(next);
}

void Run::step(const Step& step) {
  switch (step.act) {
    case Act::push:
      return push(plan.tasks[step.target]);
    case Act::cancel:
      tasks[step.target].cancelled = tasks[step.target].handle.cancel();
      return;
    case Act::wait_read:
    case Act::wait_write:
      return wait_for_cell(step);
    case Act::wait_task:
      slots[step.slot] = seen_by([&] { tasks[step.target].handle.wait(); });
      return;
    case Act::clear:
      return engine_.clear_error(vars[step.target]);
    case Act::open:
      open_[step.target].store(true);
      open_[step.target].notify_all();
      return;
  }
}

void Run::wait_for_cell(const Step& step) {
  const Var& var = vars[step.target];
  Seen seen = seen_by([&] { step.act == Act::wait_read ? engine_.wait(var) : engine_.wait(write(var)); });
  if (step.target >= plan.shared) {  // nobody else may push on it now
    seen.value = cells[step.target].value;
    seen.writers = cells[step.target].writers;
  }
  slots[step.slot] = std::move(seen);
}

Task Run::described(const TaskPlan& task) const {
  Task description{.name = "stress", .priority = task.priority};
  if (task.runs_on_failed_input)
    description.on_failed_input = OnFailedInput::run;
  for (const Use& use : task.uses) {
    const Var& var = vars[use.cell];
    description.access.push_back(
        use.touch == Touch::read    ? read(var)
        : use.touch == Touch::write ? write(var)
                                    : out(var));
  }
  if (task.names_twice)
    description.access.push_back(read(vars[task.uses[0].cell]));
  if (plant_ == Plant::access && task.number % 20 == 10)
    description.access.clear();
  return description;
}

void Run::push(const TaskPlan& task) {
  TaskLog& log = tasks[task.number];
  log.pushed = true;
  if (task.big) {
    std::array<std::uint32_t, 40> ballast;
    ballast.fill(task.number);
    log.handle = engine_.push(described(task), [this, &task, ballast] {
      for (std::uint32_t word : ballast) {
        if (word != task.number)
          note(message("the body of task ", task.number, " was damaged"));
      }
      body(task);
    });
    return;
  }
  log.handle = engine_.push(described(task), [this, &task] { body(task); });
}

void Run::body(const TaskPlan& task) {
  TaskLog& log = tasks[task.number];
  log.runs.fetch_add(1, std::memory_order_relaxed);
  bodies_run().fetch_add(1, std::memory_order_relaxed);
  const Inside inside(cells, task);
  if (!inside.alone())
    note(message("task ", task.number, " ran beside one that it excludes"));
  std::uint64_t digest = mix(task.number + 1);
  for (std::size_t i = 0; i < task.uses.size(); ++i) {
    const Cell& cell = cells[task.uses[i].cell];
    log.before[i] = cell.writers;
    if (task.uses[i].touch != Touch::out)
      digest = mix(digest ^ cell.value);
  }
  log.digest = digest;
  follow(task.inside);
  if (task.gate)
    open_[task.number].wait(false);
  spin(task.spin);
  const bool fails = task.fault != Fault::none;
  write_cells(task, fails ? ~digest : digest);
  log.ended.store(true);
  if (fails && !(plant_ == Plant::error && task.number % 2 == 0))
    throw_fault(task);
}

void Run::write_cells(const TaskPlan& task, std::uint64_t digest) {
  for (std::size_t i = 0; i < task.uses.size(); ++i) {
    if (task.uses[i].touch == Touch::read)
      continue;
    Cell& cell = cells[task.uses[i].cell];
    cell.value = mix(digest + i);
    ++cell.writers;
  }
}

/// Whether everything that was pushed has finished, what bodies pushed included. The counts are sums over threads,
/// taken one by one: only when nothing changes between two looks are they true.
bool Run::is_quiet() const {
  const EngineCounters first = engine_.counters();
  const EngineCounters second = engine_.counters();
  return first.pushed == second.pushed && first.retired == second.retired && first.pushed == first.retired;
}

void Run::note_unended(std::size_t phase) {
  for (std::size_t p = 0; p <= phase; ++p) {
    for (const Script& script : plan.phases[p].scripts) {
      for (const Step& step : script) {
        if (step.act == Act::push && !tasks[step.target].ended.load())
          quiet[phase].unended.push_back(step.target);
      }
    }
  }
}

// Every thread stands at the barrier. wait_all covers what they pushed; what bodies push meanwhile comes later. Once
// all is quiet nothing moves, so what is forgiven here is forgiven for all that comes.
void Run::drain(std::size_t phase) {
  QuietLog& log = quiet[phase];
  log.in_order = phase % 2 == 1;
  const Var nothing = engine_.new_var();
  while (log.in_order && !is_quiet()) {
    engine_.wait(nothing);  // where no workers run, who waits runs what is left
    std::this_thread::yield();
  }
  bool first = true;
  for (bool threw = true; threw || !is_quiet(); first = false) {
    Seen seen = seen_by([&] {
      try {
        engine_.wait_all();
      } catch (const Error& error) {
        if (log.in_order && error.record() != nullptr && error.record()->push_number % 2 == 0) {
          engine_.forgive(error);
          log.forgiven.push_back(error.record());
        }
        throw;
      }
    });
    if (first)
      note_unended(phase);
    threw = seen.thrown != Thrown::nothing;
    if (threw)
      log.thrown.push_back(std::move(seen));
    if (log.thrown.size() > plan.tasks.size())
      return note("wait_all throws without end");
  }
}

void Run::note(const std::string& what) {
  const std::lock_guard hold(mutex_);
  if (fault_.empty())
    fault_ = what;
}

std::string Run::fault() const {
  const std::lock_guard hold(mutex_);
  return fault_;
}

}  // namespace samples::stress
