#include <algorithm>
#include <chrono>
#include <cmath>
#include <list>
#include <new>
#include <optional>

#include <sluice/engine/cuda/gpu_trace.h>
#include <sluice/engine/detail/spin_lock.h>
#include <sluice/engine/detail/tracer.h>

namespace sluice::detail {

using cuda::cuda_check;
using cuda::DeviceScope;

namespace {

// From so many spans under way those that are over are read, so that their events can be used again.
constexpr std::size_t k_many = 1024;
// Below, what the host saw of an event is too coarse to tell how much faster one clock runs than the other.
constexpr double k_long_ns = 1e8;
// How long a look at an event may take, in nanoseconds. Until one was seen a trace has no times at all, so that the
// turns of a few other processes, of some milliseconds each, are waited for.
constexpr std::int64_t k_short_look = 200'000, k_long_look = 50'000'000;

std::int64_t host_now() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

cuda::EventHandle make_event() {
  cudaEvent_t event = nullptr;
  cuda_check(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags");
  return cuda::EventHandle(event);
}

/// Nanoseconds from one event to another; nothing if either is still to come.
std::optional<double> between(const cuda::EventHandle& from, const cuda::EventHandle& to) noexcept {
  float milliseconds = 0;
  if (cudaEventElapsedTime(&milliseconds, from.get(), to.get()) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  return 1e6 * static_cast<double>(milliseconds);
}

/// One moment on both clocks; device time counts from the base event.
struct Moment {
  double device = 0;
  double host = 0;
  double look = 0;  // how long the host looked, in nanoseconds: it was somewhere within
};

}  // namespace

struct GpuTrace::Span {
  std::uint64_t recording = 0;
  GpuSpan what;
  cuda::EventHandle began, ended;
  bool open = true;  // the body is under way
};

struct GpuTrace::Clock {
  cuda::StreamHandle stream;
  cuda::EventHandle base, probe;
  std::optional<Moment> first;

  Clock() : base(make_event()), probe(make_event()) {
    int least = 0, greatest = 0;
    cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    cudaStream_t raw = nullptr;
    cuda_check(cudaStreamCreateWithPriority(&raw, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority");
    stream = cuda::StreamHandle(raw);
    cuda_check(cudaEventRecord(base.get(), raw), "cudaEventRecord");
    first = sample();
  }

  /// A few looks at an event on the idle stream; the shortest tells best. They end soon whatever the GPU does: it may
  /// be that its queues are full of work that waits for this host, or that another process has its turn.
  std::optional<Moment> sample() const {
    const std::int64_t patience = first ? k_short_look : k_long_look, begun = host_now();
    std::optional<Moment> best;
    std::int64_t shortest = 0;
    for (int looks = 0; looks < 3 || (shortest > k_short_look && host_now() - begun < patience); ++looks) {
      const std::int64_t before = host_now();
      cuda_check(cudaEventRecord(probe.get(), stream.get()), "cudaEventRecord");
      std::int64_t after = 0;
      for (bool passed = false; !passed; pause_briefly()) {
        passed = cudaEventQuery(probe.get()) == cudaSuccess;
        cudaGetLastError();
        after = host_now();
        if (!passed && after - before > patience)
          return best;
      }
      const auto device = between(base, probe);
      if (device && (!best || after - before < shortest)) {
        shortest = after - before;
        const auto look = static_cast<double>(after - before);
        best = {*device, static_cast<double>(before) + look / 2, look};
      }
    }
    return best;
  }
};

struct GpuTrace::PerDevice {
  std::uint64_t recording = 0;
  bool taken = false;  // what is issued from here on is too late for it
  std::unique_ptr<Clock> clock;
  std::list<Span> spans;  // under way; addresses stay
  std::vector<cuda::EventHandle> idle;
  std::vector<GpuSpan> over;  // times count from the base event, in nanoseconds
  std::size_t many = k_many;

  cuda::EventHandle take_event() {
    if (idle.empty())
      return make_event();
    cuda::EventHandle event = std::move(idle.back());
    idle.pop_back();
    return event;
  }

  /// Reads what is over. `all`: also what has begun, or not yet.
  void read(bool all) {
    for (auto span = spans.begin(); span != spans.end();) {
      const auto ended = span->open ? std::nullopt : between(clock->base, span->ended);
      if (span->recording == recording && (ended || all)) {
        if (const auto began = between(clock->base, span->began))
          span->what.began = std::max<std::int64_t>(std::llround(*began), 0);
        if (ended)
          span->what.ended = std::max<std::int64_t>(std::llround(*ended), span->what.began);
        over.push_back(span->what);
        span->recording = 0;
      }
      if (span->open || (span->recording != 0 && !ended)) {
        ++span;
        continue;
      }
      idle.push_back(std::move(span->began));
      idle.push_back(std::move(span->ended));
      span = spans.erase(span);
    }
    many = std::max(k_many, 2 * spans.size());
  }
};

void TracedBatch::add(const TaskNode& task) noexcept try {
  if (!task.traced)
    return;
  const TraceRecord& record = *task.extras()->trace;
  if (record.recording != recording_)
    tasks_.clear();
  recording_ = record.recording;
  tasks_.push_back(record.order.load(std::memory_order_relaxed));
} catch (const std::bad_alloc&) {
}

GpuTrace::GpuTrace() = default;
GpuTrace::~GpuTrace() = default;

GpuTrace::Span* GpuTrace::before_body(const TracedStream& stream, const TaskNode& task) noexcept {
  const TraceRecord& record = *task.extras()->trace;
  GpuSpan what;
  what.tasks.push_back(record.order.load(std::memory_order_relaxed));  // in place: one of them
  return begin(stream, record.recording, std::move(what));
}

GpuTrace::Span* GpuTrace::before_batch(const TracedStream& stream, TracedBatch batch) noexcept {
  GpuSpan what;
  what.batch = true;
  what.tasks = std::move(batch.tasks_);
  return begin(stream, batch.recording_, std::move(what));
}

GpuTrace::PerDevice& GpuTrace::device_of(const TracedStream& stream, std::uint64_t recording) {
  const auto index = static_cast<std::size_t>(stream.device.index);
  if (devices_.size() <= index)
    devices_.resize(index + 1);
  if (devices_[index] == nullptr)
    devices_[index] = std::make_unique<PerDevice>();
  PerDevice& device = *devices_[index];
  if (device.recording < recording) {
    device.clock = nullptr;
    device.recording = recording;
    device.taken = false;
    device.over.clear();
    std::erase_if(device.spans, [](const Span& span) { return !span.open; });
  }
  if (device.clock == nullptr && !device.taken)
    device.clock = std::make_unique<Clock>();
  return device;
}

GpuTrace::Span* GpuTrace::begin(const TracedStream& stream, std::uint64_t recording, GpuSpan&& what) noexcept try {
  const std::lock_guard hold(mutex_);
  PerDevice& device = device_of(stream, recording);
  if (device.recording != recording || device.taken)
    return nullptr;  // of a trace that has ended meanwhile
  if (device.spans.size() >= device.many)
    device.read(false);
  what.device = stream.device;
  what.kind = stream.kind;
  what.stream = stream.number;
  Span span{recording, std::move(what), device.take_event(), device.take_event()};
  cuda_check(cudaEventRecord(span.began.get(), stream.native), "cudaEventRecord");
  device.spans.push_back(std::move(span));
  return &device.spans.back();
} catch (...) {
  return nullptr;
}

void GpuTrace::after_body(const TracedStream& stream, Span& span) noexcept {
  const std::lock_guard hold(mutex_);
  if (cudaEventRecord(span.ended.get(), stream.native) != cudaSuccess)
    cudaGetLastError();  // none of a body's, whose errors have been asked for
  span.open = false;
}

std::vector<GpuSpan> GpuTrace::take(std::uint64_t recording) {
  const std::lock_guard hold(mutex_);
  std::vector<GpuSpan> taken;
  for (std::size_t index = 0; index < devices_.size(); ++index) {
    PerDevice* const device = devices_[index].get();
    if (device == nullptr || device->recording != recording || device->clock == nullptr)
      continue;
    try {
      const DeviceScope on(static_cast<int>(index));
      device->read(true);
      const std::optional<Moment> first = device->clock->first, last = device->clock->sample();
      if (!first && !last)
        continue;
      const Moment at = !last || (first && first->look <= last->look) ? *first : *last;
      double rate = 1;
      if (first && last && last->device - first->device > std::max(k_long_ns, 1e3 * (first->look + last->look)))
        rate = (last->host - first->host) / (last->device - first->device);
      const auto to_host = [&](std::int64_t device_time) {
        return device_time < 0 ? -1 : std::llround(at.host + (static_cast<double>(device_time) - at.device) * rate);
      };
      for (GpuSpan& span : device->over) {
        span.began = to_host(span.began);
        span.ended = to_host(span.ended);
        taken.push_back(std::move(span));
      }
    } catch (const Error&) {  // then its tasks keep the times of their issue
    }
    device->over.clear();
    device->clock = nullptr;
    device->taken = true;
  }
  return taken;
}

}  // namespace sluice::detail
