#include <algorithm>
#include <functional>
#include <utility>

#include <sluice/engine/cuda/batch.h>
#include <sluice/engine/cuda/mixed.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

namespace {

std::size_t index(const LogicalStream& logical) noexcept {
  return static_cast<std::size_t>(logical.local());
}

}  // namespace

int Batch::last_on(const LogicalStream& logical) const noexcept {
  return branches_of_[index(logical)].last;
}

int Batch::step_of(Position position) const noexcept {
  const LogicalStream& logical = table_.of(position);
  if (logical.device() != device_)
    return -1;
  const Branch& there = branches_of_[index(logical)];
  if (there.last < 0 || position.sequence() < there.first)
    return -1;
  const std::uint64_t at = position.sequence() - there.first;
  return at < there.steps.size() ? there.steps[at] : -1;
}

bool Batch::continues(const PositionSet& needs) const noexcept {
  return std::any_of(needs.begin(), needs.end(), [this](Position position) { return step_of(position) >= 0; });
}

void Batch::open(int urgency, bool branches) {
  clear();
  branches_ = branches;
  capture_.begin(urgency);
}

// The step under way comes after `step`, and so after all that `step` comes after.
void Batch::follow(int step) noexcept {
  Place& there = places_[static_cast<std::size_t>(step)];
  if (!std::exchange(there.followed, true))
    --open_ends_;
  for (std::size_t i = 0; i < there.before.size(); ++i)
    under_way_.before[i] = std::max(under_way_.before[i], there.before[i]);
  under_way_.depth = std::max(under_way_.depth, there.depth);
}

// The steps on other branches that the one under way has to name to come after all of `needs`. The latest first:
// earlier ones may come before it.
Batch::Steps Batch::collect(const PositionSet& needs, const LogicalStream& logical) {
  Steps steps;
  for (Position position : needs) {
    const LogicalStream& there = table_.of(position);
    const int step = step_of(position);
    if (step >= 0 && &there != &logical)
      steps.push_back(step);
    else if (step < 0 && there.done() < position.sequence())
      outside_.add(position);
  }
  if (steps.size() > 1)
    std::sort(steps.begin(), steps.end(), std::greater<>());
  const auto implied = [this](int step) {
    const LogicalStream& there = *steps_[static_cast<std::size_t>(step)].logical;
    if (step < under_way_.before[branches_of_[index(there)].turn - 1])
      return true;
    follow(step);
    return false;
  };
  steps.erase(std::remove_if(steps.begin(), steps.end(), implied), steps.end());
  return steps;
}

void Batch::gather(int step, CaptureEnds& before) {
  structure_ = mixed(structure_, static_cast<std::uint64_t>(size() - step));
  before.add(ends_[static_cast<std::size_t>(step)]);
}

void Batch::begin_step(const LogicalStream& logical, const PositionSet& needs) {
  Branch& own = branches_of_[index(logical)];
  under_way_ = Place();
  if (own.last >= 0)
    follow(own.last);
  else if (const Position tail = logical.tail(); tail && logical.done() < tail.sequence())
    outside_.add(tail);
  const Steps others = collect(needs, logical);
  if (own.last < 0)
    own.turn = ++branches_used_;
  if (others.empty() && own.last == size() - 1)  // where the capture stands
    return;
  CaptureEnds before;
  structure_ = mixed(structure_, others.size() + 1);
  if (own.last >= 0)
    gather(own.last, before);
  for (int other : others)
    gather(other, before);
  capture_.restart_after(before);
}

void Batch::add_needs(const LogicalStream& logical, const PositionSet& needs) {
  const Place before_these = under_way_;
  try {
    const Steps others = collect(needs, logical);
    if (others.empty())
      return;
    CaptureEnds before;
    for (int other : others)
      gather(other, before);
    structure_ = mixed(structure_, others.size());
    capture_.also_after(before);
  } catch (...) {  // the body may fail of it, and still have its place: not behind these
    under_way_ = before_these;
    throw;
  }
}

bool Batch::intact() noexcept try {
  return branches_ ? capture_.read(ends_under_way_) : capture_.intact();
} catch (...) {
  return false;
}

Batch::Step& Batch::next_step() {
  if (steps_.empty()) [[unlikely]] {
    places_.reserve(k_most);
    ends_.reserve(k_most);
    steps_.resize(k_most);
  }
  return steps_[static_cast<std::size_t>(size_)];
}

void Batch::end_step() noexcept {
  const Step& step = steps_[static_cast<std::size_t>(size_)];
  structure_ = mixed(structure_, step.name);
  Branch& there = branches_of_[index(*step.logical)];
  if (there.last < 0)
    there.first = step.sequence;
  there.last = size();
  there.steps.push_back(static_cast<std::uint8_t>(size()));
  under_way_.before[there.turn - 1] = static_cast<std::uint8_t>(size() + 1);
  ++under_way_.depth;
  ++open_ends_;
  places_.push_back(under_way_);
  if (branches_)
    ends_.push_back(std::move(ends_under_way_));
  ++size_;
}

void Batch::forget_steps() noexcept {
  for (const Step& step : steps()) {
    Branch& there = branches_of_[index(*step.logical)];
    there.last = -1;
    there.steps.clear();
  }
  places_.clear();
  ends_.clear();
  open_ends_ = 0;
  branches_used_ = 0;
  outside_.clear();
  structure_ = 0;
}

void Batch::clear() noexcept {
  forget_steps();
  for (Step& step : std::span(steps_).first(static_cast<std::size_t>(std::exchange(size_, 0))))
    step.body.reset();
}

std::vector<Batch::Step> Batch::take() noexcept {
  close();
  forget_steps();
  steps_.resize(static_cast<std::size_t>(std::exchange(size_, 0)));
  return std::exchange(steps_, std::vector<Step>());
}

}  // namespace sluice::detail
