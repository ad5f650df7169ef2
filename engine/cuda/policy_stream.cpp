#include <chrono>
#include <pthread.h>
#include <thread>

#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/detail/core.h>

namespace sluice::detail {

using cuda::cuda_check;
using cuda::DeviceScope;

StreamPolicy::StreamPolicy(Core& core, bool serial) : core_(core), serial_(serial) {
  for (int i = 0; i < num_gpus(); ++i)
    devices_.push_back(std::make_unique<DeviceStreams>());
}

StreamPolicy::~StreamPolicy() {
  stop();
}

void StreamPolicy::stop() {
  {
    const std::lock_guard hold(fence_mutex_);
    stopping_ = true;
    fence_changed_.notify_all();
  }
  if (fence_thread_.joinable())
    fence_thread_.join();
}

StreamPolicy::DeviceStreams& StreamPolicy::streams_of(Device device) {
  DeviceStreams& streams = *devices_[static_cast<std::size_t>(device.index)];
  if (streams.made.load(std::memory_order_acquire))
    return streams;
  const std::lock_guard hold(streams.mutex);
  if (streams.made.load(std::memory_order_relaxed))
    return streams;
  for (auto& stream : streams.compute)
    stream = &table_.add(device, StreamKind::compute);
  streams.copy_in = &table_.add(device, StreamKind::copy_in);
  streams.copy_out = &table_.add(device, StreamKind::copy_out);
  streams.collective = &table_.add(device, StreamKind::collective);
  streams.made.store(true, std::memory_order_release);
  return streams;
}

// Continue where the latest need is still the tail; otherwise take the next stream that nobody issues on.
CudaStream& StreamPolicy::choose(const TaskNode& task, const PositionSet& needs) {
  DeviceStreams& streams = streams_of(task.device);
  if (task.stream == StreamKind::copy_in)
    return *streams.copy_in;
  if (task.stream == StreamKind::copy_out)
    return *streams.copy_out;
  if (task.stream == StreamKind::collective)
    return *streams.collective;
  if (serial_)
    return *streams.compute[0];
  for (Position need : needs) {
    CudaStream& stream = table_.at(need.stream());
    const bool ours = stream.device() == task.device && stream.kind() == StreamKind::compute;
    if (ours && stream.issued() == need.sequence())
      return stream;
  }
  const unsigned turn = streams.turn.fetch_add(1, std::memory_order_relaxed);
  for (unsigned i = 0; i < k_compute_streams; ++i) {
    CudaStream& stream = *streams.compute[(turn + i) % k_compute_streams];
    if (!stream.leased())
      return stream;
  }
  return *streams.compute[turn % k_compute_streams];
}

void StreamPolicy::submit(TaskNode* task) {
  CudaStream* stream = nullptr;
  try {
    stream = &choose(*task, core_.needs(task));
  } catch (...) {  // the device's streams could not be made
    Core::claim(task);
    FailureRef failure = core_.start(task);
    const bool runs = failure == nullptr;
    if (runs)
      failure = capture_failure(core_.record_of(task));
    task->body.reset();
    return core_.finish(task, std::move(failure), runs, {});
  }
  if (!stream->lease_or_leave(task))
    return;
  for (TaskNode* next = task; next != nullptr; next = stream->next_or_give_up())
    issue(*stream, next);
}

void StreamPolicy::issue(CudaStream& stream, TaskNode* task) {
  Core::claim(task);
  FailureRef failure = core_.start(task);
  if (failure != nullptr) {
    task->body.reset();
    return core_.finish(task, std::move(failure), false, {});
  }
  Position position;
  try {
    const DeviceScope on(task->device.index);
    stream.wait_for(core_.needs(task));
    try {
      run_body(stream, task);
    } catch (...) {
      failure = capture_failure(core_.record_of(task));
    }
    position = stream.mark();  // also after a throw: kernels may have been launched before it
    if (serial_)
      stream.synchronize(position.sequence());
  } catch (...) {
    if (failure == nullptr)
      failure = capture_failure(core_.record_of(task));
    if (!position)
      position = stream.mark();
  }
  task->body.reset();
  core_.finish(task, std::move(failure), true, position);
}

namespace {

// One side of the fence around a body that uses the legacy stream: `after` waits for all that `before` holds.
void order_streams(cudaStream_t before, cudaStream_t after) {
  cudaEvent_t raw = nullptr;
  cuda_check(cudaEventCreateWithFlags(&raw, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  const cuda::EventHandle event(raw);
  cuda_check(cudaEventRecord(raw, before), "cudaEventRecord");
  cuda_check(cudaStreamWaitEvent(after, raw, 0), "cudaStreamWaitEvent");
}

}  // namespace

void StreamPolicy::run_body(CudaStream& stream, TaskNode* task) {
  ThisThread& here = this_thread();
  struct Restore {
    ThisThread& here;
    Core* core;
    TaskNode* task;
    Engine* scope;
    ~Restore() {
      here.core = core;
      here.task = task;
      here.scope = scope;
    }
  } restore{here, here.core, here.task, here.scope};
  here.core = &core_;
  here.task = task;
  here.scope = nullptr;
  const auto native = static_cast<cudaStream_t>(stream.native());
  if (task->legacy_stream)
    order_streams(native, cudaStreamLegacy);
  task->body(Queue(*core_.facade(), task->device, 1, &stream, task));
  // Launches report nothing themselves; a bad one is found here, so that it blames this task and no other.
  cuda_check(cudaGetLastError(), "kernel launch");
  if (task->legacy_stream)
    order_streams(cudaStreamLegacy, native);
}

// -- CPU tasks after GPU work --

void StreamPolicy::fence(TaskNode* task, const PositionSet& positions) {
  const std::lock_guard hold(fence_mutex_);
  fenced_.push_back({task, positions});
  if (!fence_thread_.joinable())
    fence_thread_ = boost::thread([this] { watch_fences(); });
  fence_changed_.notify_all();
}

bool StreamPolicy::try_open(Fenced& fenced) {
  FailureRef failure;
  try {
    for (Position position : fenced.positions) {
      if (!table_.at(position.stream()).query(position.sequence()))
        return false;
    }
  } catch (...) {
    failure = capture_failure(core_.record_of(fenced.task));
  }
  core_.run_fenced(fenced.task, std::move(failure));
  return true;
}

void StreamPolicy::watch_fences() {
  pthread_setname_np(pthread_self(), "sluice-fence");
  std::vector<Fenced> watched;
  for (int quiet = 0;; ++quiet) {
    {
      std::unique_lock hold(fence_mutex_);
      if (watched.empty())
        fence_changed_.wait(hold, [&] { return stopping_ || !fenced_.empty(); });
      if (watched.empty() && fenced_.empty())
        return;
      for (Fenced& fenced : fenced_)
        watched.push_back(std::move(fenced));
      fenced_.clear();
    }
    const std::size_t before = watched.size();
    std::erase_if(watched, [&](Fenced& fenced) { return try_open(fenced); });
    if (watched.size() != before)
      quiet = 0;
    // The driver is asked at most every 5 us, and less often while nothing happens.
    std::this_thread::sleep_for(std::chrono::microseconds(quiet < 20 ? 5 : 50));
  }
}

// -- The host waits --

bool StreamPolicy::passed(Position position) const noexcept {
  return table_.at(position.stream()).done() >= position.sequence();
}

void StreamPolicy::wait(const PositionSet& positions) {
  for (Position position : positions)
    table_.at(position.stream()).synchronize(position.sequence());
  throw_reported();
}

// Of every stream: what a kernel wrote for a bad index may have travelled to others.
void StreamPolicy::throw_reported() {
  for (int i = 1; i < table_.count(); ++i)
    table_.at(static_cast<std::uint16_t>(i)).throw_reported();
}

void StreamPolicy::wait_all() {
  for (int i = 1; i < table_.count(); ++i) {
    CudaStream& stream = table_.at(static_cast<std::uint16_t>(i));
    if (stream.issued() > 0)
      stream.synchronize(stream.issued());
  }
  throw_reported();
}

}  // namespace sluice::detail
