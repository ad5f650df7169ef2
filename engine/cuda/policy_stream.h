#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include <boost/thread/thread.hpp>

#include <sluice/engine/cuda/stream.h>
#include <sluice/engine/detail/policy.h>

namespace sluice::detail {

/// GPU tasks on streams that it chooses: a task continues the stream whose tail it needs, so a chain stays on one
/// stream without events; a fork takes another; copies have streams of their own per direction. Tasks are ordered by
/// stream order or by events, never by the host.
class StreamPolicy final : public GpuPolicy {
 public:
  StreamPolicy(Core& core, bool serial);
  ~StreamPolicy() override;

  void submit(TaskNode* task) override;
  void fence(TaskNode* task, const PositionSet& positions) override;
  bool passed(Position position) const noexcept override;
  void wait(const PositionSet& positions) override;
  void wait_all() override;
  std::uint64_t stream_waits() const noexcept override { return table_.waits.load(); }
  void stop() override;

 private:
  static constexpr int k_compute_streams = 4;
  struct DeviceStreams {
    std::mutex mutex;
    std::atomic<bool> made{false};
    std::array<CudaStream*, k_compute_streams> compute{};
    CudaStream* copy_in = nullptr;
    CudaStream* copy_out = nullptr;
    CudaStream* collective = nullptr;
    std::atomic<unsigned> turn{0};
  };
  struct Fenced {
    TaskNode* task;
    PositionSet positions;
  };

  DeviceStreams& streams_of(Device device);
  CudaStream& choose(const TaskNode& task, const PositionSet& needs);
  void issue(CudaStream& stream, TaskNode* task);
  void run_body(CudaStream& stream, TaskNode* task);
  void throw_reported();
  void watch_fences();
  bool try_open(Fenced& fenced);

  Core& core_;
  const bool serial_;
  StreamTable table_;
  std::vector<std::unique_ptr<DeviceStreams>> devices_;

  std::mutex fence_mutex_;
  std::condition_variable fence_changed_;
  std::vector<Fenced> fenced_;
  bool stopping_ = false;
  boost::thread fence_thread_;
};

}  // namespace sluice::detail
