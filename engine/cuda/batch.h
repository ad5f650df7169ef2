#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <boost/container/small_vector.hpp>
#include <cuda_runtime_api.h>

#include <sluice/engine/closure.h>
#include <sluice/engine/cuda/graph_cache.h>
#include <sluice/engine/cuda/lane.h>

namespace sluice::detail {

/// Tasks that were captured and wait to be launched as one CUDA graph. Each depends on those that its Vars say and on
/// the one before it on its lane. For the issuing thread of its device only.
class Batch {
 public:
  static constexpr int k_most = 64;

  /// A captured task: enough to do it again, should the capture fail.
  struct Step {
    Closure body;
    const char* name = "";
    const char* file = "";
    int line = 0;
    std::uint64_t push_number = 0;
    Lane* lane = nullptr;
    std::uint64_t sequence = 0;
    PositionSet needs;
    bool failed = false;
    std::uint32_t nodes_begin = 0, nodes_end = 0;  // what comes after it comes after these
  };

  Batch(LaneTable& lanes, Device device) : lanes_(lanes), device_(device) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  bool is_open() const noexcept { return open_; }
  bool empty() const noexcept { return steps_.empty(); }
  int size() const noexcept { return static_cast<int>(steps_.size()); }
  std::vector<Step>& steps() noexcept { return steps_; }
  /// What the batch as a whole must wait for.
  const PositionSet& outside() const noexcept { return outside_; }
  /// Tells batches of different tasks or edges apart.
  std::uint64_t shape() const noexcept { return shape_; }
  /// True if a task with these needs continues something in the batch.
  bool continues(const PositionSet& needs) const noexcept;
  /// The step that is the lane's last, or -1.
  int last_on(const Lane& lane) const noexcept { return lanes_of_steps_[index(lane)].last; }
  /// The step that issued `position`, or -1.
  int step_of(Position position) const noexcept;
  const Step& step(int at) const noexcept { return steps_[static_cast<std::size_t>(at)]; }

  /// Begins the capture on `stream`. Throws CudaError.
  void open(cudaStream_t stream);
  /// What is enqueued next depends on `needs` and on what the lane did before. Throws CudaError.
  void begin_step(Lane& lane, const PositionSet& needs);
  /// In the middle of a step: more that it depends on.
  void add_needs(const PositionSet& needs);
  /// After the step's body: notes where the capture stands. False if something has spoilt it.
  bool settle() noexcept;
  /// The settled step belongs to `task` from now on, which has its place on the lane; takes its body.
  void end_step(TaskNode& task, Lane& lane, Position position, const PositionSet& needs, bool failed);
  /// Ends the capture; null if it was spoilt. The steps stay until clear().
  GraphHandle close() noexcept;
  /// Ends a capture whose graph nobody wants.
  void abandon() noexcept;
  void clear() noexcept;
  /// The steps; the batch is empty then.
  std::vector<Step> take() noexcept;

 private:
  using Steps = boost::container::small_vector<int, 8>;
  struct OnLane {
    std::uint64_t first = 0;  // sequence
    int last = -1;
    boost::container::small_vector<std::uint8_t, 8> steps;
  };

  static std::size_t index(const Lane& lane) noexcept { return static_cast<std::size_t>(lane.local()); }
  void collect(const PositionSet& needs, Steps& after);
  void gather(const Steps& after);
  bool stands_there() const noexcept;
  void depend_on_gathered(unsigned how);
  void mix(std::uint64_t word) noexcept;

  LaneTable& lanes_;
  const Device device_;
  cudaStream_t stream_ = nullptr;
  std::vector<Step> steps_;
  std::vector<cudaGraphNode_t> nodes_;  // ends of steps, one after the other
  std::vector<cudaGraphEdgeData> edges_;
  std::uint32_t settled_ = 0;            // where the ends of the step under way begin
  std::vector<cudaGraphNode_t> before_;  // scratch
  std::vector<cudaGraphEdgeData> before_edges_;
  std::array<OnLane, k_local_lanes> lanes_of_steps_;
  PositionSet outside_;
  std::uint64_t shape_ = 0;
  bool open_ = false;
};

}  // namespace sluice::detail
