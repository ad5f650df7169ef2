#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <sluice/engine/closure.h>
#include <sluice/engine/region.h>
#include <sluice/engine/task.h>

namespace sluice::detail {

class Core;

struct BranchCondition;

/// Of which branch, a task's number, and which of its sides a task is part. None: of the region itself.
struct RegionSide {
  int branch = -1;
  int number = 0;
  bool operator==(const RegionSide&) const = default;
};

/// Of a task that chooses the side of a branch, or whether a loop begins: the byte that says so, and, while the task is
/// captured, the handle of the conditional node.
struct RegionChoice {
  const void* byte = nullptr;
  bool repeats = false;  // a loop
  std::shared_ptr<unsigned long long> handle = {};
};

/// A task that was pushed while a region recorded.
struct RegionTask {
  Closure body;
  const char* name = "";
  TaskName kept_name;  // to which it points, perhaps
  SourceLocation site;
  std::vector<int> after;  // earlier tasks of its side that it has to follow; what follows from those is left out
  RegionSide side = {};
  std::optional<RegionChoice> choice = {};
  bool chooses_again = false;  // the last one of a loop
};

/// The sides that one stands in, the outermost first, itself last.
std::vector<RegionSide> sides_of(const std::vector<RegionTask>& tasks, RegionSide innermost);

/// Where the tasks of a branch, which stand behind it, go over to the second side, and where they end. A loop has one.
struct BranchExtent {
  std::size_t middle = 0, end = 0;
};
BranchExtent extent_of(const std::vector<RegionTask>& tasks, std::size_t branch);

/// What a task does with a Var that a side of a branch used first.
struct SideUse {
  int task = 0;
  AccessMode mode = AccessMode::read;
};

/// How the tasks together use a Var that is another one at each run: its place among those that the run is given.
struct ChangingUse {
  std::size_t place = 0;
  AccessMode mode = AccessMode::read;
};

/// What a region recorded for one key.
struct RegionProgram {
  std::vector<RegionTask> tasks;
  std::vector<Var> vars;  // those of `access`, kept
  AccessList access;      // of all tasks together
  std::vector<ChangingUse> changing;
  Priority priority = Priority::background;
};

/// Collects what one thread pushes while it lives.
class RegionRecording {
 public:
  RegionRecording(Core& core, Device device, const char* region);
  RegionRecording(const RegionRecording&) = delete;
  RegionRecording& operator=(const RegionRecording&) = delete;
  ~RegionRecording();

  /// Throws ValueError for a task that cannot be part of a region.
  void add(const Core& core, const Task& task, Closure&& body, SourceLocation site);
  /// Throws ValueError, again in finish(): push_tasks may have caught it, and the tasks are incomplete.
  [[noreturn]] void refuse(const std::string& text);
  /// What is added then is part of a branch, of its first side first, or of a loop. Throws as add() does.
  void begin_branch(Engine& engine, const BranchCondition& condition, SourceLocation site, bool repeats);
  void choose_again(Engine& engine, const BranchCondition& condition, SourceLocation site);
  void other_side() noexcept { side_.number = 1; }
  /// See RegionBranch.
  void own(const Var& var) { own_.insert(var.core()); }
  void end_branch() noexcept;
  /// The task that was added last follows all others: when it is over, all are.
  void follow_all();
  const char* region() const noexcept { return region_; }
  /// `changing` are not kept.
  RegionProgram finish(std::span<const Var> changing);

 private:
  struct Use {
    std::size_t access = 0;
    int writer = -1;
    std::vector<int> readers;    // since then
    std::vector<SideUse> sides;  // all its uses, if the first one is in a side
  };
  void check(const Core& core, const Task& task);
  void use(Access access, RegionTask& task);
  void place(RegionTask& task);
  bool is_new(const VarCore& var) const noexcept;
  AccessMode mode_of(const Use& use, const VarCore& var) const;
  void settle_sides();
  Use& use_of(Access access);
  void take_out(std::span<const Var> changing);

  Core& core_;
  const Device device_;
  const char* const region_;
  RegionProgram program_;
  std::unordered_map<VarCore*, Use> uses_;
  std::unordered_set<const VarCore*> own_;  // of sides
  const std::uint64_t newest_before_;       // of all Vars that are not made while this records
  std::exception_ptr refused_;
  RegionSide side_;  // of what is added next
};

/// How a launch stands. unknown: CUDA did not say, and it may still run.
enum class LaunchEnd : std::uint8_t { over, unknown, lost };

/// A captured program on a stream that nobody else has: see OwnLaunch.
class RegionLaunch {
 public:
  virtual ~RegionLaunch() = default;
  /// False, and nothing was enqueued, if CUDA refuses it or this thread may not call it now.
  virtual bool launch() noexcept = 0;
  /// Blocks the host.
  virtual LaunchEnd synchronize() noexcept = 0;
  /// Nothing is heard of it: its GPU counts as lost from now on.
  virtual void give_up() noexcept = 0;
  /// Did its kernels report bad data, since this was asked last?
  virtual bool take_report() noexcept = 0;
};

/// A program as the GPU runs it. run() is called in bodies of the device's tasks, hence by one thread at a time.
class RegionVariant {
 public:
  enum class State : std::uint8_t { fresh, captured, failed, spoilt };
  RegionVariant(RegionProgram program, State state) : program(std::move(program)), state_(state) {}
  virtual ~RegionVariant() = default;
  virtual void run(const Queue& queue) = 0;
  /// Of one that is captured; null if its tasks enqueue nothing. Throws CudaError. It must not outlive the variant.
  virtual std::unique_ptr<RegionLaunch> own_launch() = 0;
  State state() const noexcept { return state_.load(std::memory_order_acquire); }

  // Kept until the last task that runs it is over.
  RegionProgram program;

 protected:
  void become(State state) noexcept { state_.store(state, std::memory_order_release); }

 private:
  std::atomic<State> state_;
};

/// What the variants of one region share.
class RegionGraphs {
 public:
  virtual ~RegionGraphs() = default;
  /// `in_order`: the program is known not to let itself be captured.
  virtual std::shared_ptr<RegionVariant> make(RegionProgram program, bool in_order) = 0;
  virtual RegionCounts counts() const noexcept = 0;
  virtual std::optional<RegionRefusal> refusal() const = 0;
};
std::shared_ptr<RegionGraphs> make_region_graphs(Core& core, Device device);

/// The steps of a capture under way.
class RegionSteps {
 public:
  /// What is enqueued next comes after that earlier step too. False, and the capture is spoilt, if that cannot be.
  virtual bool follow(std::size_t step) noexcept = 0;

 protected:
  ~RegionSteps() = default;
};

/// Memory that a captured graph uses: told when it goes. While the graph is captured, steps lend each other what they
/// keep.
class RegionKeeps {
 public:
  RegionKeeps() = default;
  RegionKeeps(const RegionKeeps&) = delete;
  RegionKeeps& operator=(const RegionKeeps&) = delete;
  ~RegionKeeps() { give_back(); }

  void begin_steps(RegionSteps& steps) noexcept { steps_ = &steps; }
  /// The next task's body is called: it comes after what it has to follow, in a side of a branch after all of that
  /// branch that was recorded before it, and after what those come after. Of the other side nothing runs in the same
  /// replay, so what that one used is free, too; a task behind a branch comes after both. Throws std::bad_alloc.
  void begin_step(const std::vector<RegionTask>& tasks, const RegionTask& task);
  /// No further bodies are called.
  void end_steps() noexcept { before_.clear(); }
  void add(RetireHook& hook) { kept_.push_back({&hook, before_.size()}); }
  /// See region_lends().
  RetireHook* lend(RegionCost cost, const void* context, bool waits) noexcept;
  void give_back() noexcept {
    for (const Kept& kept : kept_)
      kept.hook->on_retire(pending);
    kept_.clear();
  }

  PositionSet pending = {};

 private:
  /// `user`: the last step that used it, counted from one.
  struct Kept {
    RetireHook* hook;
    std::size_t user;
  };
  bool comes_after(std::size_t user) const noexcept;
  bool come_after(std::size_t user) noexcept;
  void add_before(std::vector<std::uint64_t>& before, std::size_t step) const noexcept;

  RegionSteps* steps_ = nullptr;
  std::vector<Kept> kept_;
  std::vector<std::vector<std::uint64_t>> before_;  // of each step, a bit for each that it comes after
};

/// While it lives, region_keeps() of this thread adds to `keeps`.
class RegionKeepsScope {
 public:
  explicit RegionKeepsScope(RegionKeeps& keeps) noexcept;
  RegionKeepsScope(const RegionKeepsScope&) = delete;
  RegionKeepsScope& operator=(const RegionKeepsScope&) = delete;
  ~RegionKeepsScope();
};

}  // namespace sluice::detail
