#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <sluice/engine/api.h>

#include "samples/stress/plan.h"

// A plan carried out on an engine, and all that was seen meanwhile.
namespace samples::stress {

/// What stands behind a Var. The engine alone guards value and writers; `inside` finds out where it does not.
struct Cell {
  std::uint64_t value = 0;
  std::uint64_t writers = 0;   // bodies that wrote it
  std::atomic<int> inside{0};  // readers there now; a writer counts as minus a million
};

enum class Thrown : std::uint8_t { nothing, planted, cancelled, other };

/// What one wait saw.
struct Seen {
  bool done = false;
  Thrown thrown = Thrown::nothing;
  std::uint32_t task = 0;  // planted: the task that threw it
  std::shared_ptr<sluice::FailureRecord> record = {};
  std::string text = {};    // of what was thrown
  std::uint64_t value = 0;  // of the cell, for waits on cells that are not shared
  std::uint64_t writers = 0;
};

/// What is known of one task after the run.
struct TaskLog {
  std::atomic<int> runs{0};
  std::atomic<bool> ended{false};
  bool pushed = false;
  bool cancelled = false;  // cancel() said yes
  std::uint64_t digest = 0;
  std::vector<std::uint64_t> before;  // writers of each used cell when the body began
  sluice::TaskHandle handle;
  Seen outcome;
};

/// What wait_all threw where a phase ended quietly, and what of it was forgiven.
struct QuietLog {
  std::vector<std::uint32_t> unended;  // bodies of tasks from the threads that had not ended when wait_all returned
  bool in_order = false;               // nothing ran any more when wait_all was asked
  std::vector<Seen> thrown;
  std::vector<std::shared_ptr<sluice::FailureRecord>> forgiven;
};

/// A mistake made on purpose, to see that it is found.
enum class Plant : std::uint8_t { none, access, error };

std::uint64_t mix(std::uint64_t x);

class Run {
 public:
  Run(const Plan& plan, sluice::Engine& engine, Plant plant);
  /// Carries the plan out, on as many threads as it has scripts. Returns when everything has finished.
  void execute();

  const Plan& plan;
  std::deque<Cell> cells;
  std::deque<TaskLog> tasks;
  std::vector<Seen> slots;
  std::vector<QuietLog> quiet;  // one a phase
  std::vector<sluice::Var> vars;
  sluice::EngineCounters counters;

  /// What was wrong at the time itself: an access beside a writer, an exception where none may be. Empty if nothing.
  std::string fault() const;

 private:
  void follow(const Script& script);
  void step(const Step& step);
  void push(const TaskPlan& task);
  sluice::Task described(const TaskPlan& task) const;
  void body(const TaskPlan& task);
  void write_cells(const TaskPlan& task, std::uint64_t digest);
  void wait_for_cell(const Step& step);
  void drain(std::size_t phase);
  bool is_quiet() const;
  void note_unended(std::size_t phase);
  void note(const std::string& what);

  sluice::Engine& engine_;
  const Plant plant_;
  std::deque<std::atomic<bool>> open_;  // gates, by task
  mutable std::mutex mutex_;
  std::string fault_;
};

/// Bodies that have run in this process: the watchdog's sign of life.
std::atomic<std::uint64_t>& bodies_run();

}  // namespace samples::stress
