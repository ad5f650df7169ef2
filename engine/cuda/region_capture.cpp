// The bodies of a region become the nodes of one graph, with the edges that their Vars say.
#include <algorithm>
#include <utility>

#include <sluice/engine/cuda/region_capture.h>
#include <sluice/engine/detail/core.h>

namespace sluice::detail {

namespace {

RegionStream& begun(RegionStream& where) {
  where.capture.begin(0);
  return where;
}

}  // namespace

RegionWords::~RegionWords() {
  if (all_ != nullptr)
    reports_.give_back(*all_);
}

ErrorWord* RegionWords::of(std::size_t task) {
  words_.resize(tasks_.size());
  if (words_[task] == nullptr)
    words_[task] = reports_.keep(all_, tasks_[task].kept_name, tasks_[task].site);
  return words_[task];
}

void RegionWords::use(const Queue& queue) {
  const TaskNode& whole = *this_thread().task;
  reports_.use(
      *all_, {queue.position(), whole.name, whole.site(), whole.push_number, whole.core->late().uses_of(whole)});
}

// Before its kernel is launched: if the body throws afterwards, the words are no other task's before that is over.
ErrorWord* RegionStepStream::error_word() {
  ErrorWord* const word = words_.of(task_);
  if (!noted_)
    words_.use(outer_);
  noted_ = true;
  return word;
}

RegionCapture::RegionCapture(RegionStream& where, const Queue& outer, PositionSet& outside, RegionWords& words)
    : where_(begun(where)), early_starts_(where.capture.stream()), outer_(outer), outside_(outside), words_(words) {}

RegionCapture::~RegionCapture() {
  leave_sides(0);
  where_.capture.end();
}

void RegionCapture::merge(const TableUses& other) noexcept {
  for (std::size_t i = 0; i < uses_.size(); ++i)
    uses_[i] = std::max(uses_[i], other[i]);
}

void RegionCapture::begin_step(const std::vector<RegionTask>& tasks, const RegionTask& task) {
  go_to(sides_of(tasks, task.side));
  CaptureEnds before;
  uses_ = {};
  table_ = -1;
  sides_ = {};
  if (!open_.empty())
    return begin_in_side(steps_[static_cast<std::size_t>(open_.back().branch)]);
  for (int earlier : task.after) {
    const Step& step = steps_[static_cast<std::size_t>(earlier)];
    before.add(step.ends);
    merge(step.uses);
  }
  where_.capture.restart_after(before);
}

// A body that has enqueued nothing ends where it began: what comes after it comes after those before it. What comes
// after a task of a side comes after the outermost branch that it is in.
bool RegionCapture::end_step() {
  Step& step = steps_.emplace_back();
  step.uses = uses_;
  step.table = table_;
  step.sides = sides_;
  if (failed_ || open_.empty())
    return !failed_ && where_.capture.read(step.ends);
  step.ends = steps_[static_cast<std::size_t>(open_.front().branch)].ends;
  return here().intact();
}

GraphHandle RegionCapture::close() noexcept {
  leave_sides(0);
  GraphHandle graph = where_.capture.end();
  if (failed_ || (graph.get() != nullptr && !early_starts_.apply(graph.get())))
    return {};
  return graph;
}

ErrorWord* RegionCapture::error_word() {
  return words_.of(steps_.size());
}

// What the region's own task leaves is no reason to wait: it comes after that anyway.
void RegionCapture::wait_for(const PositionSet& positions) {
  const Position own = outer_.position();
  for (Position position : positions) {
    if (position.stream() != own.stream() || position.sequence() < own.sequence())
      outside_.add(position);
  }
}

bool RegionCapture::follow(std::size_t step) noexcept {
  if (!open_.empty())  // the branch stands where it does
    return false;
  try {
    merge(steps_[step].uses);
    where_.capture.also_after(steps_[step].ends);
    return true;
  } catch (...) {
    failed_ = true;
    return false;
  }
}

// One whose users all come before the step under way; where there is none, the step has to follow the last of one.
std::size_t RegionCapture::choose_table() {
  auto& tables = where_.tables;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (latest_[i] == uses_[i])
      return i;
  }
  if (tables.size() < RegionStream::k_most_tables) {
    tables.emplace_back();
    return tables.size() - 1;
  }
  const auto oldest = std::min_element(latest_.begin(), latest_.end());
  Step& user = steps_[*oldest - 1];
  merge(user.uses);
  where_.capture.also_after(user.ends);
  return static_cast<std::size_t>(oldest - latest_.begin());
}

void RegionCapture::take_table() {
  const std::size_t chosen = choose_table();
  table_ = static_cast<int>(chosen);
  latest_[chosen] = uses_[chosen] = static_cast<std::uint32_t>(steps_.size() + 1);
}

RegionStream::Handles& RegionCapture::handles_here() {
  if (table_ < 0)
    take_table();
  RegionStream::Table& table = where_.tables[static_cast<std::size_t>(table_)];
  if (table.size() <= open_.size())
    table.resize(open_.size() + 1);
  if (table[open_.size()] == nullptr)
    table[open_.size()] = std::make_unique<RegionStream::Handles>();
  return *table[open_.size()];
}

std::shared_ptr<void>& RegionCapture::slot(std::size_t id) noexcept {
  used_slots_ = true;
  try {
    return handles_here()[id];
  } catch (...) {  // the capture is given up; until its end the body has some table
    failed_ = true;
    return spare_[id];
  }
}

}  // namespace sluice::detail
