#include <algorithm>

#include <sluice/engine/cuda/issuer.h>
#include <sluice/engine/cuda/lane.h>
#include <sluice/engine/error.h>

namespace sluice::detail {

using cuda::cuda_check;

void* LaneView::native() {
  issuer_.touch_or_throw();
  return native_;
}
Position LaneView::current_position() {
  issuer_.touch_or_throw();
  issuer_.note_question();
  return place_ ? place_ : lane_.next_position();
}
std::shared_ptr<void>& LaneView::slot(std::size_t id) {
  issuer_.touch_or_throw();
  issuer_.note_question();
  return slots_[id];
}
ErrorWord* LaneView::error_word() {
  issuer_.touch_or_throw();
  issuer_.note_question();
  return lane_.error_word();
}
void LaneView::wait_for(const PositionSet& positions) {
  issuer_.touch_or_throw();
  issuer_.wait_in_body(positions, captures_);
}

Lane::Lane(Issuer& issuer, Device device, StreamKind kind, std::uint16_t number, int local, ErrorWord* error_word)
    : direct(issuer, *this, false),
      captured(issuer, *this, true),
      issuer_(issuer),
      device_(device),
      kind_(kind),
      number_(number),
      local_(local),
      error_word_(error_word) {}

// Library handles go before the streams that they use.
Lane::~Lane() {
  direct.drop_slots();
  captured.drop_slots();
}

Position Lane::issue(const TaskNode& task) noexcept {
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
void Lane::launched(std::uint64_t sequence, Milestone& milestone) noexcept {
  const std::uint64_t count = marked_.load(std::memory_order_relaxed);
  Mark& mark = marks_[count % k_marks];
  mark.milestone.store(&milestone, std::memory_order_release);
  mark.sequence.store(sequence, std::memory_order_release);
  marked_.store(count + 1, std::memory_order_release);
  launched_.store(sequence, std::memory_order_release);
}

// Marks grow with their number; one that is overwritten meanwhile has grown, which the search survives.
Lane::Reach Lane::reach(std::uint64_t sequence) const noexcept {
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

void Lane::raise_done(std::uint64_t sequence) noexcept {
  std::uint64_t known = done_.load(std::memory_order_relaxed);
  while (known < sequence && !done_.compare_exchange_weak(known, sequence, std::memory_order_acq_rel)) {
  }
}

bool Lane::query(std::uint64_t sequence) {
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

void Lane::throw_reported() {
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

void Lane::list_unfinished(std::vector<std::string>& names, std::size_t most) const {
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

Lane& LaneTable::add(Issuer& issuer, Device device, StreamKind kind, int local, ErrorWord* error_word) {
  const std::lock_guard hold(mutex_);
  const int number = count_.load(std::memory_order_relaxed);
  if (number >= k_max_lanes)
    throw ValueError(message("engine: more than ", k_max_lanes - 1, " streams of GPUs are not possible"));
  auto* lane = new Lane(issuer, device, kind, static_cast<std::uint16_t>(number), local, error_word);
  lanes_[static_cast<std::size_t>(number)].store(lane, std::memory_order_release);
  count_.store(number + 1, std::memory_order_release);
  return *lane;
}

void LaneTable::clear() noexcept {
  for (auto& lane : lanes_)
    delete lane.exchange(nullptr);
}

}  // namespace sluice::detail
