#include "samples/stress/plan.h"

#include <algorithm>
#include <iterator>
#include <random>

namespace samples::stress {

namespace {

using sluice::Priority;

/// Whoever pushes: a thread, or a body with children.
struct Pusher {
  std::vector<std::uint32_t>* cells;  // whose order it fixes
  int depth = 0;                      // 0: a thread
  bool shares = true;                 // may use shared cells
  bool waits = true;                  // may wait for what it pushed
  std::uint32_t thread = 0;
  std::vector<std::uint32_t> recent = {};  // tasks that it may wait for
};

class Planner {
 public:
  explicit Planner(const Shape& shape)
      : shape_(shape), random_(shape.seed), groups_(static_cast<std::size_t>(shape.threads)) {
    plan_.shared = 2 + below(6);
    new_cells(plan_.shared);
    for (auto& group : groups_)
      group = new_cells(3 + below(6));
    for (std::uint32_t t = 0; shape.gpus > 0 && t < groups_.size(); ++t)
      plan_.regions.push_back(new_region());
  }

  Plan make() {
    const std::uint32_t phases = 2 + below(3);
    for (std::uint32_t p = 0; p < phases; ++p) {
      Phase& phase = plan_.phases.emplace_back();
      for (std::uint32_t t = 0; t < groups_.size(); ++t)
        phase.scripts.push_back(thread_script(groups_[(t + p) % groups_.size()], t));
      phase.quiet = p + 1 == phases || chance(50);
    }
    return std::move(plan_);
  }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  bool chance(std::uint32_t percent) { return below(100) < percent; }
  std::uint32_t one_of(const std::vector<std::uint32_t>& list) {
    return list[below(static_cast<std::uint32_t>(list.size()))];
  }

  std::vector<std::uint32_t> new_cells(std::uint32_t count) {
    std::vector<std::uint32_t> cells;
    for (std::uint32_t i = 0; i < count; ++i) {
      cells.push_back(plan_.cells++);
      // One at least that everybody reaches.
      plan_.homes.push_back(i > 0 && shape_.gpus > 0 && chance(35) ? some_gpu() : -1);
    }
    dirty_.resize(plan_.cells, false);
    frozen_.resize(plan_.cells, false);
    return cells;
  }

  int some_gpu() { return static_cast<int>(below(static_cast<std::uint32_t>(shape_.gpus))); }
  bool reaches(int gpu, std::uint32_t cell) const { return plan_.homes[cell] < 0 || plan_.homes[cell] == gpu; }

  TaskPlan& new_task() {
    TaskPlan& task = plan_.tasks.emplace_back();
    task.number = static_cast<std::uint32_t>(plan_.tasks.size() - 1);
    return task;
  }

  /// Some of its shared cells are only read, the others combined at random.
  RegionPlan new_region() {
    RegionPlan region{.gpu = some_gpu()};
    std::vector<std::uint32_t> cells;
    for (std::uint32_t cell = 0; cell < plan_.shared && cells.size() < k_uses; ++cell) {
      if (reaches(region.gpu, cell))
        cells.push_back(cell);
    }
    for (std::uint32_t i = 1 + below(3) + (chance(5) ? 10 : 0); i > 0; --i) {
      RegionPlan::Program& program = region.programs.emplace_back();
      for (std::uint32_t cell : cells)
        program.uses.push_back({cell, Touch::read});
      const auto count = static_cast<std::uint32_t>(cells.size());
      for (std::uint32_t k = below(12); k > 0; --k) {
        const auto to = static_cast<std::uint8_t>(below(count)), from = static_cast<std::uint8_t>(below(count));
        program.tasks.push_back({to, from});
        program.uses[to].touch = Touch::write;
      }
    }
    return region;
  }

  Script thread_script(std::vector<std::uint32_t>& group, std::uint32_t thread) {
    Script script;
    const bool gated = shape_.gates && chance(30);
    const auto steps = static_cast<std::uint32_t>(shape_.steps);
    Pusher pusher{.cells = &group, .waits = !gated, .thread = thread};
    std::uint32_t gate = 0;
    if (gated) {
      TaskPlan& task = new_task();
      gate = task.number;
      for (std::uint32_t cell : group) {
        if (reaches(-1, cell))
          task.uses.push_back({cell, Touch::write});
      }
      task.gate = task.runs_on_failed_input = true;
      script.push_back({.act = Act::push, .target = gate});
    }
    add_steps(pusher, script, steps / 2 + below(steps));
    if (gated)
      script.push_back({.act = Act::open, .target = gate});
    for (std::uint32_t cell : group) {
      if (frozen_[cell])
        thaw(script, cell);
    }
    return script;
  }

  void thaw(Script& script, std::uint32_t cell) {
    script.push_back({.act = Act::unfreeze, .target = cell});
    frozen_[cell] = false;
  }

  /// Of a thread, besides pushes and waits.
  void add_rarity(Pusher& pusher, Script& script) {
    const std::uint32_t cell = one_of(*pusher.cells);
    if (!frozen_[cell] && chance(60)) {
      script.push_back({.act = Act::freeze, .target = cell});
      frozen_[cell] = true;
    } else if (frozen_[cell]) {
      if (chance(50))
        script.push_back({.act = Act::refused, .target = cell});
      thaw(script, cell);
    } else if (shape_.forks && chance(8)) {
      script.push_back({.act = Act::fork});
    }
  }

  void add_region_run(const Pusher& pusher, Script& script) {
    RegionPlan& region = plan_.regions[pusher.thread];
    TaskPlan& task = new_task();
    task.form = Form::region;
    task.gpu = region.gpu;
    task.region = pusher.thread;
    task.program = below(static_cast<std::uint32_t>(region.programs.size()));
    task.uses = region.programs[task.program].uses;
    region.runs.push_back(task.number);
    script.push_back({.act = Act::push, .target = task.number});
  }

  void add_steps(Pusher& pusher, Script& script, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t die = pusher.waits ? below(100) : 99;
      if (die < 9) {
        const std::uint32_t cell = one_of(*pusher.cells);
        script.push_back({chance(70) || frozen_[cell] ? Act::wait_read : Act::wait_write, cell, plan_.slots++});
      } else if (die < 11 && pusher.depth == 0) {
        script.push_back({Act::wait_read, below(plan_.shared), plan_.slots++});
      } else if (die < 15 && !pusher.recent.empty()) {
        join(pusher, script, one_of(pusher.recent));
      } else if (die < 17) {
        const std::uint32_t cell = one_of(*pusher.cells);
        if (frozen_[cell])
          thaw(script, cell);
        script.push_back({.act = Act::clear, .target = cell});
        dirty_[cell] = false;
      } else if (pusher.depth == 0 && chance(4)) {
        add_rarity(pusher, script);
      } else if (pusher.depth == 0 && shape_.gpus > 0 && chance(6)) {
        add_region_run(pusher, script);
      } else {
        add_push(pusher, script);
      }
    }
  }

  /// Waits for a task; once its body has ended, the cells of its children are the pusher's.
  void join(Pusher& pusher, Script& script, std::uint32_t number) {
    script.push_back({Act::wait_task, number, plan_.slots++});
    TaskPlan& task = plan_.tasks[number];
    pusher.cells->insert(pusher.cells->end(), task.nest.begin(), task.nest.end());
    task.nest.clear();
  }

  void add_push(Pusher& pusher, Script& script) {
    TaskPlan& task = new_task();
    const std::uint32_t number = task.number;
    const bool shares = pusher.shares && chance(50);
    task.priority = static_cast<Priority>(below(4));
    task.runs_on_failed_input = chance(8);
    task.big = chance(5);
    task.spin = chance(10) ? static_cast<int>(below(5000)) : 0;
    if (!shares) {
      task.fault = chance(4) ? static_cast<Fault>(1 + below(3)) : Fault::none;
      task.cancelled = chance(4);
    }
    task.gpu = shape_.gpus > 0 && chance(60) ? some_gpu() : -1;
    choose_uses(task, *pusher.cells, shares);
    if (task.gpu >= 0)
      make_gpu_task(task, pusher, shares);
    note_dirt(task);
    if (pusher.depth < 3 && chance(6) && has_inside(task))
      add_children(pusher, number);
    if (pusher.depth == 0 && shape_.waits_for_earlier && chance(4) && task.gpu < 0)
      wait_for_earlier(pusher, plan_.tasks[number]);
    script.push_back({.act = Act::push, .target = number});
    if (plan_.tasks[number].cancelled)
      script.push_back({.act = Act::cancel, .target = number});
    pusher.recent.push_back(number);
    if (pusher.recent.size() > 8)
      pusher.recent.erase(pusher.recent.begin());
  }

  /// A body that runs once, and where nothing is skipped silently.
  static bool has_inside(const TaskPlan& task) {
    return task.gpu < 0 || (!task.capturable && task.form == Form::plain && task.fault == Fault::none);
  }

  void make_gpu_task(TaskPlan& task, const Pusher& pusher, bool shares) {
    constexpr sluice::StreamKind k_kinds[] = {
        sluice::StreamKind::copy_in,
        sluice::StreamKind::copy_out,
        sluice::StreamKind::copy_peer,
        sluice::StreamKind::collective};
    task.big = false;
    task.spin /= 8;
    if (!shares && chance(25))
      make_copy(task, *pusher.cells);
    if (!task.copies && chance(10))
      task.stream = k_kinds[below(std::size(k_kinds))];
    if (!shares && !task.copies && pusher.depth == 0 && pusher.waits && chance(8)) {
      task.form = Form::foreign;
      task.fault = Fault::none;
      task.cancelled = task.names_twice = false;
      task.runs_on_failed_input = true;
      return;
    }
    task.capturable = chance(75);
    task.legacy = !task.capturable && !task.copies && chance(10);
    task.throws_late = !task.capturable && chance(50);
  }

  /// A copy between two cells of which one lies on a GPU. (From host to host CUDA makes the host wait.)
  void make_copy(TaskPlan& task, const std::vector<std::uint32_t>& own) {
    const std::uint32_t from = one_of(own), to = one_of(own);
    const int source = plan_.homes[from], target = plan_.homes[to];
    if (from == to || frozen_[to] || (source < 0 && target < 0))
      return;
    task.gpu = target >= 0 ? target : source;
    task.copies = true;
    task.uses = {{from, Touch::read}, {to, chance(50) ? Touch::write : Touch::out}};
    task.stream = target >= 0 ? sluice::StreamKind::copy_in : sluice::StreamKind::copy_out;
    if (chance(20))
      task.stream = sluice::StreamKind::compute;
    task.names_twice = false;
  }

  void choose_uses(TaskPlan& task, const std::vector<std::uint32_t>& own, bool shares) {
    const std::uint32_t wanted = 1 + below(k_uses);
    for (std::uint32_t tries = 0; (tries < 8 && task.uses.size() < wanted) || task.uses.empty(); ++tries) {
      const bool here = shares && (task.uses.empty() || chance(40));
      const std::uint32_t cell = here ? below(plan_.shared) : one_of(own);
      const bool again =
          std::any_of(task.uses.begin(), task.uses.end(), [&](const Use& use) { return use.cell == cell; });
      if (again || !reaches(task.gpu, cell) || (frozen_[cell] && shares && dirty_[cell]))
        continue;
      const std::uint32_t die = below(6);
      Touch touch = die < 3 || frozen_[cell] ? Touch::read : die < 5 ? Touch::write : Touch::out;
      // What uses a shared cell must run for sure.
      if (shares && dirty_[cell] && !task.runs_on_failed_input)
        touch = Touch::out;
      task.uses.push_back({cell, touch});
    }
    task.names_twice = task.uses[0].touch != Touch::out && chance(6);
  }

  /// Keeps `dirty_`: cells that may hold a failure when the next task comes.
  void note_dirt(const TaskPlan& task) {
    bool may_fail = task.fault != Fault::none || task.cancelled;
    for (const Use& use : task.uses)
      may_fail = may_fail || (use.touch != Touch::out && dirty_[use.cell] && !task.runs_on_failed_input);
    for (const Use& use : task.uses) {
      if (use.touch == Touch::read)
        continue;
      dirty_[use.cell] = may_fail || (use.touch == Touch::write && dirty_[use.cell]);
    }
  }

  /// A body that waits for its children must not depend on anybody who may wait for it: they keep to their own cells.
  void add_children(const Pusher& pusher, std::uint32_t number) {
    std::vector<std::uint32_t> nest = new_cells(2 + below(3));
    const bool on_gpu = plan_.tasks[number].gpu >= 0;  // where no body waits
    const bool alone = !pusher.shares || (!on_gpu && chance(50));
    Pusher inner{.cells = &nest, .depth = pusher.depth + 1, .shares = !alone, .waits = alone && !on_gpu};
    Script inside;
    add_steps(inner, inside, 2 + below(7));
    if (shape_.forks && !on_gpu && chance(2))
      inside.push_back({.act = Act::fork_inside});
    if (inner.waits && !plan_.tasks[number].big && !plan_.tasks[number].cancelled && chance(50))
      plan_.tasks[number].form = Form::coroutine;
    plan_.tasks[number].inside = std::move(inside);
    plan_.tasks[number].nest = std::move(nest);
  }

  void wait_for_earlier(Pusher& pusher, TaskPlan& task) {
    if (pusher.recent.empty())
      return;
    const auto chosen = pusher.recent.begin() + below(static_cast<std::uint32_t>(pusher.recent.size()));
    if (plan_.tasks[*chosen].cancelled)
      return;
    task.inside.push_back({Act::wait_task, *chosen, plan_.slots++});
    pusher.recent.erase(chosen);  // one handle, one user at a time
  }

  const Shape shape_;
  std::mt19937_64 random_;
  Plan plan_;
  std::vector<std::vector<std::uint32_t>> groups_;
  std::vector<bool> dirty_;
  std::vector<bool> frozen_;
};

}  // namespace

Plan make_plan(const Shape& shape) {
  return Planner(shape).make();
}

}  // namespace samples::stress
