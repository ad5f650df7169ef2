#include <algorithm>

#include <sluice/engine/cuda/gpu.h>
#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/error.h>

namespace sluice::detail {

using cuda::cuda_check;

void* StreamView::native() {
  gpu_.bodies.order_or_throw();
  return native_;
}
Position StreamView::current_position() {
  gpu_.bodies.order_or_throw();
  return place_ ? place_ : logical_.next_position();
}
std::shared_ptr<void>& StreamView::slot(std::size_t id) {
  gpu_.bodies.order_or_throw();
  return slots_[id];
}
ErrorWord* StreamView::error_word() {
  gpu_.bodies.order_or_throw();
  return gpu_.bodies.error_word(place_ ? place_ : logical_.next_position());
}
void StreamView::wait_for(const PositionSet& positions) {
  gpu_.bodies.order_or_throw();
  gpu_.bodies.wait_for(positions, captures_);
}

LogicalStream::LogicalStream(Gpu& gpu, StreamKind kind, std::uint16_t number, int local)
    : direct(gpu, *this, false),
      captured(gpu, *this, true),
      gpu_(gpu),
      device_(gpu.device),
      kind_(kind),
      number_(number),
      local_(local) {}

// Library handles go before the streams that they use.
LogicalStream::~LogicalStream() {
  direct.drop_slots();
  captured.drop_slots();
}

Position LogicalStream::issue(const TaskNode& task) noexcept {
  const std::uint64_t sequence = issued_.load(std::memory_order_relaxed) + 1;
  Note& note = notes_[sequence % k_marks];
  note.name.store(task.name, std::memory_order_relaxed);
  const SourceLocation site = task.site();
  note.file.store(site.file, std::memory_order_relaxed);
  note.line.store(site.line, std::memory_order_relaxed);
  note.origin.store(site.origin, std::memory_order_relaxed);
  followed_[sequence % k_marks] = false;
  issued_.store(sequence, std::memory_order_release);
  return {number_, sequence};
}

// The sequence is published after the milestone: whoever reads it finds this milestone or a later one.
void LogicalStream::launched(std::uint64_t sequence, Milestone& milestone) noexcept {
  const std::uint64_t count = marked_.load(std::memory_order_relaxed);
  Mark& mark = marks_[count % k_marks];
  mark.milestone.store(&milestone, std::memory_order_release);
  mark.sequence.store(sequence, std::memory_order_release);
  marked_.store(count + 1, std::memory_order_release);
  launched_.store(sequence, std::memory_order_release);
}

// Marks grow with their number; one that is overwritten meanwhile has grown, which the search survives.
LogicalStream::Reach LogicalStream::reach(std::uint64_t sequence) const noexcept {
  const std::uint64_t end = marked_.load(std::memory_order_acquire);
  std::uint64_t low = end > k_marks ? end - k_marks : 0, high = end - 1;
  if (end > 1 && marks_[(end - 2) % k_marks].sequence.load(std::memory_order_acquire) < sequence)
    low = high;  // mostly it is the latest that is asked for
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (marks_[middle % k_marks].sequence.load(std::memory_order_acquire) >= sequence) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  const Mark& mark = marks_[low % k_marks];
  const std::uint64_t reached = mark.sequence.load(std::memory_order_acquire);
  return {mark.milestone.load(std::memory_order_acquire), reached};
}

void LogicalStream::raise_done(std::uint64_t sequence) noexcept {
  if (Reports& reports = gpu_.policy.reports(); reports.any()) [[unlikely]]
    reports.look(*this, sequence);
  std::uint64_t known = done_.load(std::memory_order_relaxed);
  while (known < sequence && !done_.compare_exchange_weak(known, sequence, std::memory_order_acq_rel)) {
  }
}

bool LogicalStream::query(std::uint64_t sequence) {
  if (done() >= sequence)
    return true;
  const Reach reach = this->reach(sequence);
  const cudaError_t status = cudaEventQuery(reach.milestone->event.get());
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  cuda_check(status, "cudaEventQuery");
  raise_done(reach.sequence);
  return true;
}

void LogicalStream::list_unfinished(std::vector<std::string>& names, std::size_t most) const {
  const std::uint64_t last = issued();
  std::uint64_t first = done() + 1;
  if (last >= k_marks)
    first = std::max(first, last - k_marks + 1);
  for (std::uint64_t i = first; i <= last && names.size() < most; ++i) {
    const Note& note = notes_[i % k_marks];
    const SourceLocation site{note.file.load(), note.line.load(), note.origin.load()};
    const Origin* const origin = Origin::of(site);
    names.push_back(message(
        '"', note.name.load(), "\" (", origin == nullptr ? "" : origin->what() + ", ", site.file, ':', site.line, ')'));
  }
}

LogicalStream& LogicalStreamTable::add(Gpu& gpu, StreamKind kind, int local) {
  const std::lock_guard hold(mutex_);
  const int number = count_.load(std::memory_order_relaxed);
  if (number >= k_max_logical_streams)
    throw ValueError(message("engine: more than ", k_max_logical_streams - 1, " streams of GPUs are not possible"));
  auto* made = new LogicalStream(gpu, kind, static_cast<std::uint16_t>(number), local);
  streams_[static_cast<std::size_t>(number)].store(made, std::memory_order_release);
  count_.store(number + 1, std::memory_order_release);
  return *made;
}

void LogicalStreamTable::clear() noexcept {
  for (auto& stream : streams_)
    delete stream.exchange(nullptr);
}

}  // namespace sluice::detail
