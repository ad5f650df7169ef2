#pragma once

#include <memory>
#include <vector>

#include <sluice/engine/cuda/background_poller.h>
#include <sluice/engine/cuda/fences.h>
#include <sluice/engine/cuda/gpu.h>
#include <sluice/engine/cuda/gpu_trace.h>
#include <sluice/engine/cuda/reports.h>
#include <sluice/engine/cuda/sleepers.h>
#include <sluice/engine/detail/policy.h>

namespace sluice::detail {

/// GPU tasks on streams that it chooses, ordered by stream order, by events or by the edges of a graph, never by the
/// host: the door to the GPUs (gpu.h), and how host threads wait for them.
class StreamPolicy final : public GpuPolicy {
 public:
  StreamPolicy(Core& core, LaunchOptions options);
  ~StreamPolicy() override;

  void submit(TaskNode* task) override;
  void sort_by_class() noexcept override;
  void fence(TaskNode* task, const PositionSet& positions) override;
  bool has_fences() const noexcept override { return fences_.any(); }
  std::uint64_t memory_size(Device device) noexcept override;
  bool passed(Position position) const noexcept override;
  bool ask(Position position) noexcept override;
  bool arrived(Position position) const noexcept override;
  void wait(const PositionSet& positions) override;
  void wait_all() override;
  void add_counters(EngineCounters& counters) const noexcept override;
  void flush() override;
  void note_completed(Position position) override;
  bool on_copy_stream(Position position) const noexcept override;
  std::vector<GpuSpan> take_trace(std::uint64_t recording) override { return trace_.take(recording); }
  void stop() override { poller_.stop(); }
  void restart() override { poller_.restart(); }
  void rest(std::chrono::steady_clock::time_point deadline) override { poller_.rest(deadline); }

  // -- For the GPUs --------------------------------------------------------------------------------------------------
  Gpu& gpu(Device device) noexcept { return *gpus_[static_cast<std::size_t>(device.index)]; }
  void wake_poller() { poller_.wake(); }
  /// CUDA keeps the error of a call that failed for the thread that made it until that asks. Where an application's
  /// thread has not asked yet, its tasks are issued and its waits are ended by the poller: calls of ours would
  /// overwrite the error, or be taken for it.
  bool may_call_here() const noexcept;
  GpuTrace& trace() noexcept { return trace_; }
  Reports& reports() noexcept { return reports_; }
  /// Blocks the host until the work at `sequence`, which has been launched, is done. Throws CudaError.
  void synchronize(LogicalStream& logical, std::uint64_t sequence);

 private:
  BackgroundPoller::Seen poll();
  Gpu* issuing_here() const noexcept;  // innermost
  void nudge(Gpu& gpu);
  void watch(const LogicalStream& logical, std::uint64_t sequence);
  void wait_for(LogicalStream& logical, std::uint64_t sequence);

  GpuTrace trace_;
  LogicalStreamTable logical_;
  Reports reports_;
  Sleepers sleepers_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
  Fences fences_;
  BackgroundPoller poller_;  // last: it goes first
};

}  // namespace sluice::detail
