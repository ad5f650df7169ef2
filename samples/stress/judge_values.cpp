#include <algorithm>

#include "samples/stress/judge.h"

namespace samples::stress {

using namespace sluice;

namespace {

/// Somebody who touched cells at one moment: a body, or a wait that read a cell's value.
struct Visit {
  const TaskPlan* task = nullptr;
  const Seen* wait = nullptr;
  std::uint32_t cell = 0;  // of a wait
};

/// Who wrote and who read one cell, by the number of writers before them.
struct CellOrder {
  std::vector<std::int64_t> writer;
  std::vector<std::vector<std::uint32_t>> readers;
};

std::string name_of(const Visit& visit) {
  return visit.task != nullptr ? message("task ", visit.task->number) : message("a wait for cell ", visit.cell);
}

/// All bodies that ran, and all waits that read a value.
class Visits {
 public:
  explicit Visits(const Run& run) : run_(run) {
    for (const Phase& phase : run.plan.phases) {
      for (const Script& script : phase.scripts)
        add_waits(script);
    }
    for (const TaskPlan& task : run.plan.tasks) {
      if (run.tasks[task.number].runs.load() == 0)
        continue;
      all_.push_back({.task = &task});
      add_waits(task.inside);
    }
  }

  const std::vector<Visit>& all() const noexcept { return all_; }

  /// Calls use(cell, writes, writers before) for each cell of a visit.
  template <class Each>
  void each_use(const Visit& visit, Each&& use) const {
    if (visit.task == nullptr)
      return use(visit.cell, false, visit.wait->writers);
    const TaskLog& log = run_.tasks[visit.task->number];
    for (std::size_t i = 0; i < visit.task->uses.size(); ++i)
      use(visit.task->uses[i].cell, visit.task->uses[i].touch != Touch::read, log.before[i]);
  }

 private:
  void add_waits(const Script& script) {
    for (const Step& step : script) {
      const bool of_cell = step.act == Act::wait_read || step.act == Act::wait_write;
      if (of_cell && step.target >= run_.plan.shared && run_.slots[step.slot].done)
        all_.push_back({.wait = &run_.slots[step.slot], .cell = step.target});
    }
  }

  const Run& run_;
  std::vector<Visit> all_;
};

std::string collect(const Run& run, const Visits& visits, std::vector<CellOrder>& orders) {
  for (std::size_t cell = 0; cell < orders.size(); ++cell) {
    orders[cell].writer.assign(run.ends[cell].writers, -1);
    orders[cell].readers.resize(run.ends[cell].writers + 1);
  }
  std::string fault;
  for (std::uint32_t i = 0; i < visits.all().size() && fault.empty(); ++i) {
    visits.each_use(visits.all()[i], [&](std::uint32_t cell, bool writes, std::uint64_t before) {
      CellOrder& order = orders[cell];
      if (before >= order.writer.size() + (writes ? 0 : 1))
        fault = message(name_of(visits.all()[i]), " saw more writers of cell ", cell, " than there were");
      else if (!writes)
        order.readers[before].push_back(i);
      else if (order.writer[before] >= 0)
        fault = message("two tasks wrote cell ", cell, " at the same time, one of them ", name_of(visits.all()[i]));
      else
        order.writer[before] = i;
    });
  }
  for (std::size_t cell = 0; cell < orders.size() && fault.empty(); ++cell) {
    const auto& writer = orders[cell].writer;
    if (std::find(writer.begin(), writer.end(), -1) != writer.end())
      fault = message("cell ", cell, " was written by fewer tasks than it counts");
  }
  return fault;
}

/// An order of all visits that agrees with every cell (Kahn's algorithm); shorter if there is none.
std::vector<std::uint32_t> some_order(std::size_t count, const std::vector<CellOrder>& orders) {
  std::vector<std::vector<std::uint32_t>> next(count);
  std::vector<std::uint32_t> before(count, 0);
  auto edge = [&](std::int64_t from, std::int64_t to) {
    next[static_cast<std::size_t>(from)].push_back(static_cast<std::uint32_t>(to));
    ++before[static_cast<std::size_t>(to)];
  };
  for (const CellOrder& order : orders) {
    for (std::size_t s = 0; s < order.readers.size(); ++s) {
      for (std::uint32_t reader : order.readers[s]) {
        if (s > 0)
          edge(order.writer[s - 1], reader);
        if (s < order.writer.size())
          edge(reader, order.writer[s]);
      }
      if (s > 0 && s < order.writer.size())
        edge(order.writer[s - 1], order.writer[s]);
    }
  }
  std::vector<std::uint32_t> sorted;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (before[i] == 0)
      sorted.push_back(i);
  }
  for (std::size_t done = 0; done < sorted.size(); ++done) {
    for (std::uint32_t i : next[sorted[done]]) {
      if (--before[i] == 0)
        sorted.push_back(i);
    }
  }
  return sorted;
}

std::uint64_t digest_of(const TaskPlan& task, const std::vector<std::uint64_t>& values) {
  if (task.copies)
    return values[task.uses[0].cell];
  const bool region = task.form == Form::region;
  std::uint64_t digest = first_digest(region ? task.region : task.number);
  for (const Use& use : task.uses) {
    if (use.touch != Touch::out)
      digest = next_digest(digest, values[use.cell]);
  }
  return digest;
}

/// What the task leaves in the cells.
void leave(const Run& run, const TaskPlan& task, std::vector<std::uint64_t>& values) {
  const auto cell = [&](std::size_t place) -> std::uint64_t& { return values[task.uses[place].cell]; };
  if (task.copies) {
    cell(1) = cell(0);
    return;
  }
  if (task.form == Form::region) {
    const auto& combines = run.plan.regions[task.region].programs[task.program].tasks;
    for (std::size_t i = 0; i < combines.size(); ++i)
      cell(combines[i].to) = combined(cell(combines[i].to), cell(combines[i].from), i);
    return;
  }
  const std::uint64_t digest = run.tasks[task.number].digest;
  for (std::size_t k = 0; k < task.uses.size(); ++k) {
    if (task.uses[k].touch != Touch::read)
      cell(k) = left_value(digest, task.fault != Fault::none, k);
  }
}

std::string replay(const Run& run, const Visits& visits, const std::vector<std::uint32_t>& order) {
  std::vector<std::uint64_t> values(run.cells.size(), 0);
  for (std::uint32_t i : order) {
    const Visit& visit = visits.all()[i];
    if (visit.task == nullptr) {
      if (visit.wait->value != values[visit.cell])
        return message(name_of(visit), " found another value than in a serial run");
      continue;
    }
    const TaskPlan& task = *visit.task;
    if (digest_of(task, values) != run.tasks[task.number].digest)
      return message(name_of(visit), " read other values than in a serial run");
    leave(run, task, values);
  }
  for (std::size_t cell = 0; cell < values.size(); ++cell) {
    if (values[cell] != run.ends[cell].value)
      return message("cell ", cell, " ends with another value than in a serial run");
  }
  return {};
}

}  // namespace

std::string judge_values(const Run& run) {
  const Visits visits(run);
  std::vector<CellOrder> orders(run.cells.size());
  if (std::string fault = collect(run, visits, orders); !fault.empty())
    return fault;
  const std::vector<std::uint32_t> order = some_order(visits.all().size(), orders);
  if (order.size() != visits.all().size())
    return message("the cells disagree about the order of ", visits.all().size() - order.size(), " tasks");
  return replay(run, visits, order);
}

}  // namespace samples::stress
