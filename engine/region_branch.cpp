// Branches as a region records them.
#include <algorithm>
#include <utility>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/region.h>
#include <sluice/engine/detail/region_branch.h>
#include <sluice/engine/detail/this_thread.h>

namespace sluice::detail {

std::vector<RegionSide> sides_of(const std::vector<RegionTask>& tasks, RegionSide innermost) {
  std::vector<RegionSide> sides;
  for (RegionSide side = innermost; side.branch >= 0; side = tasks[static_cast<std::size_t>(side.branch)].side)
    sides.push_back(side);
  std::reverse(sides.begin(), sides.end());
  return sides;
}

namespace {

/// Of two tasks, one in these sides and an earlier one in those, the ones that stand in the same side: the tasks
/// themselves, or branches that they are in. The same one twice where they are in sides of one branch.
std::pair<int, int> side_by_side(
    int task, const std::vector<RegionSide>& sides, int earlier, const std::vector<RegionSide>& earlier_sides) {
  std::size_t common = 0;
  while (common < std::min(sides.size(), earlier_sides.size()) && sides[common] == earlier_sides[common])
    ++common;
  return {
      common < sides.size() ? sides[common].branch : task,
      common < earlier_sides.size() ? earlier_sides[common].branch : earlier};
}

void follow(RegionTask& task, int earlier) {
  if (std::find(task.after.begin(), task.after.end(), earlier) == task.after.end())
    task.after.push_back(earlier);
}

}  // namespace

// A task in a branch has to follow what the whole branch then follows; one behind it follows the whole.
void RegionRecording::place(RegionTask& task) {
  std::vector<RegionTask>& tasks = program_.tasks;
  const auto number = static_cast<int>(tasks.size());
  task.side = side_;
  const std::vector<RegionSide> sides = sides_of(tasks, side_);
  for (const int earlier : std::exchange(task.after, {})) {
    const std::vector<RegionSide> others = sides_of(tasks, tasks[static_cast<std::size_t>(earlier)].side);
    const auto [later, before] = side_by_side(number, sides, earlier, others);
    if (later != before)
      follow(later == number ? task : tasks[static_cast<std::size_t>(later)], before);
  }
}

void RegionRecording::begin_branch(Engine& engine, const BranchCondition& condition, SourceLocation site) {
  const auto handle = std::make_shared<unsigned long long>(0);
  const Task task{
      .name = condition.name, .device = condition.device, .access = {read(condition.var)}, .capturable = true};
  add(EngineAccess::core(engine),
      task,
      Closure([set = condition.set, byte = condition.byte, handle](const Queue& queue) { set(queue, *handle, byte); }),
      site);
  program_.tasks.back().choice = RegionChoice{condition.byte, handle};
  side_ = {static_cast<int>(program_.tasks.size()) - 1, 0};
}

void RegionRecording::end_branch() noexcept {
  side_ = program_.tasks[static_cast<std::size_t>(side_.branch)].side;
}

RegionBranch::RegionBranch(Engine& engine, const BranchCondition& condition, SourceLocation site) {
  RegionRecording* const recording = this_thread().recording;
  require<ValueError>(
      recording != nullptr, [&] { return message(condition.name.c_str(), ": a branch where no region records"); });
  recording->begin_branch(engine, condition, site);
}

RegionBranch::~RegionBranch() {
  this_thread().recording->end_branch();
}

void RegionBranch::otherwise() noexcept {
  this_thread().recording->other_side();
}

#if !SLUICE_CUDA
bool takes_region_branches() noexcept {
  return false;
}
#endif

}  // namespace sluice::detail
