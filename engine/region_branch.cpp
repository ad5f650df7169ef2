// Branches as a region records them.
#include <algorithm>
#include <span>
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

BranchExtent extent_of(const std::vector<RegionTask>& tasks, std::size_t branch) {
  const auto part_of = [&](const RegionTask& task) {
    const std::vector<RegionSide> sides = sides_of(tasks, task.side);
    const auto at = std::find_if(
        sides.begin(), sides.end(), [&](RegionSide side) { return side.branch == static_cast<int>(branch); });
    return at == sides.end() ? RegionSide{} : *at;
  };
  BranchExtent extent{branch + 1, branch + 1};
  for (; extent.end < tasks.size() && part_of(tasks[extent.end]).branch >= 0; ++extent.end)
    extent.middle += part_of(tasks[extent.end]).number == 0;
  return extent;
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

/// What tasks do with the value that a Var held before them.
enum class Effect : std::uint8_t {
  leave,              // they do not use the Var
  overwrite_perhaps,  // some side overwrites it first, another one leaves it
  overwrite,
  need,
};

/// The effect of those uses, all of them in the side that is so deep.
Effect overwritten_in(const std::vector<RegionTask>& tasks, std::span<const SideUse> uses, std::size_t depth) {
  const auto side_of = [&](const SideUse& use) {
    const std::vector<RegionSide> sides = sides_of(tasks, tasks[static_cast<std::size_t>(use.task)].side);
    return sides.size() > depth ? sides[depth] : RegionSide{};
  };
  bool perhaps = false;
  while (!uses.empty()) {
    const int branch = side_of(uses[0]).branch;
    if (branch < 0)
      return uses[0].mode == AccessMode::out ? Effect::overwrite : Effect::need;
    std::size_t in_first = 0, in_both = 0;
    for (; in_both < uses.size() && side_of(uses[in_both]).branch == branch; ++in_both)
      in_first += side_of(uses[in_both]).number == 0;
    const Effect first = overwritten_in(tasks, uses.first(in_first), depth + 1),
                 second = overwritten_in(tasks, uses.subspan(in_first, in_both - in_first), depth + 1);
    if (first == second && first != Effect::overwrite_perhaps)
      return first;
    if (first == Effect::need || second == Effect::need)
      return Effect::need;
    perhaps = true;
    uses = uses.subspan(in_both);
  }
  return perhaps ? Effect::overwrite_perhaps : Effect::leave;
}

}  // namespace

// Nobody outside knows it.
bool RegionRecording::is_new(const VarCore& var) const noexcept {
  return var.id > newest_before_ || own_.contains(&var);
}

// What a failed run left in a Var must not fail the next one, where that overwrites it.
AccessMode RegionRecording::mode_of(const Use& use, const VarCore& var) const {
  const bool is_read =
      std::all_of(use.sides.begin(), use.sides.end(), [](const SideUse& one) { return one.mode == AccessMode::read; });
  if (is_read)
    return AccessMode::read;
  const Effect effect = overwritten_in(program_.tasks, use.sides, 0);
  const bool is_lost = effect == Effect::overwrite || (effect == Effect::overwrite_perhaps && is_new(var));
  return is_lost ? AccessMode::out : AccessMode::write;
}

void RegionRecording::settle_sides() {
  for (const auto& [var, use] : uses_) {
    if (!use.sides.empty())
      program_.access[use.access].mode = mode_of(use, *var);
  }
}

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

namespace {

Task task_of(const BranchCondition& condition) {
  return {.name = condition.name, .device = condition.device, .access = condition.access, .capturable = true};
}

Closure setter_of(const BranchCondition& condition, const std::shared_ptr<unsigned long long>& handle) {
  return Closure(
      [set = condition.set, byte = condition.byte, handle](const Queue& queue) { set(queue, *handle, byte); });
}

}  // namespace

void RegionRecording::begin_branch(
    Engine& engine, const BranchCondition& condition, SourceLocation site, bool repeats) {
  const auto handle = std::make_shared<unsigned long long>(0);
  add(EngineAccess::core(engine), task_of(condition), setter_of(condition, handle), site);
  program_.tasks.back().choice = RegionChoice{condition.byte, repeats, handle};
  side_ = {static_cast<int>(program_.tasks.size()) - 1, 0};
}

void RegionRecording::choose_again(Engine& engine, const BranchCondition& condition, SourceLocation site) {
  const RegionTask& loop = program_.tasks[static_cast<std::size_t>(side_.branch)];
  add(EngineAccess::core(engine), task_of(condition), setter_of(condition, loop.choice->handle), site);
  program_.tasks.back().chooses_again = true;
}

void RegionRecording::end_branch() noexcept {
  side_ = program_.tasks[static_cast<std::size_t>(side_.branch)].side;
}

RegionBodies::RegionBodies(Engine& engine, const BranchCondition& condition, SourceLocation site, bool repeats) {
  RegionRecording* const recording = this_thread().recording;
  require<ValueError>(
      recording != nullptr, [&] { return message(condition.name.c_str(), ": a branch where no region records"); });
  recording->begin_branch(engine, condition, site, repeats);
}

RegionBodies::~RegionBodies() {
  this_thread().recording->end_branch();
}

void RegionBodies::owns(const Var& var) {
  this_thread().recording->own(var);
}

void RegionBranch::otherwise() noexcept {
  this_thread().recording->other_side();
}

void RegionLoop::end_turn() {
  this_thread().recording->choose_again(engine_, condition_, site_);
}

#if !SLUICE_CUDA
bool takes_region_branches() noexcept {
  return false;
}
#endif

}  // namespace sluice::detail
