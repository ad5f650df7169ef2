#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>

#include <sluice/engine/cuda/cuda_stream.h>
#include <sluice/engine/cuda/executable_cache.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

class Batch;

/// Every number and every rule by which the GPU half adapts to the program, in one place. Owned by Gpu; asked by
/// whoever issues on it, and on that thread only. What else adapts has no state: StreamSlots continues what a task
/// needs and takes an idle stream otherwise, Batches places a task on the branch where it can begin soonest.
///
/// | rule | why | what it costs to leave out (RESULTS.md) |
/// | --- | --- | --- |
/// | slow start: k_direct_first tasks after a host wait go directly, then batches of k_sizes | the GPU idles: the first
/// kernels must not wait for a batch | every wait for few tasks pays for a batch |
/// | cut: from k_breakable tasks on a batch ends where its branches join, behind pairs of names that a hash picks, and
/// where a task continues nothing in it | batches of a program that repeats itself should repeat, wherever they began |
/// graphs made anew |
/// | stale: a batch nobody adds to for k_stale is launched by the poller | nobody may wait for it | work that never
/// starts |
/// | off: after k_misses batches that had to be made anew none for k_off_at_first tasks, twice as many each time |
/// making a graph costs ten times what bringing one up to date does | programs that never repeat pay that for each
/// batch | | width: k_width branches while the GPU is a batch behind, else one | branches gain nothing on a GPU that
/// keeps up | fork-join of 960 kernels 10.4 ms instead of 4.9 | | narrow: one branch for k_narrow_at_first batches
/// where branches make graphs new that hold the GPU up | which task waits for which can differ each time where memory
/// is reused | graphs made anew | | crossing: waiting for another branch counts as k_crossing tasks | it costs the GPU
/// that much | random graphs 3.9 us a task instead of 1.5 | | names: a task that left a capture intact is not asked
/// about again; one that spoilt it is launched directly | asking is a call of the driver, spoiling launches all of the
/// batch twice | a call more for each task | | events: while one CUDA stream is in use, one for k_unmarked tasks |
/// nobody needs the others | a call more for each task | | backlog: k_most_open milestones on a stream, asked every
/// k_ask_every, rest in a list until half of them have passed | further behind the driver makes the pushing thread wait
/// | the pusher blocks in the driver | | turn: a thread issues k_turn tasks for others, then the poller does | it has
/// work of its own | one thread may launch for all others without end | | instances: up to k_a_shape executables of one
/// shape, the oldest again after k_long_ago launches | the driver runs one at a time | batches of one shape run one
/// after the other |
class LaunchRules {
 public:
  static constexpr int k_direct_first = 4;
  static constexpr std::array<int, 4> k_sizes{5, 10, 20, 64};
  static constexpr int k_breakable = 32;
  static constexpr int k_rarity = 4;              // one pair of names in 2^4 ends a batch
  static constexpr std::int64_t k_stale = 30000;  // nanoseconds
  static constexpr int k_misses = 8, k_off_at_first = 1000, k_off_at_most = 1 << 16;
  static constexpr int k_width = 4;
  static constexpr int k_price = 8, k_patience = 128;  // more than one graph in nine is new
  static constexpr int k_narrow_at_first = 64, k_narrow_at_most = 1 << 14;
  static constexpr int k_crossing = 2;
  static constexpr int k_unmarked = 32;
  static constexpr std::uint64_t k_ask_every = 64, k_most_open = 256;  // milestones
  static constexpr int k_turn = 256;
  static constexpr std::size_t k_a_shape = 4;
  static constexpr std::uint64_t k_long_ago = 8;

  /// May the next task be part of a batch? `open`: there is one.
  bool may_batch(bool open, const char* name);
  /// The host waits for what was pushed: the GPU will soon have nothing to do.
  void host_waits() noexcept { in_a_row_ = level_ = 0; }
  /// This task has joined the batch.
  void note_task(const TaskNode& task) noexcept;
  bool is_full(const Batch& batch) const noexcept;
  bool is_breakable(const Batch& batch) const noexcept;
  /// A batch was launched because it was full.
  void note_full() noexcept;

  /// How many branches the batch that begins may have.
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
  void note_spoilt(const char* name);
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

  int in_a_row_ = 0;                          // tasks since a host waited
  int level_ = 0;                             // how large batches may be by now
  std::uint64_t before_last_ = 0, last_ = 0;  // what the latest captured tasks were
  int misses_ = 0;                            // batches in a row for which an executable had to be made
  int off_ = 0;                               // tasks for which batching is left alone
  int off_for_ = k_off_at_first;
  int width_ = 1;
  int narrow_ = 0;  // batches that get one branch
  int narrow_for_ = k_narrow_at_first;
  int lost_shapes_ = 0;           // how often, of late
  std::array<BatchEnd, 2> ends_;  // of the last two batches, the older one first
  std::set<const char*> uncapturable_;
  std::array<const char*, 64> harmless_{};
};

}  // namespace sluice::detail
