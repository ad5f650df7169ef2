#pragma once

#include <sluice/engine/engine.h>
#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/engine/task.h>

// Branches of a region: tasks of which a replay runs one side or the other, as a byte in the GPU's memory says then;
// and loops, whose tasks it runs again and again as long as such a byte says so.
namespace sluice::detail {

/// Enqueues what gives the conditional node of `handle` the value of the byte: not zero, and the first side runs.
using SetCondition = void (*)(const Queue& queue, unsigned long long handle, const void* byte);

/// What a branch or a loop is chosen by: a byte of the region's GPU, and what a task that reads it says. Its memory
/// stays as the other tasks' does.
struct BranchCondition {
  TaskName name;
  Device device;
  AccessList access;
  const void* byte = nullptr;
  SetCondition set = nullptr;
};

/// What this thread pushes while it lives is a part of the region that it records which a replay may leave out. Tasks
/// of it run one after the other; tasks behind it that use what one of them uses come after all of it. It may stand in
/// another one. Where CUDA does not take the graph, the host waits for the byte.
class SLUICE_API RegionBodies {
 public:
  RegionBodies(const RegionBodies&) = delete;
  RegionBodies& operator=(const RegionBodies&) = delete;
  /// Nobody reads behind it what its tasks leave in `var`: where they overwrite it first, nothing of what it held
  /// counts, though they may leave it as it is. The same is taken of Vars that were made while the region records. To
  /// be said before a task names it. Throws std::bad_alloc.
  void owns(const Var& var);

 protected:
  /// Throws ValueError as a push of a task that cannot be part of the region does, and where this thread records none;
  /// std::bad_alloc.
  RegionBodies(Engine& engine, const BranchCondition& condition, SourceLocation site, bool repeats);
  ~RegionBodies();
};

/// A branch: tasks of one side run, those of the other do not.
class SLUICE_API RegionBranch : public RegionBodies {
 public:
  /// Begins with the first side. Throws as said above.
  RegionBranch(Engine& engine, const BranchCondition& condition, SourceLocation site)
      : RegionBodies(engine, condition, site, false) {}
  /// The second side begins.
  void otherwise() noexcept;
};

/// A loop: its tasks, which set the byte anew, run again and again while it is not zero; not at all if it never was.
class SLUICE_API RegionLoop : public RegionBodies {
 public:
  /// Throws as said above.
  RegionLoop(Engine& engine, const BranchCondition& condition, SourceLocation site)
      : RegionBodies(engine, condition, site, true), engine_(engine), condition_(condition), site_(site) {}
  /// Behind the last task of a turn, which it must not be without. Throws as the constructor does.
  void end_turn();

 private:
  Engine& engine_;
  const BranchCondition condition_;
  const SourceLocation site_;
};

/// Whether the driver makes graphs with branches; without CUDA none does. Any thread.
SLUICE_API bool takes_region_branches() noexcept;

}  // namespace sluice::detail
