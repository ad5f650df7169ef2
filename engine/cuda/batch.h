#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/container/small_vector.hpp>
#include <boost/container/static_vector.hpp>

#include <sluice/engine/closure.h>
#include <sluice/engine/cuda/graph_capture.h>
#include <sluice/engine/cuda/launch_rules.h>
#include <sluice/engine/cuda/logical_stream.h>
#include <sluice/engine/detail/late_failures.h>
#include <sluice/engine/source_location.h>

namespace sluice::detail {

/// Tasks that are captured to be launched as one CUDA graph. Each comes after the one before it on its logical stream,
/// which is one branch of the graph, and after those steps on other branches that its Vars name, unless it does so by
/// way of others. Owned by Batches, for the issuing thread of its device only.
class Batch {
 public:
  static constexpr int k_most = LaunchRules::k_sizes.back(), k_most_branches = LaunchRules::k_width;

  /// A task: enough to do it again, should the capture fail.
  struct Step {
    Closure body;
    const char* name = "";
    SourceLocation site = {};
    std::uint64_t push_number = 0;
    LogicalStream* logical = nullptr;
    std::uint64_t sequence = 0;
    PositionSet needs;
    LateFailures::Uses uses;
    bool runs_anyway = false;  // whatever its inputs say
    bool failed = false;       // the body is not called again
  };

  Batch(LogicalStreamTable& table, Device device) : table_(table), device_(device) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  const GraphCapture& capture() const noexcept { return capture_; }
  bool branches() const noexcept { return branches_; }
  bool empty() const noexcept { return size_ == 0; }
  int size() const noexcept { return size_; }
  std::span<const Step> steps() const noexcept { return {steps_.data(), static_cast<std::size_t>(size_)}; }
  /// What the batch as a whole must wait for.
  const PositionSet& outside() const noexcept { return outside_; }
  /// Tells batches of different tasks or edges apart.
  std::uint64_t structure() const noexcept { return structure_; }
  /// The step that has `position`, or -1.
  int step_of(Position position) const noexcept;
  /// True if a task with these needs continues something in the batch.
  bool continues(const PositionSet& needs) const noexcept;
  /// The step that is the last of its branch, or -1.
  int last_on(const LogicalStream& logical) const noexcept;
  /// Steps on the longest way to the end of a step; -1: of none.
  int depth(int step) const noexcept { return step < 0 ? 0 : places_[static_cast<std::size_t>(step)].depth; }
  /// There are branches, and all of them end in the latest step.
  bool is_joined() const noexcept { return open_ends_ == 1 && branches_used_ > 1; }

  /// Begins the capture, of steps on one branch or on several. Throws CudaError.
  void open(int urgency, bool branches);
  /// What is enqueued next depends on `needs` and on what its branch did before. Throws CudaError.
  void begin_step(const LogicalStream& logical, const PositionSet& needs);
  /// In the middle of a step: more that it depends on. Throws CudaError.
  void add_needs(const LogicalStream& logical, const PositionSet& needs);
  /// To be asked at a step's end if the batch branches: where the capture stands is noted. False if it is spoilt.
  bool intact() noexcept;
  /// Where the step that may be added next is written down; it holds what was there before. Throws std::bad_alloc.
  Step& next_step();
  /// It is added: the step that was begun last.
  void end_step() noexcept;
  /// Ends the capture; null if it was spoilt. The steps stay until clear().
  GraphHandle close() noexcept { return capture_.end(); }
  void clear() noexcept;
  /// The steps, to be done without a capture; the batch is empty then.
  std::vector<Step> take() noexcept;

 private:
  struct Branch {
    std::uint64_t first = 0;  // sequence
    int last = -1;
    std::uint32_t turn = 0;  // among the branches, from 1
    boost::container::static_vector<std::uint8_t, k_most> steps;
  };
  /// Of each branch by its turn: how many steps, counted from the batch's first, come before something there.
  using Predecessors = std::array<std::uint8_t, k_most_branches>;
  /// Where a step stands among the others.
  struct Place {
    Predecessors before{};  // itself included
    int depth = 0;
    bool followed = false;
  };
  using Steps = boost::container::small_vector<int, 8>;

  Steps collect(const PositionSet& needs, const LogicalStream& logical);
  void follow(int step) noexcept;
  void gather(int step, CaptureEnds& before);
  void forget_steps() noexcept;

  LogicalStreamTable& table_;
  const Device device_;
  GraphCapture capture_;
  std::vector<Step> steps_;  // first those of the batch, then what others have left, to be written over
  int size_ = 0;
  std::vector<Place> places_;      // of the steps
  std::vector<CaptureEnds> ends_;  // of the steps, if the batch branches
  Place under_way_;                // of the step that has begun
  CaptureEnds ends_under_way_;
  int open_ends_ = 0;  // steps that none comes after
  std::array<Branch, k_local_streams> branches_of_;
  std::uint32_t branches_used_ = 0;
  bool branches_ = false;  // the capture is asked after each step where it stands
  PositionSet outside_;
  std::uint64_t structure_ = 0;
};

}  // namespace sluice::detail
