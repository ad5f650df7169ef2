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
class Lane;
class LaneTable;

inline constexpr int k_max_lanes = 1024;  // of an engine
inline constexpr int k_local_lanes = 48;  // of a device

/// Of each lane of one device: how far something has got.
using Clock = std::array<std::uint64_t, k_local_lanes>;

/// A point in a CUDA stream: an event, and what is done once it has passed. Reused in turn: it then stands for later
/// work of the same stream.
struct Milestone {
  cuda::EventHandle event;
  CudaStream* stream = nullptr;
  std::uint64_t number = 0;  // on its stream, from 1
  Clock clock{};
};

/// A stream of the driver's and what is known of it: which lanes' work it is behind of. For the issuing thread of its
/// device only.
class CudaStream {
 public:
  static constexpr std::uint64_t k_ring = 512;

  /// `urgency` in the driver's terms: smaller is sooner. Throws CudaError.
  CudaStream(LaneTable& lanes, Device device, int urgency, std::atomic<std::uint64_t>& waits);
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t native() const noexcept { return stream_.get(); }
  /// True if what is enqueued next comes after `position` anyway.
  bool knows(const Lane& lane, std::uint64_t sequence) const noexcept;
  /// What is enqueued next comes after `positions`, which have been launched: by as few events as that takes.
  void wait_for(const PositionSet& positions);
  /// What was enqueued last belongs to `lane`, up to `sequence`.
  void learn(const Lane& lane, std::uint64_t sequence) noexcept;
  /// Marks what was enqueued so far. Throws CudaError if that is impossible.
  Milestone& record();
  /// Blocks the host. Throws CudaError.
  void wait_until_idle();
  Milestone& latest() noexcept { return ring_[recorded_ % k_ring]; }

  std::uint64_t recorded() const noexcept { return recorded_; }
  bool ends_with(const Milestone& milestone) const noexcept {
    return milestone.stream == this && milestone.number == recorded_;
  }
  /// Asks the driver, once in `k_ask_every` milestones, whether it is far behind. Throws CudaError.
  bool is_behind();
  /// The same, asked at once.
  bool still_behind();

 private:
  static constexpr std::uint64_t k_ask_every = 64, k_most_open = 256;
  struct Need {
    Milestone* milestone;
    Lane* lane;
    std::uint64_t wanted;
    std::uint64_t reached;
    std::uint64_t weight;
  };
  void enter(const Need& need);
  void make_event(Milestone& milestone);

  LaneTable& lanes_;
  const Device device_;
  std::atomic<std::uint64_t>& waits_;
  cuda::StreamHandle stream_;
  Clock clock_{};
  std::array<std::uint64_t, k_max_lanes> far_{};  // lanes of other devices
  std::vector<Milestone> ring_{k_ring};
  std::uint64_t recorded_ = 0;
  std::uint64_t passed_ = 0;
};

}  // namespace sluice::detail
