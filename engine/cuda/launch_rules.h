#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

#include <sluice/engine/cuda/cuda_stream.h>
#include <sluice/engine/cuda/executable_cache.h>
#include <sluice/engine/detail/random.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

class Batch;

// clang-format off
/// Every number and every rule by which the GPU half adapts to the program, in one place. Owned by Gpu; asked by
/// whoever issues on it, on that thread only. (What chooses without remembering is elsewhere: StreamSlots continues what
/// a task needs, else takes an idle stream; Batches places a task on the branch where it can begin soonest.) What leaving
/// a rule out costs is measured by tests/bench/ablate.
///
/// | rule      | what it does, and why                                          | left out (figures: RESULTS.md)       |
/// | --------- | -------------------------------------------------------------- | ------------------------------------ |
/// | start     | 4 tasks after a host wait go directly, then batches of 5, 10,  | 8 kernels of 8 us after a wait end a |
/// |           | 20, 64: the GPU has nothing to do while the first is gathered  | third later, 100 an eighth           |
/// | cut       | from 32 tasks on a batch ends where branches join, behind one  | batches of a loop begin elsewhere    |
/// |           | pair of names in 16, or where a task continues nothing in it   | each time: graphs made anew          |
/// | stale     | a batch that nobody adds to for 30 us is launched              | it may never be                      |
/// | width     | 4 branches while the GPU is a batch behind, else one           | branches run one after the other     |
/// | narrow    | one branch for 64 batches, then 128, ... where branches make   | graphs made anew where tasks reuse   |
/// |           | more than one graph in nine new                                | each other's memory                  |
/// | names     | a task known to leave a capture intact is not asked about; one | a call of the driver for each task;  |
/// |           | that has spoilt one is launched directly                       | its batch is launched twice          |
/// | events    | one for 32 tasks while one CUDA stream does everything         | a call for each task                 |
/// | backlog   | with 256 milestones open on a stream (asked every 64) tasks    | the driver makes the pushing thread  |
/// |           | rest in lists until half of them have passed                   | wait                                 |
/// | turn      | a thread issues 256 tasks for others, then the poller does     | one thread may serve others for ever |
/// | early     | in regions, kernels that wait themselves for what is before    | steps take 4 % longer to 2 % less    |
/// |           | them take their places before that has ended                   |                                      |
/// | instances | up to 4 executables of a shape; the oldest again after 8       | the driver runs one at a time        |
/// |           | launches                                                       |                                      |
// clang-format on
class LaunchRules {
 public:
  static constexpr int k_direct_first = 4;
  static constexpr std::array<int, 4> k_sizes{5, 10, 20, 64};
  static constexpr int k_breakable = 32;
  static constexpr int k_rarity = 4;              // one pair of names in 2^4 ends a batch
  static constexpr std::int64_t k_stale = 30000;  // nanoseconds
  static constexpr int k_width = 4;
  static constexpr int k_price = 8, k_patience = 128;  // more than one graph in nine is new
  static constexpr int k_narrow_at_first = 64, k_narrow_at_most = 1 << 14;
  static constexpr int k_unmarked = 32;
  static constexpr std::uint64_t k_ask_every = 64, k_most_open = 256;  // milestones
  static constexpr int k_turn = 256;
  static constexpr std::size_t k_a_shape = 4;
  static constexpr std::uint64_t k_long_ago = 8;

  /// With a seed nothing of this holds (CpuMode::chaos, chaos_pool): what is open to choice is drawn.
  explicit LaunchRules(std::optional<std::uint64_t> chaos) {
    if (chaos)
      chaos_.emplace(*chaos);
  }
  /// In chaos, one of so many at random; else -1.
  int draw(int count) noexcept { return chaos_ ? static_cast<int>(chaos_->below(static_cast<unsigned>(count))) : -1; }

  /// May the next task be part of a batch? `open`: there is one.
  bool may_batch(bool open, const char* name);
  /// The host waits for what was pushed: the GPU will soon have nothing to do.
  void host_waits() noexcept { in_a_row_ = level_ = 0; }
  /// This task has joined the batch.
  void note_task(const TaskNode& task) noexcept;
  bool is_full(const Batch& batch) noexcept;
  bool is_breakable(const Batch& batch) const noexcept;
  /// A batch was launched because it was full.
  void note_full() noexcept;

  /// How many branches the batch that begins may have: chosen, then known.
  int choose_width() noexcept;
  int width() const noexcept { return width_; }
  /// The batch was launched with such an executable.
  void learn(ExecutableCache::Found found) noexcept;
  /// The batch ends there; null: nobody knows where.
  void note_end(const Milestone* milestone) noexcept;
  /// Is the latest batch still under way?
  bool last_runs() noexcept { return is_running(ends_[1]); }

  bool is_harmless(const char* name) const noexcept { return harmless_[place(name)] == name; }
  void note_harmless(const char* name) noexcept { harmless_[place(name)] = name; }
  /// The capture was spoilt in a task of that name, or in one of a batch before.
  void note_spoilt(const char* name) noexcept;
  void forget_harmless() noexcept { harmless_ = {}; }

 private:
  struct BatchEnd {
    const Milestone* milestone = nullptr;
    std::uint64_t number = 0;
  };
  static bool is_running(BatchEnd& end) noexcept;
  static std::size_t place(const char* name) noexcept {
    return reinterpret_cast<std::uintptr_t>(name) * 0x9e3779b97f4a7c15u >> 58;
  }

  std::optional<Random> chaos_;
  int in_a_row_ = 0;                          // tasks since a host waited
  int level_ = 0;                             // how large batches may be by now
  std::uint64_t before_last_ = 0, last_ = 0;  // what the latest captured tasks were
  int width_ = 1;
  int narrow_ = 0;  // batches that get one branch
  int narrow_for_ = k_narrow_at_first;
  int lost_shapes_ = 0;           // how often, of late
  std::array<BatchEnd, 2> ends_;  // of the last two batches, the older one first
  std::set<const char*> uncapturable_;
  std::array<const char*, 64> harmless_{};
};

}  // namespace sluice::detail
