#include <algorithm>
#include <chrono>
#include <future>
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

namespace {

constexpr int k_tries = 3;

}  // namespace

StreamPolicy::StreamPolicy(Core& core, LaunchOptions options)
    : reports_(core, logical_), fences_(core, logical_), poller_([this] { return poll(); }) {
  for (int i = 0; i < num_gpus(); ++i)
    gpus_.push_back(std::make_unique<Gpu>(core, *this, logical_, sluice::gpu(i), options));
  poller_.wake();  // makes the thread: later nobody could be told that there is none
}

StreamPolicy::~StreamPolicy() {
  stop();
  logical_.clear();  // before the streams that their library handles use
}

void StreamPolicy::submit(TaskNode* task) {
  gpu(task->device).issuer.submit(task);
}

void StreamPolicy::sort_by_class() noexcept {
  for (const auto& gpu : gpus_)
    gpu->issuer.sort_by_class();
}

void StreamPolicy::add_counters(EngineCounters& counters) const noexcept {
  for (const auto& gpu : gpus_) {
    counters.stream_waits += gpu->counts.stream_waits.load(std::memory_order_relaxed);
    counters.batches += gpu->counts.batches.load(std::memory_order_relaxed);
    counters.batched += gpu->counts.batched.load(std::memory_order_relaxed);
    counters.graphs_made += gpu->counts.graphs_made.load(std::memory_order_relaxed);
    counters.reissued += gpu->counts.reissued.load(std::memory_order_relaxed);
  }
}

// In a body nothing that rests elsewhere is begun: two bodies on one thread would wait for each other.
void StreamPolicy::nudge(Gpu& gpu) {
  gpu.issuer.nudge(issuing_here() != nullptr);
}

void StreamPolicy::flush() {
  for (const auto& gpu : gpus_)
    nudge(*gpu);
}

bool StreamPolicy::on_copy_stream(Position position) const noexcept {
  const StreamKind kind = logical_.of(position).kind();
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

void StreamPolicy::fence(TaskNode* task, const PositionSet& positions) {
  for (Position position : positions) {
    const LogicalStream& logical = logical_.of(position);
    if (logical.launched() < position.sequence())
      nudge(logical.gpu());
  }
  fences_.add(task, positions);
  poller_.wake();
}

BackgroundPoller::Seen StreamPolicy::poll() {
  BackgroundPoller::Seen seen = fences_.open();
  cudaGetLastError();  // what somebody who was told has left
  for (const auto& gpu : gpus_) {
    if (gpu->issuer.attend())
      seen = std::max(seen, BackgroundPoller::Seen::work);
  }
  return seen;
}

bool StreamPolicy::may_call_here() const noexcept {
  if (cudaPeekAtLastError() == cudaSuccess) [[likely]]
    return true;
  if (this_thread().pool == nullptr && !poller_.is_here())
    return false;
  if (this_thread().task != nullptr)  // a body's own, which may still look for it
    return false;
  if (issuing_here() == nullptr)
    cudaGetLastError();  // on a thread of the engine's own: left by a body that has ended
  return true;
}

// -- The host waits --------------------------------------------------------------------------------------------------

// This thread makes no call.
void StreamPolicy::watch(const LogicalStream& logical, std::uint64_t sequence) {
  std::promise<void> passed;
  poller_.wake();  // if no thread can be had, that is said before it is to know `passed`
  fences_.add(passed, {logical.number(), sequence});
  poller_.wake();
  passed.get_future().get();
}

bool StreamPolicy::arrived(Position position) const noexcept {
  return logical_.of(position).done() >= position.sequence();
}

bool StreamPolicy::passed(Position position) const noexcept {
  return arrived(position) || logical_.of(position).gpu().loss.lost();
}

// What the driver says once may be a mistake; what it says again and again a wait will say.
bool StreamPolicy::ask(Position position) noexcept {
  LogicalStream& logical = logical_.of(position);
  for (int tries = 0; tries < k_tries && !passed(position); ++tries) {
    try {
      if (logical.launched() < position.sequence()) {
        nudge(logical.gpu());
        return false;
      }
      if (may_call_here())
        return logical.query(position.sequence());
      fences_.look_soon();
      poller_.wake();
      return false;
    } catch (...) {
      logical.gpu().loss.note_if_lost();
    }
  }
  return true;
}

void StreamPolicy::note_completed(Position position) {
  logical_.of(position).raise_done(position.sequence());
}

Gpu* StreamPolicy::issuing_here() const noexcept {
  Gpu* innermost = nullptr;
  int depth = 0;
  for (const auto& gpu : gpus_) {
    if (const int there = gpu->issuer.depth_here(); there > depth) {
      innermost = gpu.get();
      depth = there;
    }
  }
  return innermost;
}

void StreamPolicy::synchronize(LogicalStream& logical, std::uint64_t sequence) {
  logical.gpu().loss.check_alive();
  if (!may_call_here())
    return watch(logical, sequence);
  try {
    // Most waits are short: spin a little before the driver puts the thread to sleep.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
    do {
      if (logical.query(sequence))
        return;
    } while (std::chrono::steady_clock::now() < limit);
    const LogicalStream::Reach reach = logical.reach(sequence);
    try {
      sleepers_.sleep_until(logical.device(), reach.milestone->event.get());
    } catch (const Error&) {  // there is nothing to sleep on: it asks until it is so, or learns that the GPU is lost
      while (!logical.query(sequence))
        std::this_thread::yield();
    }
    logical.raise_done(sequence);
  } catch (...) {
    logical.gpu().loss.rethrow_if_lost();
  }
}

// A GPU body may come here, when memory runs out: then it is this thread that has to launch.
void StreamPolicy::wait_for(LogicalStream& logical, std::uint64_t sequence) {
  if (logical.done() >= sequence)
    return;
  Gpu* const mine = logical.launched() < sequence ? issuing_here() : nullptr;
  if (mine != nullptr)
    mine->bodies.launch(logical, sequence);
  else if (logical.launched() < sequence)
    logical.gpu().issuer.await_launch(logical, sequence);
  if (logical.launched() < sequence)  // the place of the very body that waits
    return mine->bodies.wait_for_own();
  synchronize(logical, sequence);
}

void StreamPolicy::wait(const PositionSet& positions) {
  if (Gpu* mine = issuing_here())
    mine->bodies.keep_error();
  for (Position position : positions)
    wait_for(logical_.of(position), position.sequence());
}

void StreamPolicy::wait_all() {
  std::exception_ptr first;  // of one GPU; the others' work is waited for all the same
  for (int i = 1; i < logical_.count(); ++i) {
    LogicalStream& logical = logical_.at(static_cast<std::uint16_t>(i));
    try {
      wait_for(logical, logical.issued());
    } catch (...) {
      if (first == nullptr)
        first = std::current_exception();
    }
  }
  if (first != nullptr)
    std::rethrow_exception(first);
}

}  // namespace detail
}  // namespace sluice
