#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include <sluice/engine/cuda/attendant.h>
#include <sluice/engine/cuda/gpu_trace.h>
#include <sluice/engine/cuda/issuer.h>
#include <sluice/engine/cuda/sleepers.h>
#include <sluice/engine/detail/policy.h>

namespace sluice::detail {

/// GPU tasks on streams that it chooses: a task continues where what it needs is the latest, so a chain stays on one
/// stream without events; a fork takes another; copies have streams of their own per direction. Tasks are ordered by
/// stream order, by events or by the edges of a graph, never by the host.
class StreamPolicy final : public GpuPolicy {
 public:
  StreamPolicy(Core& core, LaunchOptions options);
  ~StreamPolicy() override;

  void submit(TaskNode* task) override;
  void fence(TaskNode* task, const PositionSet& positions) override;
  bool has_fences() const noexcept override { return fences_.load(std::memory_order_relaxed) > 0; }
  std::uint64_t memory_size(Device device) noexcept override;
  bool passed(Position position) const noexcept override;
  bool ask(Position position) noexcept override;
  bool arrived(Position position) const noexcept override;
  void wait(const PositionSet& positions) override;
  void wait_all() override;
  void add_counters(EngineCounters& counters) const noexcept override;
  void flush() override;
  void saw_passed(Position position) override;
  bool on_copy_stream(Position position) const noexcept override;
  std::vector<GpuSpan> take_trace(std::uint64_t recording) override { return trace_.take(recording); }
  void stop() override;

  // -- For issuers ---------------------------------------------------------------------------------------------------
  void wake_attendant() { attendant_.wake(); }
  /// CUDA keeps the error of a call that failed for the thread that made it until that asks. Where an application's
  /// thread has not asked yet, its tasks are issued and its waits are ended by the attendant: calls of ours would
  /// overwrite the error, or be taken for it.
  bool may_call_here() const noexcept;
  GpuTrace& trace() noexcept { return trace_; }
  /// Blocks the host until the work at `sequence`, which has been launched, is done. Throws CudaError.
  void synchronize(Lane& lane, std::uint64_t sequence);

 private:
  struct Fenced {
    TaskNode* task;
    PositionSet positions;
    std::promise<void>* waiter = nullptr;  // if there is no task
  };

  Attendant::Seen look();
  Attendant::Seen open_fences();
  bool try_open(Fenced& fenced);
  Issuer* issuing_here() const noexcept;
  void see_launched(const Lane& lane, std::uint64_t sequence);
  void watch(const Lane& lane, std::uint64_t sequence);
  void wait_for(Lane& lane, std::uint64_t sequence);
  void throw_reported();

  Core& core_;
  GpuTrace trace_;
  LaneTable lanes_;
  Sleepers sleepers_;
  std::vector<std::unique_ptr<Issuer>> issuers_;  // by device

  std::mutex fence_mutex_;
  std::vector<Fenced> fenced_;   // new
  std::vector<Fenced> watched_;  // the attendant's
  std::atomic<int> fences_{0};   // in both

  Attendant attendant_;  // last: it goes first
};

}  // namespace sluice::detail
