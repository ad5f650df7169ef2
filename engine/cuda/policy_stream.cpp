#include <algorithm>
#include <chrono>
#include <thread>

#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/detail/core.h>

namespace sluice {

int num_gpus() noexcept {
  static const int count = [] {
    int found = 0;
    if (cudaGetDeviceCount(&found) == cudaSuccess)
      return found;
    cudaGetLastError();
    return 0;
  }();
  return count;
}

void cuda::check_failed(cudaError_t status, const char* call) {
  cudaGetLastError();
  const std::string text = message(call, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
  if (status == cudaErrorMemoryAllocation)
    throw OutOfMemory(text, 0);
  throw CudaError(text, static_cast<int>(status));
}

namespace detail {

StreamPolicy::StreamPolicy(Core& core, LaunchOptions options) : core_(core), attendant_([this] { return look(); }) {
  for (int i = 0; i < num_gpus(); ++i)
    issuers_.push_back(std::make_unique<Issuer>(core, *this, lanes_, gpu(i), options));
  attendant_.wake();  // makes the thread: later nobody could be told that there is none
}

StreamPolicy::~StreamPolicy() {
  stop();
  lanes_.clear();  // before the streams that their library handles use
}

void StreamPolicy::stop() {
  attendant_.stop();
}

void StreamPolicy::submit(TaskNode* task) {
  issuers_[static_cast<std::size_t>(task->device.index)]->submit(task);
}

void StreamPolicy::add_counters(EngineCounters& counters) const noexcept {
  for (const auto& issuer : issuers_) {
    const IssueCounts& counts = issuer->counts();
    counters.stream_waits += counts.stream_waits.load(std::memory_order_relaxed);
    counters.batches += counts.batches.load(std::memory_order_relaxed);
    counters.batched += counts.batched.load(std::memory_order_relaxed);
    counters.repeated += counts.repeated.load(std::memory_order_relaxed);
    counters.graphs_made += counts.graphs_made.load(std::memory_order_relaxed);
    counters.reissued += counts.reissued.load(std::memory_order_relaxed);
  }
}

void StreamPolicy::flush() {
  for (const auto& issuer : issuers_)
    issuer->nudge();
}

bool StreamPolicy::on_copy_stream(Position position) const noexcept {
  const StreamKind kind = lanes_.at(position.stream()).kind();
  return kind == StreamKind::copy_in || kind == StreamKind::copy_out;
}

std::uint64_t StreamPolicy::memory_size(Device device) noexcept {
  try {
    const cuda::DeviceScope scope(device.index);
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess)
      return total;
    cudaGetLastError();
  } catch (const Error&) {  // the limit is then the usual one
  }
  return 0;
}

// -- CPU tasks after GPU work --

void StreamPolicy::fence(TaskNode* task, const PositionSet& positions) {
  for (Position position : positions) {
    const Lane& lane = lanes_.at(position.stream());
    if (lane.launched() < position.sequence())
      lane.issuer().nudge();
  }
  {
    const std::lock_guard hold(fence_mutex_);
    fenced_.push_back({task, positions});
    fences_.fetch_add(1, std::memory_order_relaxed);
  }
  attendant_.wake();
}

bool StreamPolicy::try_open(Fenced& fenced) {
  std::exception_ptr error;
  FailureRef failure;
  try {
    for (Position position : fenced.positions) {
      Lane& lane = lanes_.at(position.stream());
      lane.issuer().check_alive();
      if (lane.launched() < position.sequence()) {
        lane.issuer().nudge();
        return false;
      }
      try {
        if (!lane.query(position.sequence()))
          return false;
      } catch (...) {
        lane.issuer().rethrow_if_lost();
      }
    }
  } catch (...) {
    error = std::current_exception();
    if (fenced.task != nullptr)
      failure = capture_failure(core_.record_of(fenced.task));
  }
  if (fenced.task != nullptr)
    core_.run_fenced(fenced.task, std::move(failure));
  else if (error != nullptr)
    fenced.waiter->set_exception(error);
  else
    fenced.waiter->set_value();
  return true;
}

Attendant::Seen StreamPolicy::open_fences() {
  {
    const std::lock_guard hold(fence_mutex_);
    std::move(fenced_.begin(), fenced_.end(), std::back_inserter(watched_));
    fenced_.clear();
  }
  if (watched_.empty())
    return Attendant::Seen::nothing;
  const auto opened = std::erase_if(watched_, [this](Fenced& fenced) { return try_open(fenced); });
  fences_.fetch_sub(static_cast<int>(opened), std::memory_order_relaxed);
  return opened > 0 ? Attendant::Seen::progress : Attendant::Seen::work;
}

Attendant::Seen StreamPolicy::look() {
  Attendant::Seen seen = open_fences();
  cudaGetLastError();  // what somebody who was told has left
  for (const auto& issuer : issuers_) {
    if (issuer->attend())
      seen = std::max(seen, Attendant::Seen::work);
  }
  return seen;
}

// -- The host waits --

bool StreamPolicy::may_call_here() const noexcept {
  if (cudaPeekAtLastError() == cudaSuccess) [[likely]]
    return true;
  if (this_thread().pool == nullptr && !attendant_.is_here())
    return false;
  if (this_thread().task != nullptr)  // a body's own, which may still look for it
    return false;
  if (issuing_here() == nullptr)
    cudaGetLastError();  // on a thread of the engine's own: left by a body that has ended
  return true;
}

// This thread makes no call.
void StreamPolicy::watch(const Lane& lane, std::uint64_t sequence) {
  std::promise<void> passed;
  Fenced fenced{nullptr, {}, &passed};
  fenced.positions.add({lane.number(), sequence});
  attendant_.wake();  // if no thread can be had, that is said before it is to know `passed`
  {
    const std::lock_guard hold(fence_mutex_);
    fenced_.push_back(std::move(fenced));
    fences_.fetch_add(1, std::memory_order_relaxed);
  }
  attendant_.wake();
  passed.get_future().get();
}

bool StreamPolicy::passed(Position position) const noexcept {
  const Lane& lane = lanes_.at(position.stream());
  return lane.done() >= position.sequence() || lane.issuer().lost();
}

bool StreamPolicy::ask(Position position) noexcept {
  Lane& lane = lanes_.at(position.stream());
  try {
    if (lane.launched() < position.sequence())
      lane.issuer().nudge();
    else if (!passed(position) && may_call_here())
      return lane.query(position.sequence());
  } catch (const Error&) {  // a wait will say so
    return true;
  }
  return passed(position);
}

bool StreamPolicy::arrived(Position position) const noexcept {
  return lanes_.at(position.stream()).done() >= position.sequence();
}

void StreamPolicy::saw_passed(Position position) {
  lanes_.at(position.stream()).raise_done(position.sequence());
  throw_reported();
}

Issuer* StreamPolicy::issuing_here() const noexcept {
  for (const auto& issuer : issuers_) {
    if (issuer->issuing_here())
      return issuer.get();
  }
  return nullptr;
}

// A GPU body may come here, when memory runs out: then it is this thread that has to launch.
void StreamPolicy::see_launched(const Lane& lane, std::uint64_t sequence) {
  if (lane.launched() >= sequence)
    return;
  if (Issuer* mine = issuing_here())
    return mine->launch_in_body(lane, sequence);
  lane.issuer().await_launch(lane, sequence);
}

void StreamPolicy::synchronize(Lane& lane, std::uint64_t sequence) {
  lane.issuer().check_alive();
  if (!may_call_here())
    return watch(lane, sequence);
  try {
    // Most waits are short: spin a little before the driver puts the thread to sleep.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
    do {
      if (lane.query(sequence))
        return;
    } while (std::chrono::steady_clock::now() < limit);
    const Lane::Reach reach = lane.reach(sequence);
    try {
      sleepers_.sleep_until(lane.device(), reach.milestone->event.get());
    } catch (const Error&) {  // there is nothing to sleep on: it asks until it is so, or learns that the GPU is lost
      while (!lane.query(sequence))
        std::this_thread::yield();
    }
    lane.raise_done(sequence);
  } catch (...) {
    lane.issuer().rethrow_if_lost();
  }
}

void StreamPolicy::wait_for(Lane& lane, std::uint64_t sequence) {
  if (lane.done() >= sequence)
    return;
  see_launched(lane, sequence);
  if (lane.launched() < sequence)  // the place of the very body that waits
    return issuing_here()->wait_for_own();
  synchronize(lane, sequence);
}

void StreamPolicy::wait(const PositionSet& positions) {
  if (Issuer* mine = issuing_here())
    mine->keep_error();
  for (Position position : positions)
    wait_for(lanes_.at(position.stream()), position.sequence());
  throw_reported();
}

void StreamPolicy::wait_all() {
  std::exception_ptr first;  // of one GPU; the others' work is waited for all the same
  for (int i = 1; i < lanes_.count(); ++i) {
    Lane& lane = lanes_.at(static_cast<std::uint16_t>(i));
    try {
      wait_for(lane, lane.issued());
    } catch (...) {
      if (first == nullptr)
        first = std::current_exception();
    }
  }
  if (first != nullptr)
    std::rethrow_exception(first);
  throw_reported();
}

// Of every lane: what a kernel wrote for a bad index may have travelled to others.
void StreamPolicy::throw_reported() {
  for (int i = 1; i < lanes_.count(); ++i)
    lanes_.at(static_cast<std::uint16_t>(i)).throw_reported();
}

}  // namespace detail
}  // namespace sluice
