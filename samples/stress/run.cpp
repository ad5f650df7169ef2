#include "samples/stress/run.h"

#include <array>
#include <barrier>
#include <thread>

namespace samples::stress {

using namespace sluice;

namespace {

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
  place_cells();
}

void Run::place_cells() {
  std::size_t runs = 0;
  for (const RegionPlan& region : plan.regions)
    runs += region.runs.size();
  const std::size_t logs = plan.tasks.size() + runs;
  const std::size_t bytes =
      logs * sizeof(GpuLog) + plan.cells * sizeof(Content) + plan.regions.size() * sizeof(std::uint64_t);
  const bool gpus = !plan.regions.empty();
  host_ = gpus ? Memory::pinned(bytes) : Memory::plain(bytes);
  gpu_logs_ = static_cast<GpuLog*>(host_.data());
  auto* const contents = reinterpret_cast<Content*>(gpu_logs_ + logs);
  auto* turns = reinterpret_cast<std::uint64_t*>(contents + plan.cells);
  for (int home : plan.homes) {
    while (home >= static_cast<int>(devices_.size()))
      devices_.push_back(Memory::on_gpu(static_cast<int>(devices_.size()), plan.cells * sizeof(Content)));
  }
  for (std::uint32_t i = 0; i < plan.cells; ++i) {
    const int home = plan.homes[i];
    cells[i].at = (home < 0 ? contents : static_cast<Content*>(devices_[static_cast<std::size_t>(home)].data())) + i;
  }
  GpuLog* next = gpu_logs_ + plan.tasks.size();
  for (const RegionPlan& region : plan.regions) {
    regions_.emplace_back(engine_, region.gpu, next, turns++);
    next += region.runs.size();
  }
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
  for (const TaskPlan& task : plan.tasks) {
    TaskLog& log = tasks[task.number];
    if (log.pushed && task.form != Form::region)  // runs of a region have no handle
      log.outcome = seen_by([&] { log.handle.wait(); });
  }
  gather();
}

/// What the kernels wrote down, and what the cells hold.
void Run::gather() {
  std::vector<const GpuLog*> logs(plan.tasks.size());
  for (const TaskPlan& task : plan.tasks)
    logs[task.number] = gpu_logs_ + task.number;
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    for (std::size_t i = 0; i < plan.regions[r].runs.size(); ++i)
      logs[plan.regions[r].runs[i]] = regions_[r].logs + i;
  }
  for (const TaskPlan& task : plan.tasks) {
    if (task.gpu < 0)
      continue;
    const GpuLog& from = *logs[task.number];
    TaskLog& log = tasks[task.number];
    log.runs = static_cast<int>(from.runs);
    log.digest = from.digest;
    log.before.assign(from.before, from.before + task.uses.size());
  }
  for (std::uint32_t cell = 0; cell < plan.cells; ++cell)
    ends.push_back(content(cell));
}

Content Run::content(std::uint32_t cell) const {
  if (plan.homes[cell] < 0)
    return *cells[cell].at;
  Content copied;
  copy_and_wait(&copied, cells[cell].at, sizeof(copied));
  return copied;
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
    case Act::freeze:
      return engine_.freeze(vars[step.target]);
    case Act::unfreeze:
      return engine_.unfreeze(vars[step.target]);
    case Act::refused:
      return push_refused(step.target);
    case Act::fork:
    case Act::fork_inside:
      return fork_child(step.act == Act::fork_inside);
  }
}

void Run::push_refused(std::uint32_t cell) {
  try {
    engine_.push({.name = "refused", .access = {write(vars[cell])}}, [] {});
  } catch (const ValueError&) {
    return;
  }
  note(message("a push that writes the frozen cell ", cell, " was taken"));
}

void Run::wait_for_cell(const Step& step) {
  const Var& var = vars[step.target];
  note_value(step, seen_by([&] { step.act == Act::wait_read ? engine_.wait(var) : engine_.wait(write(var)); }));
}

void Run::note_value(const Step& step, Seen seen) {
  if (step.target >= plan.shared) {  // nobody else may push on it now
    const Content now = content(step.target);
    seen.value = now.value;
    seen.writers = now.writers;
  }
  slots[step.slot] = std::move(seen);
}

AccessList Run::accesses(const TaskPlan& task) const {
  AccessList list;
  for (const Use& use : task.uses) {
    const Var& var = vars[use.cell];
    list.push_back(use.touch == Touch::read ? read(var) : use.touch == Touch::write ? write(var) : out(var));
  }
  if (task.names_twice)
    list.push_back(read(vars[task.uses[0].cell]));
  if (plant_ == Plant::access && task.number % 20 == 10)
    list.clear();
  return list;
}

Task Run::described(const TaskPlan& task) const {
  Task description{.name = "stress", .access = accesses(task), .priority = task.priority};
  if (task.runs_on_failed_input)
    description.on_failed_input = OnFailedInput::run;
  if (task.gpu >= 0) {
    description.device = gpu(task.gpu);
    description.stream = task.stream;
    description.capturable = task.capturable;
    description.legacy_stream = task.legacy;
  }
  return description;
}

void Run::push(const TaskPlan& task) {
  TaskLog& log = tasks[task.number];
  log.pushed = true;
  if (task.form == Form::region)
    return run_region(task);
  if (task.form == Form::foreign)
    return push_foreign(task);
  if (task.gpu >= 0) {
    log.handle = engine_.push(described(task), [this, &task](Queue queue) { gpu_body(task, queue); });
  } else if (task.form == Form::coroutine) {
    log.handle = engine_.push(described(task), [this, &task]() -> Coroutine { return awaiting_body(task); });
  } else if (task.big) {
    std::array<std::uint32_t, 40> ballast;
    ballast.fill(task.number);
    log.handle = engine_.push(described(task), [this, &task, ballast] {
      for (std::uint32_t word : ballast) {
        if (word != task.number)
          note(message("the body of task ", task.number, " was damaged"));
      }
      body(task);
    });
  } else {
    log.handle = engine_.push(described(task), [this, &task] { body(task); });
  }
}

void Run::body(const TaskPlan& task) {
  const Inside inside(cells, task);
  if (!inside.alone())
    note(message("task ", task.number, " ran beside one that it excludes"));
  begin(task);
  follow(task.inside);
  if (task.gate)
    open_[task.number].wait(false);
  spin(task.spin);
  end(task);
}

void Run::begin(const TaskPlan& task) {
  TaskLog& log = tasks[task.number];
  log.runs.fetch_add(1, std::memory_order_relaxed);
  bodies_run().fetch_add(1, std::memory_order_relaxed);
  std::uint64_t digest = first_digest(task.number);
  for (std::size_t i = 0; i < task.uses.size(); ++i) {
    const Content& content = *cells[task.uses[i].cell].at;
    log.before[i] = content.writers;
    if (task.uses[i].touch != Touch::out)
      digest = next_digest(digest, content.value);
  }
  log.digest = digest;
}

void Run::end(const TaskPlan& task) {
  TaskLog& log = tasks[task.number];
  const bool fails = task.fault != Fault::none;
  for (std::size_t i = 0; i < task.uses.size(); ++i) {
    if (task.uses[i].touch == Touch::read)
      continue;
    Content& content = *cells[task.uses[i].cell].at;
    content.value = left_value(log.digest, fails, i);
    ++content.writers;
  }
  log.ended.store(true);
  if (fails && !(plant_ == Plant::error && task.number % 2 == 0))
    throw_fault(task);
}

/// Whether everything that was pushed has finished, what bodies pushed included. The counts are sums over threads,
/// taken one by one: only when nothing changes between two looks are they true.
bool Run::is_quiet() const {
  const EngineCounters first = engine_.counters();
  const EngineCounters second = engine_.counters();
  return first.pushed == second.pushed && first.retired == second.retired && first.pushed == first.retired;
}

bool Run::has_ended(const TaskPlan& task) const {
  if (task.form == Form::region)  // which of its runs has written which log is known at the end only
    return true;
  return task.gpu >= 0 ? gpu_logs_[task.number].runs > 0 : tasks[task.number].ended.load();
}

void Run::note_unended(std::size_t phase) {
  for (std::size_t p = 0; p <= phase; ++p) {
    for (const Script& script : plan.phases[p].scripts) {
      for (const Step& step : script) {
        if (step.act == Act::push && !has_ended(plan.tasks[step.target]))
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
