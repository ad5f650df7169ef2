#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <boost/container/small_vector.hpp>
#include <boost/container/static_vector.hpp>
#include <cuda_runtime_api.h>

#include <sluice/engine/closure.h>
#include <sluice/engine/cuda/capture_ends.h>
#include <sluice/engine/cuda/graph_cache.h>
#include <sluice/engine/cuda/lane.h>
#include <sluice/engine/detail/late_failures.h>
#include <sluice/engine/source_location.h>

namespace sluice::detail {

/// Tasks that wait to be launched as one CUDA graph. Each comes after the one before it on its lane, and after those
/// steps on other lanes that its Vars name, unless it does so by way of others. Tasks that say what they enqueue may be
/// put off instead of captured: should the batch as a whole be known by its script, it needs no capture. For the
/// issuing thread of its device only.
class Batch {
 public:
  static constexpr int k_most = 128, k_most_lanes = 8;
  static constexpr std::size_t k_most_said = 64;  // words of a body: what says more is not put off
  using Script = std::vector<std::uint64_t>;

  /// A task: enough to capture it, or to do it again, should the capture fail.
  struct Step {
    Closure body;
    const char* name = "";
    SourceLocation site = {};
    std::uint64_t push_number = 0;
    Lane* lane = nullptr;
    std::uint64_t sequence = 0;
    PositionSet needs;
    LateFailures::Uses uses;
    bool runs_anyway = false;  // whatever its inputs say
    bool failed = false;       // the body is not called again
  };

  Batch(LaneTable& lanes, Device device) : lanes_(lanes), device_(device) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  bool is_open() const noexcept { return open_; }
  bool branches() const noexcept { return branches_; }
  bool empty() const noexcept { return steps_.empty(); }
  /// There are steps, and none of them has been captured.
  bool is_put_off() const noexcept { return !captured_ && !steps_.empty(); }
  int size() const noexcept { return static_cast<int>(steps_.size()); }
  std::vector<Step>& steps() noexcept { return steps_; }
  /// What the batch as a whole must wait for.
  const PositionSet& outside() const noexcept { return outside_; }
  /// Tells batches of different tasks or edges apart.
  std::uint64_t shape() const noexcept { return shape_; }
  /// What the steps enqueue, and in which order: batches with the same script do the same. Empty: nobody knows.
  const Script& script() const noexcept { return script_; }
  /// True if a task with these needs continues something in the batch.
  bool continues(const PositionSet& needs) const noexcept;
  /// The step that is the lane's last, or -1.
  int last_on(const Lane& lane) const noexcept { return lanes_of_steps_[index(lane)].last; }
  /// Steps on the longest way to the end of a step, or of the lane's last one.
  int depth(int step) const noexcept { return place(step).depth; }
  int depth(const Lane& lane) const noexcept { return last_on(lane) < 0 ? 0 : depth(last_on(lane)); }
  /// There are branches, and all of them end in the latest step.
  bool is_joined() const noexcept { return open_ends_ == 1 && lanes_used_ > 1; }
  /// The step that has `position`, or -1.
  int step_of(Position position) const noexcept;
  const Step& step(int at) const noexcept { return steps_[static_cast<std::size_t>(at)]; }

  /// Begins the capture on `stream`, of steps on one lane or on several. Throws CudaError.
  void open(cudaStream_t stream, bool branches);
  /// What is enqueued next depends on `needs` and on what the lane did before. Throws CudaError.
  void begin_step(Lane& lane, const PositionSet& needs);
  /// The same for a step that is put off: nothing is captured.
  void put_off_step(const Lane& lane, const PositionSet& needs) { enter(needs, lane); }
  /// In the middle of a step: more that it depends on. Throws CudaError.
  void add_needs(const Lane& lane, const PositionSet& needs);
  /// To be asked at a step's end if the batch branches: where the capture stands is noted. False if it is spoilt.
  bool intact() noexcept;
  /// The step that was begun last.
  void end_step(Step&& step);
  /// What a body says of itself belongs to the step that is added next. A hash of it; 0 if it says nothing.
  std::uint64_t describe(const Closure& body);
  /// What that step enqueues depends on more than it says.
  void lose_script() noexcept { described_.clear(); }
  bool says_all() const noexcept { return !described_.empty(); }
  /// The step that is added next finds room. Throws std::bad_alloc.
  void make_room();
  /// Ends the capture; null if it was spoilt. The steps stay until clear().
  GraphHandle close() noexcept;
  /// Ends a capture whose graph nobody wants.
  void abandon() noexcept;
  void clear() noexcept;
  /// The steps; the batch is empty then.
  std::vector<Step> take() noexcept;
  /// The same for steps that were put off, which have been added already: `outside` is what they wait for. Until
  /// end_again().
  void open_again(cudaStream_t stream, const PositionSet& outside);
  void end_again() noexcept { again_ = false; }

 private:
  struct OnLane {
    std::uint64_t first = 0;  // sequence
    int last = -1;
    std::uint32_t turn = 0;  // among the lanes of the batch, from 1
    boost::container::static_vector<std::uint8_t, k_most> steps;
  };
  /// Of each lane by its turn: how many steps, counted from the batch's first, come before something there.
  using Clock = std::array<std::uint8_t, k_most_lanes>;
  /// Where a step stands among the others.
  struct Place {
    Clock before{};  // itself included
    int depth = 0;
    bool followed = false;
  };
  using Steps = boost::container::small_vector<int, 8>;

  static std::size_t index(const Lane& lane) noexcept { return static_cast<std::size_t>(lane.local()); }
  const Place& place(int step) const noexcept { return places_[static_cast<std::size_t>(step)]; }
  std::uint8_t& known_of(const OnLane& lane) noexcept { return under_way_.before[lane.turn - 1]; }
  Steps collect(const PositionSet& needs, const Lane& lane, bool known);
  void follow(int step) noexcept;
  Steps enter(const PositionSet& needs, const Lane& lane);
  void gather(int step, CaptureEnds& before);
  void mix(std::uint64_t word) noexcept;
  void forget_steps() noexcept;

  LaneTable& lanes_;
  const Device device_;
  cudaStream_t stream_ = nullptr;
  std::vector<Step> steps_;
  std::vector<Place> places_;      // of the steps
  std::vector<CaptureEnds> ends_;  // of the steps, if the batch branches
  Place under_way_;                // of the step that has begun
  CaptureEnds ends_under_way_;
  int open_ends_ = 0;  // steps that none comes after
  std::array<OnLane, k_local_lanes> lanes_of_steps_;
  PositionSet outside_;
  std::uint64_t shape_ = 0;
  bool open_ = false;      // a capture is under way
  bool branches_ = false;  // the capture is asked after each step where it stands
  bool captured_ = false;  // the steps are, or were, in one
  bool again_ = false;

  Script script_;
  std::vector<std::uint64_t> described_;  // of the step under way; empty: it says nothing
  std::uint32_t lanes_used_ = 0;
  bool scripted_ = true;  // all steps so far say what they enqueue
};

}  // namespace sluice::detail
