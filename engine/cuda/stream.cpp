#include <chrono>
#include <new>

#include <sluice/engine/cuda/stream.h>
#include <sluice/engine/error.h>

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

namespace cuda {

void check_failed(cudaError_t status, const char* call) {
  cudaGetLastError();
  const std::string text = message(call, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
  if (status == cudaErrorMemoryAllocation)
    throw OutOfMemory(text, 0);
  throw CudaError(text, static_cast<int>(status));
}

}  // namespace cuda

namespace detail {

using cuda::cuda_check;
using cuda::DeviceScope;

CudaStream::CudaStream(StreamTable& table, Device device, StreamKind kind, std::uint16_t index)
    : table_(table), device_(device), kind_(kind), index_(index) {
  const DeviceScope on(device.index);
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  stream_ = cuda::StreamHandle(stream);
  void* word = nullptr;
  cuda_check(cudaHostAlloc(&word, sizeof(ErrorWord), cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
  error_word_ = ::new (word) ErrorWord();
  for (Mark& mark : ring_) {
    cudaEvent_t event = nullptr;
    // Not blocking-sync events: with some 55 of those outstanding on a stream, the next launch makes the host wait.
    cuda_check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    mark.event = cuda::EventHandle(event);
  }
}

CudaStream::~CudaStream() {
  for (auto& slot : slots)
    slot.reset();  // library handles go before the stream that they use
  if (error_word_ != nullptr)
    cudaFreeHost(error_word_);
}

void CudaStream::wait_for(const PositionSet& positions) {
  for (Position position : positions) {
    if (position.stream() == index_ || clock_[position.stream()] >= position.sequence())
      continue;
    CudaStream& other = table_.at(position.stream());
    if (other.done() >= position.sequence())
      continue;
    // The mark may stand for later work of the same stream by now: that waits longer, never less.
    Mark& mark = other.mark_at(position.sequence());
    const std::uint64_t reached = mark.sequence.load(std::memory_order_acquire);
    cuda_check(cudaStreamWaitEvent(stream_.get(), mark.event.get(), 0), "cudaStreamWaitEvent");
    table_.waits.fetch_add(1, std::memory_order_relaxed);
    clock_[position.stream()] = reached;
  }
}

Position CudaStream::mark() noexcept {
  const std::uint64_t sequence = issued_.load(std::memory_order_relaxed) + 1;
  Mark& mark = mark_at(sequence);
  if (cudaEventRecord(mark.event.get(), stream_.get()) != cudaSuccess)
    cudaGetLastError();
  mark.sequence.store(sequence, std::memory_order_release);
  issued_.store(sequence, std::memory_order_release);
  return {index_, sequence};
}

bool CudaStream::lease_or_leave(TaskNode* task) {
  const std::lock_guard hold(lock_);
  if (!leased_.exchange(true, std::memory_order_relaxed))
    return true;
  task->next = nullptr;
  (left_tail_ == nullptr ? left_head_ : left_tail_->next) = task;
  left_tail_ = task;
  return false;
}

TaskNode* CudaStream::next_or_give_up() {
  const std::lock_guard hold(lock_);
  TaskNode* task = left_head_;
  if (task == nullptr) {
    leased_.store(false, std::memory_order_relaxed);
    return nullptr;
  }
  left_head_ = task->next;
  if (left_head_ == nullptr)
    left_tail_ = nullptr;
  return task;
}

void CudaStream::raise_done(std::uint64_t sequence) noexcept {
  std::uint64_t known = done_.load(std::memory_order_relaxed);
  while (known < sequence && !done_.compare_exchange_weak(known, sequence, std::memory_order_acq_rel)) {
  }
}

bool CudaStream::query(std::uint64_t sequence) {
  if (done() >= sequence)
    return true;
  const cudaError_t status = cudaEventQuery(mark_at(sequence).event.get());
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  cuda_check(status, "cudaEventQuery");
  raise_done(sequence);
  return true;
}

void CudaStream::synchronize(std::uint64_t sequence) {
  // Most waits are short: spin a little before the driver puts the thread to sleep.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  do {
    if (query(sequence))
      return;
  } while (std::chrono::steady_clock::now() < limit);
  table_.sleep_until(device_, mark_at(sequence).event.get());
  raise_done(sequence);
}

void CudaStream::throw_reported() {
  if (reinterpret_cast<std::atomic<int>&>(error_word_->code).load(std::memory_order_acquire) == 0)
    return;
  const std::lock_guard hold(reported_mutex_);
  const ErrorWord word = *error_word_;
  if (word.code == 0)
    return;
  *error_word_ = ErrorWord();
  throw IndexError(message(
      "a kernel on ",
      device_,
      " met index ",
      word.value,
      " outside [0, ",
      word.bound,
      "); what it wrote for that element is 0"));
}

CudaStream& StreamTable::add(Device device, StreamKind kind) {
  const std::lock_guard hold(mutex_);
  const int index = count_.load(std::memory_order_relaxed);
  if (index >= CudaStream::k_max_streams)
    throw ValueError("engine: too many GPU streams");
  auto* stream = new CudaStream(*this, device, kind, static_cast<std::uint16_t>(index));
  streams_[static_cast<std::size_t>(index)].store(stream, std::memory_order_release);
  count_.store(index + 1, std::memory_order_release);
  return *stream;
}

// On a stream of the waiter's own, a blocking-sync event behind the one waited for: the thread sleeps in the driver.
void StreamTable::sleep_until(Device device, cudaEvent_t event) {
  const DeviceScope on(device.index);
  Sleeper sleeper;
  {
    const std::lock_guard hold(mutex_);
    auto& idle = sleepers_[static_cast<std::size_t>(device.index)];
    if (!idle.empty()) {
      sleeper = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (sleeper.stream.get() == nullptr) {
    cudaStream_t stream = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    sleeper.stream = cuda::StreamHandle(stream);
    cudaEvent_t wake = nullptr;
    cuda_check(
        cudaEventCreateWithFlags(&wake, cudaEventDisableTiming | cudaEventBlockingSync), "cudaEventCreateWithFlags");
    sleeper.wake = cuda::EventHandle(wake);
  }
  cuda_check(cudaStreamWaitEvent(sleeper.stream.get(), event, 0), "cudaStreamWaitEvent");
  cuda_check(cudaEventRecord(sleeper.wake.get(), sleeper.stream.get()), "cudaEventRecord");
  cuda_check(cudaEventSynchronize(sleeper.wake.get()), "cudaEventSynchronize");
  const std::lock_guard hold(mutex_);
  sleepers_[static_cast<std::size_t>(device.index)].push_back(std::move(sleeper));
}

void StreamTable::clear() noexcept {
  for (auto& stream : streams_)
    delete stream.exchange(nullptr);
}

}  // namespace detail
}  // namespace sluice
