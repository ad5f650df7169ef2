#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include <sluice/engine/cuda/batch.h>
#include <sluice/engine/cuda/gpu_trace.h>
#include <sluice/engine/cuda/stream_slots.h>
#include <sluice/engine/detail/failure.h>

namespace sluice::detail {

struct Gpu;

/// Gathers capturable tasks of one GPU in a batch and launches it as one CUDA graph: when it is full, when somebody
/// waits for it or for its place, or when nothing has been added to it for long. A batch that cannot be a graph is
/// launched task by task, at the places that its tasks have. Owned by Gpu; for the issuing thread only, but for
/// is_stale().
class Batches {
 public:
  explicit Batches(Gpu& gpu);
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  /// Is the task to be part of a batch?
  bool takes(const TaskNode& task);
  /// Captures the task, or launches it directly where that is impossible.
  void issue(TaskNode* task, const PositionSet& needs);
  /// Launches the open batch, if there is one.
  void launch() noexcept;
  /// Where the open batch goes, if `position` is one of its steps; else null.
  StreamSlot* slot_of(Position position) const noexcept { return batch_.step_of(position) < 0 ? nullptr : slot_; }
  /// For the poller, again and again: `open` becomes whether there is a batch; true if nobody adds to it any more.
  bool is_stale(bool& open) noexcept;

  // -- For the body that is being captured; both throw CudaError -----------------------------------------------------
  void begin_step(const LogicalStream& logical, const PositionSet& needs) { batch_.begin_step(logical, needs); }
  void add_needs(const LogicalStream& logical, const PositionSet& needs) { batch_.add_needs(logical, needs); }

 private:
  // batches.cpp
  PositionSet still_open(const PositionSet& needs) const;
  bool waits_for_others(const PositionSet& needs) const;
  bool open(const PositionSet& needs) noexcept;
  LogicalStream& choose_branch(const PositionSet& needs);
  void write_down(Batch::Step& step, const TaskNode& task, const PositionSet& needs);
  void join(TaskNode* task, Batch::Step& step, FailureRef failure);
  bool is_intact(const char* name, bool failed) noexcept;
  void launch_graph(const GraphHandle& graph);
  void mark(StreamSlot& slot) noexcept;

  // batches_reissue.cpp
  void void_place(LogicalStream& logical, const TaskNode& task) noexcept;
  void launch_one_by_one() noexcept;
  void launch_again(Batch::Step& step) noexcept;
  void await(Position need) noexcept;
  void order_or_await(StreamSlot& slot, const PositionSet& needs) noexcept;
  void fail_late(Batch::Step& step, const FailureRef& failure, bool ran) noexcept;
  bool skip_late(Batch::Step& step) noexcept;

  Gpu& gpu_;
  Batch batch_;
  StreamSlot* slot_ = nullptr;  // where it goes, or the one before it went
  TracedBatch traced_;
  std::uint64_t steps_captured_ = 0;
  std::atomic<std::uint64_t> open_steps_{0};  // number of the latest step; 0: no batch is open

  // The poller's: what it saw last.
  std::uint64_t seen_steps_ = 0;
  std::int64_t seen_at_ = 0;
};

}  // namespace sluice::detail
