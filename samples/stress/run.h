#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <sluice/engine/api.h>
#include <sluice/engine/region.h>

#include "samples/stress/gpu.h"
#include "samples/stress/plan.h"
#include "samples/stress/seen.h"

// A plan carried out on an engine, and all that was seen meanwhile.
namespace samples::stress {

/// What stands behind a Var, on the host or on a GPU. `inside` finds out where the engine does not guard it on the
/// host.
struct Cell {
  Content* at = nullptr;
  std::atomic<int> inside{0};  // readers there now; a writer counts as minus a million
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

class Run {
 public:
  Run(const Plan& plan, sluice::Engine& engine, Plant plant);
  /// Carries the plan out, on as many threads as it has scripts. Returns when everything has finished.
  void execute();

  const Plan& plan;
  std::deque<Cell> cells;
  std::vector<Content> ends;  // of the cells, at the end
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
  void place_cells();
  void push(const TaskPlan& task);
  sluice::AccessList accesses(const TaskPlan& task) const;
  sluice::Task described(const TaskPlan& task) const;
  void push_refused(std::uint32_t cell);
  void body(const TaskPlan& task);
  void begin(const TaskPlan& task);
  void end(const TaskPlan& task);
  sluice::Coroutine awaiting_body(const TaskPlan& task);
  void gpu_body(const TaskPlan& task, const sluice::Queue& queue);
  Work work_of(const TaskPlan& task) const;
  void enqueue_copies(void* stream, const TaskPlan& task, const Work& work) const;
  void push_foreign(const TaskPlan& task);
  void run_region(const TaskPlan& task);
  void push_region(const RegionPlan& region, std::uint32_t number, const RegionPlan::Program& program);
  void fork_child(bool inside);
  Content content(std::uint32_t cell) const;
  void gather();
  void wait_for_cell(const Step& step);
  void note_value(const Step& step, Seen seen);
  void drain(std::size_t phase);
  bool is_quiet() const;
  bool has_ended(const TaskPlan& task) const;
  void note_unended(std::size_t phase);
  void note(const std::string& what);

  /// Of a region, while it runs.
  struct RegionState {
    RegionState(sluice::Engine& engine, int gpu, GpuLog* logs, std::uint64_t* turn)
        : region(engine, sluice::gpu(gpu), "stress"), own(engine.new_var()), logs(logs), turn(turn) {}
    sluice::Region region;
    sluice::Var own;
    GpuLog* logs;  // one a run
    std::uint64_t* turn;
  };

  sluice::Engine& engine_;
  const Plant plant_;
  Memory host_;
  std::vector<Memory> devices_;
  GpuLog* gpu_logs_ = nullptr;  // one a task
  std::deque<RegionState> regions_;
  std::deque<std::atomic<bool>> open_;  // gates, by task
  mutable std::mutex mutex_;
  std::string fault_;
};

/// Bodies that have run in this process: the watchdog's sign of life.
std::atomic<std::uint64_t>& bodies_run();

}  // namespace samples::stress
