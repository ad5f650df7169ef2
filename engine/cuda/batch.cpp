#include <algorithm>
#include <utility>

#include <sluice/engine/cuda/batch.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

using cuda::cuda_check;

void Batch::mix(std::uint64_t word) noexcept {
  shape_ = (shape_ ^ word) * 0x9e3779b97f4a7c15u;
  shape_ ^= shape_ >> 29;
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
  open_ = true;
}

// The other lanes that `needs` name, each once.
void Batch::collect(const PositionSet& needs, const Lane& lane, Others& others) {
  for (Position position : needs) {
    const Lane& there = lanes_.at(position.stream());
    if (step_of(position) < 0) {
      if (there.done() < position.sequence())
        outside_.add(position);
    } else if (&there != &lane) {
      others.push_back(&lanes_of_steps_[index(there)]);  // a PositionSet names a lane once
    }
  }
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
  Others others;
  collect(needs, lane, others);
  OnLane& own = lanes_of_steps_[index(lane)];
  if (const Position tail = lane.tail(); own.last < 0 && tail && lane.done() < tail.sequence())
    outside_.add(tail);
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
  Others others;
  collect(needs, lane, others);
  if (others.empty())
    return;
  CaptureEnds before;
  for (const OnLane* other : others)
    gather(*other, before);
  mix(others.size());
  before.come_before(stream_, cudaStreamAddCaptureDependencies);
}

void Batch::end_step(TaskNode& task, Lane& lane, Position position, const PositionSet& needs, bool failed) {
  mix(reinterpret_cast<std::uintptr_t>(task.name));
  OnLane& there = lanes_of_steps_[index(lane)];
  if (there.last < 0)
    there.first = position.sequence();
  there.last = size();
  there.steps.push_back(static_cast<std::uint8_t>(size()));
  Step& step = steps_.emplace_back();
  step.body = std::move(task.body);
  step.name = task.name;
  step.file = task.file;
  step.line = task.line;
  step.push_number = task.push_number;
  step.lane = &lane;
  step.sequence = position.sequence();
  step.needs = needs;
  step.failed = failed;
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
  shape_ = 0;
}

}  // namespace sluice::detail
