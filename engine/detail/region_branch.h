#pragma once

#include <sluice/engine/engine.h>
#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/engine/task.h>

// Branches of a region: tasks of which a replay runs one side or the other, as a byte in the GPU's memory says then.
namespace sluice::detail {

/// Enqueues what gives the conditional node of `handle` the value of the byte: not zero, and the first side runs.
using SetCondition = void (*)(const Queue& queue, unsigned long long handle, const void* byte);

/// What a branch is chosen by: a byte of the region's GPU, under `var`, whose memory stays as the other tasks' does.
struct BranchCondition {
  TaskName name;
  Device device;
  Var var;
  const void* byte = nullptr;
  SetCondition set = nullptr;
};

/// What this thread pushes while it lives is one branch of the region that it records. Tasks of a side run one after
/// the other, those of the other side not at all; tasks behind the branch that use what one of its sides uses come
/// after it. Branches may stand in branches. Where CUDA does not take the graph, the host waits for the byte.
class SLUICE_API RegionBranch {
 public:
  /// Begins with the first side. Throws ValueError as a push of a task that cannot be part of the region does, and
  /// where this thread records none; std::bad_alloc.
  RegionBranch(Engine& engine, const BranchCondition& condition, SourceLocation site);
  RegionBranch(const RegionBranch&) = delete;
  RegionBranch& operator=(const RegionBranch&) = delete;
  ~RegionBranch();
  /// The second side begins.
  void otherwise() noexcept;
};

/// Whether the driver makes graphs with branches; without CUDA none does. Any thread.
SLUICE_API bool takes_region_branches() noexcept;

}  // namespace sluice::detail
