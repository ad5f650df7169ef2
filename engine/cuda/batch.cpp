#include <algorithm>
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

void Batch::open(cudaStream_t stream) {
  clear();
  stream_ = stream;
  // Relaxed: what other threads do, and what bodies ask of the driver besides, is none of the capture's business.
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  open_ = captured_ = true;
}

void Batch::open_again(cudaStream_t stream, const PositionSet& outside) {
  open(stream);
  outside_ = outside;
  again_ = true;
}

// The other lanes that `needs` name, each once; `known`: what lies outside has been noted.
Batch::Others Batch::collect(const PositionSet& needs, const Lane& lane, bool known) {
  Others others;
  for (Position position : needs) {
    const Lane& there = lanes_.at(position.stream());
    if (step_of(position) < 0) {
      if (!known && there.done() < position.sequence())
        outside_.add(position);
    } else if (&there != &lane) {
      others.push_back(&lanes_of_steps_[index(there)]);  // a PositionSet names a lane once
    }
  }
  return others;
}

// The same for the step that comes next, which goes into the script.
Batch::Others Batch::enter(const PositionSet& needs, const Lane& lane) {
  Others others = collect(needs, lane, again_);
  OnLane& own = lanes_of_steps_[index(lane)];
  if (const Position tail = lane.tail(); !again_ && own.last < 0 && tail && lane.done() < tail.sequence())
    outside_.add(tail);
  if (own.last < 0)
    own.turn = ++lanes_used_;
  script_.push_back(own.turn << 32 | others.size());
  for (const OnLane* other : others)
    script_.push_back(other->turn);
  return others;
}

// Notes where the capture stands: at the end of the current lane.
void Batch::leave_lane() {
  if (OnLane* const left = std::exchange(current_, nullptr); left != nullptr && !left->ends.read(stream_))
    cuda_check(cudaErrorStreamCaptureInvalidated, "cudaStreamGetCaptureInfo");
}

void Batch::gather(const OnLane& lane, CaptureEnds& before) {
  mix(static_cast<std::uint64_t>(size() - lane.last));
  before.add(lane.ends);
}

void Batch::begin_step(Lane& lane, const PositionSet& needs) {
  const Others others = enter(needs, lane);
  OnLane& own = lanes_of_steps_[index(lane)];
  const bool goes_on = empty() || (current_ == &own && own.last >= 0);
  if (!goes_on || !others.empty()) {
    leave_lane();
    CaptureEnds before;
    mix(others.size() + 1);
    if (own.last >= 0)
      gather(own, before);
    for (const OnLane* other : others)
      gather(*other, before);
    before.come_before(stream_, cudaStreamSetCaptureDependencies);
  }
  current_ = &own;
}

void Batch::add_needs(const Lane& lane, const PositionSet& needs) {
  lose_script();
  const Others others = collect(needs, lane, false);
  if (others.empty())
    return;
  CaptureEnds before;
  for (const OnLane* other : others)
    gather(*other, before);
  mix(others.size());
  before.come_before(stream_, cudaStreamAddCaptureDependencies);
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
    there.ends.clear();
  }
  current_ = nullptr;
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
