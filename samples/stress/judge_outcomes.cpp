#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "samples/stress/judge.h"

namespace samples::stress {

using namespace sluice;

namespace {

using Record = const FailureRecord*;

/// What a Var must carry: nothing, or a failure; `lost` unless the old value is still there.
struct Poison {
  Record record = nullptr;
  bool lost = false;
};

/// The earliest place in a shared cell's order that a pusher's next access may have.
struct Floors {
  std::vector<std::uint64_t> read, write;

  void raise(const Floors& other) {
    for (std::size_t i = 0; i < read.size(); ++i) {
      read[i] = std::max(read[i], other.read[i]);
      write[i] = std::max(write[i], other.write[i]);
    }
  }
};

class Serial {
 public:
  Serial(const Run& run, Tally& tally)
      : run_(run),
        tally_(tally),
        poison_(run.cells.size()),
        writers_(run.cells.size(), 0),
        versions_(run.cells.size(), 0) {}

  std::string verdict() {
    const Floors none{std::vector<std::uint64_t>(run_.plan.shared, 0), std::vector<std::uint64_t>(run_.plan.shared, 0)};
    Floors all = none;
    for (std::size_t p = 0; p < run_.plan.phases.size(); ++p) {
      Floors reached = all;
      for (const Script& script : run_.plan.phases[p].scripts) {
        Floors floors = all;
        follow(script, floors);
        reached.raise(floors);
      }
      all = reached;
      if (run_.plan.phases[p].quiet)
        end_quietly(run_.quiet[p]);
    }
    check_end();
    return fault_;
  }

 private:
  template <class... Parts>
  void refuse(bool wrong, const Parts&... parts) {
    if (wrong && fault_.empty())
      fault_ = message(parts...);
  }

  bool holds(const Poison& poison) const {
    return poison.record != nullptr && (poison.lost || forgiven_.count(poison.record) == 0);
  }

  void follow(const Script& script, Floors& floors) {
    for (const Step& step : script) {
      if (!fault_.empty())
        return;
      switch (step.act) {
        case Act::push:
          enter(run_.plan.tasks[step.target], floors);
          break;
        case Act::wait_read:
        case Act::wait_write:
          wait_for_cell(step.target, run_.slots[step.slot]);
          break;
        case Act::wait_task:
          check_wait(run_.slots[step.slot], run_.tasks[step.target].outcome.record.get(), "a task", step.target);
          if (const auto inner = inner_.find(step.target); inner != inner_.end())
            floors.raise(inner->second);
          break;
        case Act::clear:
          poison_[step.target] = {};
          break;
        case Act::cancel:
        case Act::open:
        case Act::freeze:
        case Act::unfreeze:
        case Act::refused:
        case Act::fork:
        case Act::fork_inside:
          break;
      }
    }
  }

  void wait_for_cell(std::uint32_t cell, const Seen& seen) {
    const Poison& poison = poison_[cell];
    check_wait(seen, holds(poison) ? poison.record : nullptr, "a cell", cell);
    if (cell >= run_.plan.shared)
      refuse(
          seen.writers != writers_[cell],
          "a wait for cell ",
          cell,
          " ended after ",
          seen.writers,
          " writers of ",
          writers_[cell]);
  }

  /// A wait must throw the failure `expected`, or nothing.
  void check_wait(const Seen& seen, Record expected, const char* what, std::uint32_t target) {
    ++tally_.waits;
    refuse(!seen.done, "a wait for ", what, " never took place: ", target);
    refuse(
        expected == nullptr && seen.thrown != Thrown::nothing, "a wait for ", what, " ", target, " threw: ", seen.text);
    refuse(
        expected != nullptr && seen.thrown == Thrown::nothing,
        "a wait for ",
        what,
        " ",
        target,
        " kept quiet about a failure");
    refuse(
        expected != nullptr && seen.record.get() != expected,
        "a wait for ",
        what,
        " ",
        target,
        " threw another failure: ",
        seen.text);
    if (expected != nullptr) {
      check_origin(seen);
      reported_.insert(expected);
    }
  }

  /// The exception fits the task whose failure it is.
  void check_origin(const Seen& seen) {
    const auto origin = origins_.find(seen.record.get());
    refuse(origin == origins_.end(), "a failure that no task had was thrown: ", seen.text);
    if (!fault_.empty())
      return;
    const TaskPlan& task = run_.plan.tasks[origin->second];
    if (run_.tasks[task.number].cancelled)
      refuse(seen.thrown != Thrown::cancelled, "task ", task.number, " was cancelled, but a wait threw: ", seen.text);
    else
      refuse(
          seen.thrown != Thrown::planted || seen.task != task.number,
          "task ",
          task.number,
          " failed, but a wait threw: ",
          seen.text);
    refuse(seen.record->task != "stress", "a failure names the task \"", seen.record->task, "\"");
  }

  void enter(const TaskPlan& task, Floors& floors) {
    const TaskLog& log = run_.tasks[task.number];
    refuse(!log.pushed, "task ", task.number, " was never pushed");
    refuse(log.cancelled && !task.cancelled, "task ", task.number, " says it was cancelled");
    tally_.tasks += task.form == Form::foreign ? 2 : 1;  // an export and an import
    bool must_run = !log.cancelled;
    std::vector<Record> causes;
    for (const Use& use : task.uses) {
      if (use.touch != Touch::out && holds(poison_[use.cell]))
        causes.push_back(poison_[use.cell].record);
    }
    must_run = must_run && (causes.empty() || task.runs_on_failed_input);
    const int runs = log.runs.load();
    refuse(runs > 1, "the body of task ", task.number, " ran ", runs, " times");
    if (must_run && task.leaves_nothing() && runs == 0)
      return fail_at_once(task, log);
    refuse(must_run && runs == 0, "task ", task.number, " was skipped although nothing it reads had failed");
    refuse(!must_run && runs > 0, "task ", task.number, " ran although it had to be skipped");
    if (!fault_.empty())
      return;
    if (must_run) {
      run_body(task, log, floors);
    } else {
      skip(task, log, causes);
    }
  }

  void run_body(const TaskPlan& task, const TaskLog& log, Floors& floors) {
    ++tally_.ran;
    for (std::size_t i = 0; i < task.uses.size(); ++i)
      check_place(task, task.uses[i], log.before[i], floors);
    if (!task.inside.empty()) {
      Floors inner = floors;
      follow(task.inside, inner);
      inner_.emplace(task.number, std::move(inner));
    }
    const bool fails = task.fault != Fault::none;
    if (fails)
      new_failure(task, log);
    else
      refuse(
          log.outcome.thrown != Thrown::nothing,
          "task ",
          task.number,
          " ran well, but its handle threw: ",
          log.outcome.text);
    for (const Use& use : task.uses) {
      if (use.touch == Touch::read)
        continue;
      ++writers_[use.cell];
      versions_[use.cell] += fails ? 0 : task.form == Form::foreign ? 2 : 1;
      Poison& poison = poison_[use.cell];
      if (fails)
        poison = {log.outcome.record.get(), true};
      else if (use.touch == Touch::out || !holds(poison))
        poison = {};
    }
  }

  /// A body that threw before it enqueued anything.
  void fail_at_once(const TaskPlan& task, const TaskLog& log) {
    ++tally_.ran;
    new_failure(task, log);
    for (const Use& use : task.uses) {
      if (use.touch != Touch::read)
        poison_[use.cell] = {log.outcome.record.get(), true};
    }
  }

  void skip(const TaskPlan& task, const TaskLog& log, const std::vector<Record>& causes) {
    Record cause = log.outcome.record.get();
    ++tally_.skipped;
    if (log.cancelled) {
      ++tally_.cancelled;
      new_failure(task, log);
    } else {
      refuse(log.outcome.thrown == Thrown::nothing, "task ", task.number, " was skipped, but its handle kept quiet");
      const bool known = std::find(causes.begin(), causes.end(), cause) != causes.end();
      refuse(!known, "task ", task.number, " was skipped for a failure of none of its inputs: ", log.outcome.text);
      if (fault_.empty())
        check_origin(log.outcome);
    }
    for (const Use& use : task.uses) {
      Poison& poison = poison_[use.cell];
      if (use.touch == Touch::out)
        poison = {cause, true};
      else if (use.touch == Touch::write && !holds(poison))
        poison = {cause, false};
    }
  }

  /// The task's own failure: one record, with what its handle throws.
  void new_failure(const TaskPlan& task, const TaskLog& log) {
    Record record = log.outcome.record.get();
    refuse(log.outcome.thrown == Thrown::nothing, "task ", task.number, " failed, but its handle kept quiet");
    refuse(
        record == nullptr, "task ", task.number, " failed, but its handle threw without a record: ", log.outcome.text);
    refuse(
        !origins_.emplace(record, task.number).second, "task ", task.number, " failed with the record of another task");
    if (fault_.empty())
      check_origin(log.outcome);
    if (!log.cancelled) {
      ++tally_.failed;
      thrown_.insert(record);
    }
  }

  void check_place(const TaskPlan& task, const Use& use, std::uint64_t before, Floors& floors) {
    const std::uint32_t cell = use.cell;
    if (cell >= run_.plan.shared) {
      refuse(
          before != writers_[cell],
          "task ",
          task.number,
          " came after ",
          before,
          " writers of cell ",
          cell,
          " instead of ",
          writers_[cell]);
      return;
    }
    const bool reads = use.touch == Touch::read;
    refuse(
        before < (reads ? floors.read : floors.write)[cell],
        "task ",
        task.number,
        " overtook an earlier one of its pusher on shared cell ",
        cell);
    floors.write[cell] = std::max(floors.write[cell], reads ? before : before + 1);
    if (!reads)
      floors.read[cell] = before + 1;
  }

  /// wait_all reports each failed task that no wait has reported, once, the earliest first; cancelled ones never.
  void end_quietly(const QuietLog& log) {
    for (std::uint32_t task : log.unended)
      refuse(run_.tasks[task].runs.load() > 0, "wait_all returned before the body of task ", task, " had ended");
    std::uint64_t last = 0;
    for (const Seen& seen : log.thrown) {
      refuse(seen.record == nullptr, "wait_all threw: ", seen.text);
      if (!fault_.empty())
        return;
      Record record = seen.record.get();
      check_origin(seen);
      refuse(thrown_.count(record) == 0, "wait_all threw for a task that did not fail: ", seen.text);
      refuse(!reported_.insert(record).second, "wait_all reported again: ", seen.text);
      refuse(log.in_order && record->push_number < last, "wait_all did not report the earliest failure first");
      last = record->push_number;
    }
    for (Record record : thrown_)
      refuse(reported_.count(record) == 0, "wait_all kept quiet about the failure of task ", origins_[record]);
    for (const auto& record : log.forgiven)
      forgiven_.insert(record.get());
  }

  void check_end() {
    for (std::uint32_t cell = run_.plan.shared; cell < run_.ends.size() && fault_.empty(); ++cell) {
      refuse(
          run_.ends[cell].writers != writers_[cell],
          "cell ",
          cell,
          " was written ",
          run_.ends[cell].writers,
          " times, not ",
          writers_[cell]);
      refuse(
          run_.vars[cell].version() != versions_[cell],
          "the Var of cell ",
          cell,
          " says version ",
          run_.vars[cell].version(),
          ", not ",
          versions_[cell]);
    }
    for (std::uint32_t cell = 0; cell < run_.plan.shared; ++cell) {
      refuse(
          run_.vars[cell].version() != versions_[cell],
          "the Var of shared cell ",
          cell,
          " says version ",
          run_.vars[cell].version(),
          ", not ",
          versions_[cell]);
      refuse(holds(poison_[cell]), "shared cell ", cell, " carries a failure in the model");
    }
    const EngineCounters& counters = run_.counters;
    refuse(
        counters.pushed != tally_.tasks || counters.retired != tally_.tasks || counters.failed != tally_.failed ||
            counters.skipped != tally_.skipped,
        message(
            "the engine counts ",
            counters.pushed,
            " pushed, ",
            counters.retired,
            " retired, ",
            counters.failed,
            " failed, ",
            counters.skipped,
            " skipped tasks, not ",
            tally_.tasks,
            ", ",
            tally_.tasks,
            ", ",
            tally_.failed,
            ", ",
            tally_.skipped));
  }

  const Run& run_;
  Tally& tally_;
  std::vector<Poison> poison_;
  std::vector<std::uint64_t> writers_, versions_;
  std::unordered_map<std::uint32_t, Floors> inner_;    // after the body of a task with steps inside
  std::unordered_map<Record, std::uint32_t> origins_;  // whose failure it is
  std::unordered_set<Record> thrown_, reported_, forgiven_;
  std::string fault_;
};

}  // namespace

std::string judge_outcomes(const Run& run, Tally& tally) {
  return Serial(run, tally).verdict();
}

}  // namespace samples::stress
