// What all pools share. The way up when memory runs out stands in climb.cpp, what people read in out_of_memory.cpp and
// snapshot.cpp.
#include <algorithm>
#include <limits>

#include <sluice/storage/detail/base_pool.h>
#include <sluice/storage/detail/pending.h>

namespace sluice::detail {

BasePool::BasePool(
    Passage& passage,
    std::string_view name,
    std::unique_ptr<MemorySource> source,
    std::size_t release_threshold) noexcept
    : passage_(passage),
      name_(name),
      source_(std::move(source)),
      release_threshold_(release_threshold),
      forks_(this, [](void* pool, ForkMoment moment) noexcept { static_cast<BasePool*>(pool)->at_fork(moment); }) {}

void BasePool::at_fork(ForkMoment moment) noexcept {
  if (moment == ForkMoment::before)
    return mutex_.lock();
  if (moment == ForkMoment::in_child) {  // threads that are not here were getting memory, or giving it back
    stats_.reserved -= expected_ + returning_;
    expected_ = returning_ = 0;
  }
  mutex_.unlock();
}

BasePool::~BasePool() {
  // The engine drained its streams before it ended; what is still on loan stays usable.
  for (const Segment* segment = segments_.head(); segment != nullptr; segment = segment->next) {
    if (segment->live == 0 && !segment->paged)
      source_->deallocate(segment->data);
  }
}

inline void BasePool::book(Piece* piece, std::size_t bytes) noexcept {
  piece->state = Piece::State::live;
  piece->requested = bytes;
  ++piece->segment->live;
  MemoryClassStats& part = piece->bytes <= k_small_most ? stats_.small : stats_.large;
  part.allocated += bytes;
  part.active += piece->bytes;
  ++part.allocations;
  stats_.allocated += bytes;
  stats_.active += piece->bytes;
  if (stats_.allocated > stats_.peak_allocated) [[unlikely]]
    stats_.peak_allocated = stats_.allocated;
  if (stats_.active > stats_.peak_active) [[unlikely]]
    stats_.peak_active = stats_.active;
  note(MemoryEvent::Kind::acquire, piece->data, piece->bytes, bytes);
}

Chunk BasePool::acquire(std::size_t bytes, WorkPlace work, ChunkUse use) {
  Chunk chunk{.device = source_->device(), .kind = source_->kind(), .pool = this};
  if (bytes == 0) [[unlikely]]
    return chunk;
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / 4;
  const std::size_t size = bytes > most ? bytes : round(bytes);
  Lock lock(mutex_);
  const User user{.work = work, .use = use};
  Piece* piece = bytes > most ? nullptr : take(size, user);
  if (piece == nullptr) [[unlikely]]
    piece = may_ever_fit(size) ? find(lock, bytes, size, user) : climb(lock, bytes, size, user);
  book(piece, bytes);
  chunk.data = piece->data;
  chunk.bytes = piece->bytes;
  chunk.requested = bytes;
  chunk.token = piece;
  if (!piece->pending.empty()) {
    if (passage_.passed(piece->pending))
      piece->pending.clear();
    else
      take_pending(chunk.pending, piece->pending);
  }
  return chunk;
}

void BasePool::release(Chunk&& chunk) noexcept {
  Piece* piece = static_cast<Piece*>(chunk.token);
  chunk.data = nullptr;
  chunk.bytes = chunk.requested = 0;
  chunk.pool = nullptr;
  chunk.token = nullptr;
  if (piece == nullptr)
    return;
  Lock lock(mutex_);
  note(MemoryEvent::Kind::release, piece->data, piece->bytes, piece->requested);
  MemoryClassStats& part = piece->bytes <= k_small_most ? stats_.small : stats_.large;
  part.allocated -= piece->requested;
  part.active -= piece->bytes;
  ++part.releases;
  stats_.allocated -= piece->requested;
  stats_.active -= piece->bytes;
  piece->state = Piece::State::free;
  piece->requested = 0;
  if (!chunk.pending.empty())
    keep_pending(piece->pending, chunk.pending);
  piece->stamp = ++stamp_;
  Segment* segment = piece->segment;
  --segment->live;
  if (keep(piece))
    return;
  give_back(lock, remove(segment, nullptr));
}

std::size_t BasePool::trim() {
  Lock lock(mutex_);
  tidy(Merging::idle, {});
  const std::size_t bytes = shrink(lock, std::numeric_limits<std::size_t>::max());
  lock.unlock();
  return bytes + source_->trim();
}

// -- Segments --

bool BasePool::is_idle(const Segment& segment) const noexcept {
  if (segment.live != 0 || segment.paged)
    return false;
  for (const Piece* piece = segment.first; piece != nullptr; piece = piece->right) {
    if (!piece->pending.empty() && !passage_.passed(piece->pending))
      return false;
  }
  return true;
}

/// Idle segments of `wanted` bytes or a little more, oldest first, as a chain that belongs to nobody any more.
Segment* BasePool::collect_idle(std::size_t wanted) noexcept {
  Segment* chain = nullptr;
  for (Segment* segment = segments_.head(); segment != nullptr && wanted > 0;) {
    Segment* const next = segment->next;
    if (is_idle(*segment)) {
      wanted -= std::min(wanted, segment->bytes);
      for (Piece* piece = segment->first; piece != nullptr; piece = piece->right)
        unlink(piece);
      chain = remove(segment, chain);
    }
    segment = next;
  }
  return chain;
}

std::size_t BasePool::shrink(Lock& lock, std::size_t wanted) {
  return give_back(lock, collect_idle(wanted));
}

Segment* BasePool::remove(Segment* segment, Segment* chain) noexcept {
  segments_.erase(segment);
  note(MemoryEvent::Kind::segment_out, segment->data, segment->bytes);
  segment->next = chain;
  return segment;
}

/// Returns the chain's bytes. They count as reserved until the system has them.
std::size_t BasePool::give_back(Lock& lock, Segment* segments) noexcept {
  if (segments == nullptr)
    return 0;
  std::size_t bytes = 0;
  for (const Segment* segment = segments; segment != nullptr; segment = segment->next)
    bytes += segment->bytes;
  begin_return(bytes);
  lock.unlock();
  for (const Segment* segment = segments; segment != nullptr; segment = segment->next)
    source_->deallocate(segment->data);
  lock.lock();
  while (segments != nullptr) {
    Segment* const next = segments->next;
    for (Piece* piece = segments->first; piece != nullptr;) {
      Piece* const right = piece->right;
      pieces_.give(piece);
      piece = right;
    }
    segment_nodes_.give(segments);
    segments = next;
  }
  end_return(bytes);
  return bytes;
}

void BasePool::add_segment(Segment* segment, Piece* piece, void* data) noexcept {
  segment->data = static_cast<std::byte*>(data);
  segment->first = piece;
  segment->live = 0;
  piece->data = segment->data;
  piece->bytes = segment->bytes;
  piece->segment = segment;
  piece->left = piece->right = nullptr;
  piece->pending.clear();
  piece->state = Piece::State::free;
  piece->stamp = 0;
  segments_.push_back(segment);
  confirm(segment->bytes, 1);
  note(MemoryEvent::Kind::segment_in, data, segment->bytes);
}

bool BasePool::expect(std::size_t bytes) noexcept {
  if (limit_ != 0 && (bytes > limit_ || stats_.reserved > limit_ - bytes))
    return false;
  stats_.reserved += bytes;
  expected_ += bytes;
  return true;
}

void BasePool::confirm(std::size_t bytes, std::size_t calls) noexcept {
  expected_ -= bytes;
  stats_.source_allocations += calls;
  stats_.peak_reserved = std::max<std::uint64_t>(stats_.peak_reserved, stats_.reserved - expected_);
}

void BasePool::give_up(std::size_t bytes) noexcept {
  stats_.reserved -= bytes;
  expected_ -= bytes;
}

void BasePool::end_return(std::size_t bytes) noexcept {
  stats_.reserved -= bytes;
  returning_ -= bytes;
  returns_.fetch_add(1);
  returns_.notify_all();
}

// -- Settings --

void BasePool::reset_peaks() {
  const std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_active = stats_.active;
  stats_.peak_reserved = stats_.reserved;
}

void BasePool::set_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

void BasePool::record_history(std::size_t events) {
  const std::lock_guard lock(mutex_);
  history_.resize(events);
}

}  // namespace sluice::detail
