#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include <sluice/engine/cuda/cuda_stream.h>
#include <sluice/engine/cuda/gpu_trace.h>
#include <sluice/engine/cuda/launch_rules.h>
#include <sluice/engine/cuda/logical_stream.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

struct Gpu;

/// Classes of streams: which a task goes to follows from its priority and its kind.
enum class StreamClass : std::uint8_t { urgent, normal, background, copy_in, copy_out, copy_peer, collective };
StreamClass class_of(const TaskNode& task) noexcept;

/// A CUDA stream, the logical stream of what is launched on it directly, those of what is captured for it.
struct StreamSlot {
  std::unique_ptr<CudaStream> stream;
  LogicalStream* logical = nullptr;
  std::array<LogicalStream*, LaunchRules::k_width> captured{};  // made as they are needed
  int unmarked = 0;                                             // tasks launched directly since the latest milestone
  bool in_use = false;
};

/// The CUDA streams of one GPU: which one a task goes to, what comes before it there, and how others learn that it has
/// passed. A task continues where what it needs is the latest, so that a chain stays on one stream without events; a
/// fork takes another. Owned by Gpu; for the issuing thread only.
class StreamSlots {
 public:
  static constexpr int k_compute = 4, k_urgent = 2;

  explicit StreamSlots(Gpu& gpu) : gpu_(gpu) {}
  StreamSlots(const StreamSlots&) = delete;
  StreamSlots& operator=(const StreamSlots&) = delete;

  /// At the first task: a process that never uses the device never makes streams on it. Throws CudaError.
  void make();
  /// Where the task goes.
  StreamSlot& choose(const TaskNode& task, const PositionSet& needs);
  /// Where a batch that begins with these needs goes; `last`: the batch before it, if any.
  StreamSlot& choose_for_batch(const PositionSet& needs, StreamSlot* last);
  /// The logical stream of a batch's branch. Throws ValueError when the numbers have run out.
  LogicalStream& branch(StreamSlot& slot, int i, cudaStream_t capture);
  /// The compute stream that has this handle.
  StreamSlot& with(cudaStream_t native) noexcept;
  /// Does a compute stream come after the position anyway?
  bool is_known(const LogicalStream& logical, std::uint64_t sequence) const noexcept;
  int batch_urgency() const noexcept { return compute_[0].stream->urgency(); }
  TracedStream traced(const StreamSlot& slot) const noexcept;

  /// What is enqueued next on the slot comes after `needs`, which are launched first. Throws CudaError.
  void order(StreamSlot& slot, const PositionSet& needs);
  /// The task was launched directly: its place.
  Position place(StreamSlot& slot, const TaskNode& task) noexcept;
  /// Null if no event can be recorded: then the host has waited, unless the device is lost.
  Milestone* record(StreamSlot& slot) noexcept;
  /// Up to `sequence` it is done when `milestone` has passed.
  void mark(StreamSlot& slot, LogicalStream& logical, std::uint64_t sequence, Milestone* milestone) noexcept;
  /// What was launched directly on the slot, or on all, can be waited for from now on.
  void mark(StreamSlot& slot) noexcept;
  void mark_all() noexcept;

 private:
  static constexpr int k_tries = 3;  // of a call without which nobody knows when work is done
  void make(StreamSlot& slot, int urgency, StreamKind kind);
  LogicalStream& add(StreamKind kind, const CudaStream& stream);
  StreamSlot* continued(StreamSlot* slots, int count, Position need);
  StreamSlot& pick(StreamSlot* slots, int count, const PositionSet& needs);
  void launch(const StreamSlot& slot, const PositionSet& needs);

  Gpu& gpu_;
  bool made_ = false;
  std::array<StreamSlot, k_compute> compute_;
  std::array<StreamSlot, k_urgent> urgent_;
  std::array<StreamSlot, 5> others_;  // background, copy_in, copy_out, copy_peer, collective
  unsigned turn_ = 0;
  int in_use_ = 0;  // CUDA streams
  int count_ = 0;   // logical streams
};

}  // namespace sluice::detail
