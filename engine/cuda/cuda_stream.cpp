#include <algorithm>
#include <numeric>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/cuda/launch_rules.h>
#include <sluice/engine/cuda/logical_stream.h>
#include <sluice/engine/error.h>

namespace sluice::detail {

using cuda::cuda_check;

CudaStream::CudaStream(LogicalStreamTable& table, Device device, int urgency, std::atomic<std::uint64_t>& waits)
    : table_(table), device_(device), urgency_(urgency), waits_(waits) {
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

bool CudaStream::knows(const LogicalStream& logical, std::uint64_t sequence) const noexcept {
  if (logical.done() >= sequence)
    return true;
  return logical.device() == device_ ? behind_[static_cast<std::size_t>(logical.local())] >= sequence
                                     : far_[logical.number()] >= sequence;
}

void CudaStream::enter(const Need& need) {
  cuda_check(cudaStreamWaitEvent(native(), need.milestone->event.get(), 0), "cudaStreamWaitEvent");
  waits_.fetch_add(1, std::memory_order_relaxed);
  if (need.logical->device() != device_) {
    far_[need.logical->number()] = need.reached;
    return;
  }
  for (std::size_t i = 0; i < behind_.size(); ++i)
    behind_[i] = std::max(behind_[i], need.milestone->behind[i]);
  learn(*need.logical, need.reached);
}

void CudaStream::wait_for(const PositionSet& positions) {
  boost::container::small_vector<Need, 8> needs;
  for (Position position : positions) {
    LogicalStream& logical = table_.of(position);
    if (knows(logical, position.sequence()))
      continue;
    const LogicalStream::Reach reach = logical.reach(position.sequence());
    Need need{reach.milestone, &logical, position.sequence(), reach.sequence, 0};
    if (logical.device() == device_)  // frontiers of other devices change under their own issuers' hands
      need.weight = std::accumulate(reach.milestone->behind.begin(), reach.milestone->behind.end(), std::uint64_t{0});
    needs.push_back(need);
  }
  // What follows from another has the lighter frontier: then it is known by its turn.
  if (needs.size() > 1)
    std::sort(needs.begin(), needs.end(), [](const Need& a, const Need& b) { return a.weight > b.weight; });
  for (const Need& need : needs) {
    if (!knows(*need.logical, need.wanted))
      enter(need);
  }
}

void CudaStream::learn(const LogicalStream& logical, std::uint64_t sequence) noexcept {
  std::uint64_t& known = behind_[static_cast<std::size_t>(logical.local())];
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
  next->behind = behind_;
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
  const bool asks = recorded_ >= passed_ + LaunchRules::k_most_open && recorded_ % LaunchRules::k_ask_every == 0;
  return asks && still_behind();
}

bool CudaStream::still_behind() {
  const std::uint64_t old = recorded_ - LaunchRules::k_most_open / 2;
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
