#include <algorithm>
#include <functional>
#include <utility>

#include <sluice/engine/cuda/batch.h>
#include <sluice/engine/cuda/mixed.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

using cuda::cuda_check;

void Batch::mix(std::uint64_t word) noexcept {
  shape_ = mixed(shape_, word);
}

int Batch::step_of(Position position) const noexcept {
  const Lane& lane = lanes_.at(position.stream());
  if (lane.device() != device_)
    return -1;
  const OnLane& there = lanes_of_steps_[index(lane)];
  if (there.last < 0 || position.sequence() < there.first)
    return -1;
  const std::uint64_t at = position.sequence() - there.first;
  return at < there.steps.size() ? there.steps[at] : -1;
}

bool Batch::continues(const PositionSet& needs) const noexcept {
  return std::any_of(needs.begin(), needs.end(), [this](Position position) { return step_of(position) >= 0; });
}

void Batch::open(cudaStream_t stream, bool branches) {
  clear();
  stream_ = stream;
  branches_ = branches;
  // Relaxed: what other threads do, and what bodies ask of the driver besides, is none of the capture's business.
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  open_ = captured_ = true;
}

void Batch::open_again(cudaStream_t stream, const PositionSet& outside) {
  open(stream, true);
  outside_ = outside;
  again_ = true;
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

// The steps on other lanes that the one under way has to name to come after all of `needs`; `known`: what lies outside
// has been noted. The latest first: earlier ones may come before it.
Batch::Steps Batch::collect(const PositionSet& needs, const Lane& lane, bool known) {
  Steps steps;
  for (Position position : needs) {
    const Lane& there = lanes_.at(position.stream());
    const int step = step_of(position);
    if (step >= 0 && &there != &lane)
      steps.push_back(step);
    else if (step < 0 && !known && there.done() < position.sequence())
      outside_.add(position);
  }
  if (steps.size() > 1)
    std::sort(steps.begin(), steps.end(), std::greater<>());
  const auto implied = [this](int step) {
    if (step < known_of(lanes_of_steps_[index(*steps_[static_cast<std::size_t>(step)].lane)]))
      return true;
    follow(step);
    return false;
  };
  steps.erase(std::remove_if(steps.begin(), steps.end(), implied), steps.end());
  return steps;
}

// A step begins: which goes into the script, and where it stands.
Batch::Steps Batch::enter(const PositionSet& needs, const Lane& lane) {
  OnLane& own = lanes_of_steps_[index(lane)];
  under_way_ = Place();
  if (own.last >= 0)
    follow(own.last);
  else if (const Position tail = lane.tail(); !again_ && tail && lane.done() < tail.sequence())
    outside_.add(tail);
  Steps others = collect(needs, lane, again_);
  if (own.last < 0)
    own.turn = ++lanes_used_;
  script_.push_back(std::uint64_t{own.turn} << 32 | others.size());
  script_.insert(script_.end(), others.begin(), others.end());
  return others;
}

void Batch::gather(int step, CaptureEnds& before) {
  mix(static_cast<std::uint64_t>(size() - step));
  before.add(ends_[static_cast<std::size_t>(step)]);
}

void Batch::begin_step(Lane& lane, const PositionSet& needs) {
  const int previous = last_on(lane);
  const Steps others = enter(needs, lane);
  if (others.empty() && previous == size() - 1)  // where the capture stands
    return;
  CaptureEnds before;
  mix(others.size() + 1);
  if (previous >= 0)
    gather(previous, before);
  for (int other : others)
    gather(other, before);
  before.come_before(stream_, cudaStreamSetCaptureDependencies);
}

void Batch::add_needs(const Lane& lane, const PositionSet& needs) {
  lose_script();
  const Place before_these = under_way_;
  try {
    const Steps others = collect(needs, lane, false);
    if (others.empty())
      return;
    CaptureEnds before;
    for (int other : others)
      gather(other, before);
    mix(others.size());
    before.come_before(stream_, cudaStreamAddCaptureDependencies);
  } catch (...) {  // the body may fail of it, and still have its place: not behind these
    under_way_ = before_these;
    throw;
  }
}

bool Batch::intact() noexcept try {
  return branches_ ? ends_under_way_.read(stream_) : is_capturing(stream_);
} catch (...) {
  return false;
}

std::uint64_t Batch::describe(const Closure& body) {
  described_.clear();
  Content content(described_);
  if (!body.describe(content))
    return 0;
  if (described_.size() > k_most_said) {
    described_.clear();
    return 0;
  }
  std::uint64_t hash = 1;
  for (std::uint64_t word : described_)
    hash = mixed(hash, word);
  return hash | 2;  // never none
}

void Batch::make_room() {
  steps_.reserve(k_most);
  places_.reserve(k_most);
  ends_.reserve(k_most);
  const std::size_t words = script_.size() + described_.size() + 2 + k_local_lanes;
  if (words > script_.capacity())
    script_.reserve(2 * words);
}

void Batch::end_step(Step&& step) {
  mix(reinterpret_cast<std::uintptr_t>(step.name));
  OnLane& there = lanes_of_steps_[index(*step.lane)];
  if (there.last < 0)
    there.first = step.sequence;
  there.last = size();
  there.steps.push_back(static_cast<std::uint8_t>(size()));
  known_of(there) = static_cast<std::uint8_t>(size() + 1);
  ++under_way_.depth;
  ++open_ends_;
  places_.push_back(under_way_);
  if (branches_ && captured_)
    ends_.push_back(std::move(ends_under_way_));
  scripted_ = scripted_ && !described_.empty() && !step.failed;
  if (scripted_) {
    script_.push_back(described_.size());
    script_.insert(script_.end(), described_.begin(), described_.end());
  } else {
    script_.clear();
  }
  described_.clear();
  steps_.push_back(std::move(step));
}

void Batch::abandon() noexcept {
  if (open_)
    close();
}

std::vector<Batch::Step> Batch::take() noexcept {
  forget_steps();
  std::vector<Step> taken = std::exchange(steps_, std::vector<Step>());
  clear();
  return taken;
}

GraphHandle Batch::close() noexcept {
  open_ = false;
  cudaGraph_t graph = nullptr;
  const bool ended = cudaStreamEndCapture(stream_, &graph) == cudaSuccess;
  GraphHandle made(graph);
  if (ended)
    return made;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream_, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone) {
    cudaStreamEndCapture(stream_, &graph);
    made = GraphHandle(graph);
  }
  cudaGetLastError();
  return {};
}

void Batch::forget_steps() noexcept {
  for (const Step& step : steps_) {
    OnLane& there = lanes_of_steps_[index(*step.lane)];
    there.last = -1;
    there.steps.clear();
  }
  places_.clear();
  ends_.clear();
  open_ends_ = 0;
}

void Batch::clear() noexcept {
  forget_steps();
  steps_.clear();
  outside_.clear();
  script_.clear();
  scripted_ = true;
  captured_ = again_ = false;
  lanes_used_ = 0;
  shape_ = 0;
}

}  // namespace sluice::detail
