#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <sluice/engine/detail/region.h>
#include <sluice/engine/detail/var_core.h>
#include <sluice/engine/engine.h>
#include <sluice/engine/region.h>

namespace sluice::detail {

/// What a region has captured, launched by its owner himself: on a stream that nobody else has, from the thread that
/// calls, without a task. To everybody else it is a task that reads what the region's tasks read, pushed by begin() and
/// over with end(): writers wait for it, and it does not begin before those that were pushed earlier. Nobody else may
/// use what the tasks write, nor run the region. For one thread at a time.
class OwnLaunch {
 public:
  /// Null if the region's first run of `key`, which is over, could not be captured. Throws CudaError, OutOfMemory.
  static std::unique_ptr<OwnLaunch> of(Engine& engine, const Region& region, std::uint64_t key);
  /// For benchmarks: seconds a launch of what a region captured for `key`, so many one after the other with nothing
  /// else at work. All that its tasks write is written as often, at the addresses that it had. 0 if nothing was
  /// captured, or a launch is refused. Blocks.
  static double seconds_alone(const Region& region, std::uint64_t key, int launches);
  /// To be called while this thread records such a region, behind its last task: that one follows all others, so that
  /// what it tells the host stands for the whole launch.
  static void end_with_last();
  OwnLaunch(const OwnLaunch&) = delete;
  OwnLaunch& operator=(const OwnLaunch&) = delete;
  /// What was begun is over.
  ~OwnLaunch();

  /// Launches once. False, and nothing was done, where that would have to wait or might fail: a value is not there yet,
  /// or has failed; the engine has stopped, or is watched; the thread is in a body. Then run() is the way.
  bool begin();
  /// Once the host has seen that what was begun is over.
  void end() noexcept;
  /// Blocks until what was begun is over, its GPU is lost, or a call fails, which says nothing of what runs.
  LaunchEnd synchronize() noexcept;
  /// Where that goes on failing: the GPU counts as lost.
  void give_up() noexcept;
  /// Did kernels of what was begun report bad data? Once.
  bool take_report() noexcept;

 private:
  OwnLaunch(Core& core, std::shared_ptr<RegionVariant> variant, std::unique_ptr<RegionLaunch> launch);
  bool is_plain() const noexcept;
  bool are_at_hand() noexcept;
  bool counts_in() noexcept;
  void leave_reads() noexcept;

  Core& core_;
  std::shared_ptr<RegionVariant> variant_;  // keeps the core
  std::unique_ptr<RegionLaunch> launch_;
  std::vector<AccessNode> reads_;  // by age, each once
  std::vector<Position> good_;     // of each: where the value was written that is known to be there
  const std::uint32_t forks_;
  int epoch_ = 0;  // of what is under way
};

}  // namespace sluice::detail
