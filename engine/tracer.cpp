// Recording. A thread writes to a buffer of its own; the only shared line on the way is the counter of the push order.
#include <algorithm>
#include <chrono>
#include <pthread.h>
#include <unistd.h>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/thread_number.h>
#include <sluice/engine/detail/tracer.h>

namespace sluice::detail {

std::uint64_t this_thread_number() noexcept {
  static std::atomic<std::uint64_t> next{1};
  static thread_local std::uint64_t mine = 0;
  if (mine == 0)
    mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

namespace {

std::int64_t now() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Where this thread writes for each of the engines that it met last. A thread that ends leaves its buffers to them.
thread_local bool cache_gone = false;  // static objects may push after the thread's own are gone
struct BufferCache {
  struct Entry {
    std::uint64_t tracer = 0;
    std::shared_ptr<TraceBuffer> buffer;
  };
  std::array<Entry, 4> entries;
  unsigned turn = 0;
  ~BufferCache() { cache_gone = true; }
};
BufferCache& buffer_cache() {
  static thread_local BufferCache cache;
  return cache;
}

}  // namespace

// -- TraceBuffer --

TraceRecord& TraceBuffer::next() {
  if (last_ == nullptr) {
    last_ = new Chunk;
    first_.store(last_, std::memory_order_release);
  } else if (last_->used.load(std::memory_order_relaxed) == k_records) {
    auto* fresh = new Chunk;
    last_->next.store(fresh, std::memory_order_release);  // the old chunk may be freed from here on
    last_ = fresh;
  }
  return last_->records[last_->used.load(std::memory_order_relaxed)];
}

void TraceBuffer::publish() noexcept {
  last_->used.store(last_->used.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

bool TraceBuffer::Chunk::ended() const noexcept {
  const std::uint32_t there = used.load(std::memory_order_acquire);
  return std::all_of(records.begin(), records.begin() + there, [](const TraceRecord& record) {
    return record.ended.load(std::memory_order_acquire) >= 0;
  });
}

bool TraceBuffer::all_ended() const noexcept {
  for (const Chunk* chunk = first_.load(std::memory_order_acquire); chunk != nullptr;
       chunk = chunk->next.load(std::memory_order_acquire)) {
    if (!chunk->ended())
      return false;
  }
  return true;
}

void TraceBuffer::free_done() noexcept {
  for (Chunk* chunk = first_.load(std::memory_order_acquire); chunk != nullptr;) {
    Chunk* next = chunk->next.load(std::memory_order_acquire);
    if (next == nullptr || chunk->read < k_records || !chunk->ended())
      return;
    delete chunk;
    first_.store(next, std::memory_order_release);
    chunk = next;
  }
}

void TraceBuffer::clear() noexcept {
  Chunk* chunk = first_.exchange(nullptr, std::memory_order_acq_rel);
  while (chunk != nullptr)
    delete std::exchange(chunk, chunk->next.load(std::memory_order_acquire));
  last_ = nullptr;
}

// -- Tracer --

Tracer::Tracer(Core& core)
    : core_(core), id_([] {
        static std::atomic<std::uint64_t> next{1};
        return next.fetch_add(1);
      }()) {}

Tracer::~Tracer() {
  for (auto& buffer : buffers_)
    buffer->clear();  // threads that wrote to it may keep the empty shell
}

void Tracer::start(std::atomic<Tracer*>& hooks) {
  const std::lock_guard hold(mutex_);
  require(hooks.load() == nullptr, [] { return std::string("start_trace: a trace is running already"); });
  for (auto& buffer : buffers_)
    buffer->read([](const TraceRecord&) {});
  recording_.fetch_add(1);
  began_ = now();
  hooks.store(this, std::memory_order_release);
}

Trace Tracer::stop(std::atomic<Tracer*>& hooks) {
  const std::lock_guard hold(mutex_);
  require(hooks.load() != nullptr, [] { return std::string("stop_trace: no trace is running"); });
  hooks.store(nullptr, std::memory_order_release);
  const std::int64_t duration = now() - began_;
  TraceParts parts;
  for (auto& buffer : buffers_) {
    buffer->read([&](const TraceRecord& record) {
      const std::uint64_t order = record.order.load(std::memory_order_acquire);
      if (record.recording == recording_.load() && order != 0)
        parts.events.emplace_back(order, event_of(record));
    });
  }
  // Of threads that have ended, nothing is left to come.
  std::erase_if(buffers_, [](const auto& buffer) { return buffer.use_count() == 1 && buffer->all_ended(); });
  std::sort(parts.events.begin(), parts.events.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const Seat& seat : seats_)
    parts.threads.push_back(seat.shown);
  if (GpuPolicy* gpu_policy = core_.gpu())
    add_gpu_spans(parts, gpu_policy->take_trace(recording_.load()), began_);
  std::vector<TraceEvent> events;
  events.reserve(parts.events.size());
  for (auto& [order, event] : parts.events)
    events.push_back(std::move(event));
  return Trace(std::move(events), std::move(parts.threads), duration, std::move(parts.batches));
}

// Later stages are read first: what is seen of a running task is a stage that it has been in.
TraceEvent Tracer::event_of(const TraceRecord& record) const {
  auto since = [this](std::int64_t time) { return time < 0 ? -1 : std::max<std::int64_t>(time - began_, 0); };
  TraceEvent event;
  event.ended = since(record.ended.load(std::memory_order_acquire));
  if (event.ended >= 0)
    event.outcome = record.outcome.load(std::memory_order_relaxed);
  event.started = since(record.started.load(std::memory_order_acquire));
  if (event.started >= 0)
    event.worker = record.worker.load(std::memory_order_relaxed);
  event.ready = since(record.ready.load(std::memory_order_relaxed));
  event.pushed = since(record.pushed);
  event.name = record.name.c_str();
  event.site = record.site;
  event.device = record.device;
  event.priority = record.priority;
  event.pusher = record.pusher;
  event.bytes = record.bytes;
  event.work = record.work;
  event.vars.assign(record.vars.begin(), record.vars.end());
  return event;
}

TraceBuffer* Tracer::buffer_of_this_thread() noexcept {
  if (cache_gone)
    return nullptr;
  BufferCache& cache = buffer_cache();
  for (BufferCache::Entry& entry : cache.entries) {
    if (entry.tracer == id_)
      return entry.buffer.get();
  }
  try {
    BufferCache::Entry& entry = cache.entries[cache.turn++ % cache.entries.size()];
    entry = {id_, join()};
    return entry.buffer.get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::shared_ptr<TraceBuffer> Tracer::join() {
  const std::lock_guard hold(mutex_);
  const std::uint64_t thread = this_thread_number();
  auto seat = std::find_if(seats_.begin(), seats_.end(), [&](const Seat& s) { return s.thread == thread; });
  if (seat == seats_.end()) {
    char name[32] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    const bool worker = this_thread().pool == &core_.cpu();
    std::string shown = name;
    if (getpid() == gettid()) {
      shown = "main";
    } else if (!worker) {
      shown += " (thread " + std::to_string(thread) + ")";  // threads inherit the name of the program
    }
    seats_.push_back({thread, {std::move(shown), worker}});
    seat = seats_.end() - 1;
  }
  buffers_.push_back(std::make_shared<TraceBuffer>(static_cast<int>(seat - seats_.begin())));
  return buffers_.back();
}

// -- Hooks --

void Core::start_trace() {
  const std::lock_guard hold(extensions_mutex_);
  if (tracer_ == nullptr)
    tracer_ = std::make_unique<Tracer>(*this);
  tracer_->start(tracing_);
}

Trace Core::stop_trace() {
  const std::lock_guard hold(extensions_mutex_);
  require(tracer_ != nullptr, [] { return std::string("stop_trace: no trace is running"); });
  return tracer_->stop(tracing_);
}

void Tracer::pushed(TaskNode& task) noexcept {
  TraceBuffer* buffer = task.kind == TaskKind::body ? buffer_of_this_thread() : nullptr;
  if (buffer == nullptr)
    return;
  try {
    note(task, *buffer);
  } catch (const std::bad_alloc&) {  // then this task goes without
  }
}

void Tracer::note(TaskNode& task, TraceBuffer& buffer) {
  TaskExtras& extras = task.need_extras();
  TraceRecord& record = buffer.next();
  record.vars.clear();
  for (const AccessNode& access : task.accesses())
    record.vars.push_back({access.var->id, access.mode()});
  record.tracer = this;
  record.recording = recording_.load(std::memory_order_relaxed);
  record.name = extras.name.counted() ? extras.name : TaskName::lasting(task.name);
  record.site = task.site();
  record.device = task.device;
  record.priority = task.priority.load(std::memory_order_relaxed);
  record.pusher = buffer.row();
  record.pushed = now();
  record.bytes = extras.bytes;
  record.work = extras.work;
  extras.trace = &record;
  task.traced = true;
  buffer.publish();
}

TraceRecord* Tracer::begin_span(const TaskName& name, SourceLocation site) noexcept {
  TraceBuffer* const buffer = buffer_of_this_thread();
  if (buffer == nullptr)
    return nullptr;
  try {
    TraceRecord& record = buffer->next();
    record.tracer = this;
    record.recording = recording_.load(std::memory_order_relaxed);
    record.name = name;
    record.site = site;
    record.device = cpu();
    record.pusher = buffer->row();
    record.pushed = now();
    record.order.store(order_.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    record.ready.store(record.pushed, std::memory_order_relaxed);
    record.worker.store(buffer->row(), std::memory_order_relaxed);
    record.started.store(record.pushed, std::memory_order_relaxed);
    buffer->publish();
    return &record;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void Tracer::end_span(TraceRecord& record) noexcept {
  record.outcome.store(TaskOutcome::ok, std::memory_order_relaxed);
  record.ended.store(now(), std::memory_order_release);
}

void Tracer::queued(TaskNode& task) noexcept {
  TraceRecord& record = *task.extras()->trace;
  record.order.store(record.tracer->order_.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_release);
}

void Tracer::ready(TaskNode& task) noexcept {
  task.extras()->trace->ready.store(now(), std::memory_order_relaxed);
}

void Tracer::started(TaskNode& task) noexcept {
  TraceRecord& record = *task.extras()->trace;
  const TraceBuffer* buffer = record.tracer->buffer_of_this_thread();
  record.worker.store(buffer == nullptr ? -1 : buffer->row(), std::memory_order_relaxed);
  record.started.store(now(), std::memory_order_release);
}

void Tracer::finished(TaskNode& task, const FailureRef& failure, bool ran) noexcept {
  TraceRecord& record = *task.extras()->trace;
  if (record.started.load(std::memory_order_relaxed) < 0)
    started(task);  // a task whose way to its body failed
  const bool cancelled = !ran && (task.state.load(std::memory_order_relaxed) & TaskNode::k_cancelled) != 0;
  record.outcome.store(
      cancelled            ? TaskOutcome::cancelled
      : failure == nullptr ? TaskOutcome::ok
      : ran                ? TaskOutcome::failed
                           : TaskOutcome::skipped,
      std::memory_order_relaxed);
  record.ended.store(now(), std::memory_order_release);
}

}  // namespace sluice::detail
