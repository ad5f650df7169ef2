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
  return there.steps[position.sequence() - there.first];
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

void Batch::collect(const PositionSet& needs, Steps& after) {
  for (Position position : needs) {
    const int step = step_of(position);
    if (step < 0) {
      if (lanes_.at(position.stream()).done() < position.sequence())
        outside_.add(position);
    } else if (std::find(after.begin(), after.end(), step) == after.end()) {
      after.push_back(step);
    }
  }
}

// The ends of those steps, each node once.
void Batch::gather(const Steps& after) {
  before_.clear();
  before_edges_.clear();
  for (int at : after) {
    const Step& earlier = step(at);
    for (std::uint32_t i = earlier.nodes_begin; i < earlier.nodes_end; ++i) {
      if (std::find(before_.begin(), before_.end(), nodes_[i]) != before_.end())
        continue;
      before_.push_back(nodes_[i]);
      before_edges_.push_back(edges_[i]);
    }
  }
}

// Where the capture stands: after the step settled last.
bool Batch::stands_there() const noexcept {
  const std::uint32_t begin = empty() ? 0 : steps_.back().nodes_begin;
  return std::equal(before_.begin(), before_.end(), nodes_.begin() + begin, nodes_.end());
}

void Batch::depend_on_gathered(unsigned how) {
  cuda_check(
      cudaStreamUpdateCaptureDependencies(stream_, before_.data(), before_edges_.data(), before_.size(), how),
      "cudaStreamUpdateCaptureDependencies");
}

void Batch::begin_step(Lane& lane, const PositionSet& needs) {
  Steps after;
  collect(needs, after);
  const int before = last_on(lane);
  if (before < 0) {
    if (const Position tail = lane.tail(); tail && lane.done() < tail.sequence())
      outside_.add(tail);
  } else if (std::find(after.begin(), after.end(), before) == after.end()) {
    after.push_back(before);
  }
  for (int step : after)
    mix(static_cast<std::uint64_t>(size() - step));
  gather(after);
  if (!stands_there())
    depend_on_gathered(cudaStreamSetCaptureDependencies);
}

void Batch::add_needs(const PositionSet& needs) {
  Steps after;
  collect(needs, after);
  for (int step : after)
    mix(static_cast<std::uint64_t>(size() - step) << 32);
  if (after.empty())
    return;
  gather(after);
  depend_on_gathered(cudaStreamAddCaptureDependencies);
}

bool Batch::settle() noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  const cudaError_t result = cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &nodes, &edges, &count);
  if (result != cudaSuccess || status != cudaStreamCaptureStatusActive) {
    cudaGetLastError();
    return false;
  }
  settled_ = static_cast<std::uint32_t>(nodes_.size());
  nodes_.insert(nodes_.end(), nodes, nodes + count);
  if (edges != nullptr) {
    edges_.insert(edges_.end(), edges, edges + count);
  } else {
    edges_.resize(nodes_.size());
  }
  return true;
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
  step.nodes_begin = settled_;
  step.nodes_end = static_cast<std::uint32_t>(nodes_.size());
}

void Batch::abandon() noexcept {
  if (open_)
    close();
}

std::vector<Batch::Step> Batch::take() noexcept {
  for (const Step& step : steps_)
    lanes_of_steps_[index(*step.lane)] = OnLane();
  std::vector<Step> taken = std::exchange(steps_, std::vector<Step>());
  clear();
  return taken;
}

GraphHandle Batch::close() noexcept {
  open_ = false;
  cudaGraph_t graph = nullptr;
  // Once more if it did nothing: the stream would capture for ever.
  if (cudaStreamEndCapture(stream_, &graph) != cudaSuccess && cudaStreamEndCapture(stream_, &graph) != cudaSuccess) {
    cudaGetLastError();
    if (graph != nullptr)
      cudaGraphDestroy(graph);
    return {};
  }
  return GraphHandle(graph);
}

void Batch::clear() noexcept {
  for (const Step& step : steps_)
    lanes_of_steps_[index(*step.lane)] = OnLane();
  steps_.clear();
  nodes_.clear();
  edges_.clear();
  outside_.clear();
  shape_ = 0;
}

}  // namespace sluice::detail
