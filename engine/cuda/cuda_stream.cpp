#include <algorithm>
#include <numeric>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/cuda/lane.h>
#include <sluice/engine/error.h>

namespace sluice::detail {

using cuda::cuda_check;

CudaStream::CudaStream(LaneTable& lanes, Device device, int urgency, std::atomic<std::uint64_t>& waits)
    : lanes_(lanes), device_(device), waits_(waits) {
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgency), "cudaStreamCreateWithPriority");
  stream_ = cuda::StreamHandle(stream);
  make_event(ring_[0]);
}

void CudaStream::make_event(Milestone& milestone) {
  cudaEvent_t event = nullptr;
  // Not blocking-sync events: with some 55 of those outstanding on a stream, the next launch makes the host wait.
  cuda_check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  milestone.event = cuda::EventHandle(event);
  milestone.stream = this;
}

bool CudaStream::knows(const Lane& lane, std::uint64_t sequence) const noexcept {
  if (lane.done() >= sequence)
    return true;
  return lane.device() == device_ ? clock_[static_cast<std::size_t>(lane.local())] >= sequence
                                  : far_[lane.number()] >= sequence;
}

void CudaStream::enter(const Need& need) {
  cuda_check(cudaStreamWaitEvent(native(), need.milestone->event.get(), 0), "cudaStreamWaitEvent");
  waits_.fetch_add(1, std::memory_order_relaxed);
  if (need.lane->device() != device_) {
    far_[need.lane->number()] = need.reached;
    return;
  }
  for (std::size_t i = 0; i < clock_.size(); ++i)
    clock_[i] = std::max(clock_[i], need.milestone->clock[i]);
  learn(*need.lane, need.reached);
}

void CudaStream::wait_for(const PositionSet& positions) {
  boost::container::small_vector<Need, 8> needs;
  for (Position position : positions) {
    Lane& lane = lanes_.at(position.stream());
    if (knows(lane, position.sequence()))
      continue;
    const Lane::Reach reach = lane.reach(position.sequence());
    Need need{reach.milestone, &lane, position.sequence(), reach.sequence, 0};
    if (lane.device() == device_)  // clocks of other devices change under their own issuers' hands
      need.weight = std::accumulate(reach.milestone->clock.begin(), reach.milestone->clock.end(), std::uint64_t{0});
    needs.push_back(need);
  }
  // What follows from another has the lighter clock: then it is known by its turn.
  if (needs.size() > 1)
    std::sort(needs.begin(), needs.end(), [](const Need& a, const Need& b) { return a.weight > b.weight; });
  for (const Need& need : needs) {
    if (!knows(*need.lane, need.wanted))
      enter(need);
  }
}

void CudaStream::learn(const Lane& lane, std::uint64_t sequence) noexcept {
  std::uint64_t& known = clock_[static_cast<std::size_t>(lane.local())];
  known = std::max(known, sequence);
}

Milestone& CudaStream::record() {
  Milestone* next = &ring_[(recorded_ + 1) % k_ring];
  if (next->event.get() == nullptr) {
    try {
      make_event(*next);
    } catch (...) {      // no memory, above all
      next = &latest();  // it then stands for more
      --recorded_;
    }
  }
  next->number = ++recorded_;
  next->clock = clock_;
  if (cudaEventRecord(next->event.get(), native()) != cudaSuccess) {
    cudaGetLastError();  // which a body under way would find
    cuda_check(cudaEventRecord(next->event.get(), native()), "cudaEventRecord");
  }
  return *next;
}

void CudaStream::wait_until_idle() {
  cuda_check(cudaStreamSynchronize(native()), "cudaStreamSynchronize");
}

bool CudaStream::is_behind() {
  const bool asks = recorded_ >= passed_ + k_most_open && recorded_ % k_ask_every == 0;
  return asks && still_behind();
}

bool CudaStream::still_behind() {
  const std::uint64_t old = recorded_ - k_most_open / 2;
  const cudaError_t status = cudaEventQuery(ring_[old % k_ring].event.get());
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return true;
  }
  cuda_check(status, "cudaEventQuery");
  passed_ = old;
  return false;
}

}  // namespace sluice::detail
