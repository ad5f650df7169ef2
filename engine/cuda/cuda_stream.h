#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/handle.h>
#include <sluice/engine/device.h>
#include <sluice/engine/position.h>

namespace sluice::detail {

class CudaStream;
class LogicalStream;
class LogicalStreamTable;

inline constexpr int k_max_logical_streams = 1024;  // of an engine
inline constexpr int k_local_streams = 32;          // of a device

/// Of each logical stream of one device: how far something has got.
using Frontier = std::array<std::uint64_t, k_local_streams>;

/// A point in a CUDA stream: an event, and what is done once it has passed. Reused in turn: it then stands for later
/// work of the same stream.
struct Milestone {
  cuda::EventHandle event;
  CudaStream* stream = nullptr;
  std::uint64_t number = 0;  // on its stream, from 1
  Frontier behind{};
};

/// A stream of the driver's and what is known of it: which logical streams' work it is behind of. For the issuing
/// thread of its device only.
class CudaStream {
 public:
  static constexpr std::uint64_t k_ring = 512;

  /// `urgency` in the driver's terms: smaller is sooner. Throws CudaError.
  CudaStream(LogicalStreamTable& table, Device device, int urgency, std::atomic<std::uint64_t>& waits);
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t native() const noexcept { return stream_.get(); }
  int urgency() const noexcept { return urgency_; }
  /// True if what is enqueued next comes after `position` anyway.
  bool knows(const LogicalStream& logical, std::uint64_t sequence) const noexcept;
  /// What is enqueued next comes after `positions`, which have been launched: by as few events as that takes.
  void wait_for(const PositionSet& positions);
  /// What was enqueued last belongs to `logical`, up to `sequence`.
  void learn(const LogicalStream& logical, std::uint64_t sequence) noexcept;
  /// Marks what was enqueued so far. Throws CudaError if that is impossible.
  Milestone& record();
  /// Blocks the host. Throws CudaError.
  void wait_until_idle();
  Milestone& latest() noexcept { return ring_[recorded_ % k_ring]; }

  std::uint64_t recorded() const noexcept { return recorded_; }
  bool ends_with(const Milestone& milestone) const noexcept {
    return milestone.stream == this && milestone.number == recorded_;
  }
  /// Asks the driver, every so many milestones, whether it is far behind (LaunchRules). Throws CudaError.
  bool is_behind();
  /// The same, asked at once.
  bool still_behind();

 private:
  struct Need {
    Milestone* milestone;
    LogicalStream* logical;
    std::uint64_t wanted;
    std::uint64_t reached;
    std::uint64_t weight;
  };
  void enter(const Need& need);
  void make_event(Milestone& milestone);

  LogicalStreamTable& table_;
  const Device device_;
  const int urgency_;
  std::atomic<std::uint64_t>& waits_;
  cuda::StreamHandle stream_;
  Frontier behind_{};
  std::array<std::uint64_t, k_max_logical_streams> far_{};  // logical streams of other devices
  std::vector<Milestone> ring_{k_ring};
  std::uint64_t recorded_ = 0;
  std::uint64_t passed_ = 0;
};

}  // namespace sluice::detail
