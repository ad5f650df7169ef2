// What happens when no free piece fits: a new segment, and the ladder when there is none to be had.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>

#include <sluice/storage/detail/base_pool.h>
#include <sluice/storage/detail/pending.h>

namespace sluice::detail {

/// How often and how long it is worth waiting: others may finish tasks without end that hold nothing of use.
class BasePool::Patience {
 public:
  explicit Patience(const Passage& passage)
      : tasks_(passage.live_tasks()), end_(std::chrono::steady_clock::now() + passage.longest_wait()) {}

  bool lasts() {
    if (tasks_ == 0)
      return std::chrono::steady_clock::now() < end_;
    --tasks_;
    return true;
  }

  std::uint64_t newest = std::numeric_limits<std::uint64_t>::max();  // of the pieces that are waited for: its stamp
  bool last_return = false;                                          // of memory has been waited for

 private:
  std::uint64_t tasks_;
  std::chrono::steady_clock::time_point end_;
};

// A program that pushes far ahead holds memory for all that is still to run: beyond this much, growing waits a little
// for what is under way.
bool BasePool::wants_patience(std::size_t size) const noexcept {
  constexpr std::uint64_t k_much = std::uint64_t{8} << 30;
  return source_->kind() == MemoryKind::device && stats_.reserved + size > std::max(k_much, stats_.peak_reserved / 2);
}

// Beyond the limit only what was got before it was set has room.
bool BasePool::may_ever_fit(std::size_t size) const noexcept {
  return size <= std::numeric_limits<std::size_t>::max() / 4 &&
         (limit_ == 0 || size <= std::max<std::uint64_t>(limit_, stats_.reserved));
}

/// Nothing is free for `user` as it stands.
Piece* BasePool::find(Lock& lock, std::size_t bytes, std::size_t size, User user) {
  constexpr int k_patience = 256;  // tasks that may finish before a large pool grows all the same
  if (!wants_patience(size)) {
    if (Piece* piece = spare(lock, size, user))
      return piece;
  }
  user.patient = true;
  tidy(Merging::own, user);
  Piece* piece = take(size, user);
  bool progress = true;
  for (int looks = 0; piece == nullptr && progress && looks < k_patience && wants_patience(size); ++looks) {
    lock.unlock();
    progress = passage_.await_task();
    lock.lock();
    tidy(Merging::own, user);
    piece = take(size, user);
  }
  return piece != nullptr ? piece : climb(lock, bytes, size, user);
}

// As much more than is in use may be reserved for users that would be held up: three chunks of the size asked for, a
// copy in, a computation and a copy out beside each other, or an eighth of everything.
Piece* BasePool::spare(Lock& lock, std::size_t size, const User& user) {
  tidy(Merging::own, user);
  give_back(lock, due());
  if (Piece* piece = take(size, user))
    return piece;
  const std::size_t room = std::max<std::size_t>(3 * size, stats_.active / 8);
  return stats_.reserved <= stats_.active + room ? grow(lock, size) : nullptr;
}

/// Never returns null: throws OutOfMemory on the last rung.
Piece* BasePool::climb(Lock& lock, std::size_t bytes, std::size_t size, const User& user) {
  constexpr std::size_t k_all = std::numeric_limits<std::size_t>::max();
  if (may_ever_fit(size)) {
    const auto attempt = [&] {
      tidy(Merging::all, user);
      give_back(lock, due());
      Piece* piece = take(size, user);
      return piece != nullptr ? piece : grow(lock, size);
    };
    if (Piece* piece = attempt())
      return piece;
    // Everybody's caches, then the work that has been pending for longest, one after another.
    ++stats_.trims;
    Patience patience(passage_);
    bool progress = false;
    do {
      shrink(lock, k_all);
      lock.unlock();
      source_->trim();
      passage_.relieve(source_->device());
      progress = passage_.await_task();
      lock.lock();
      if (Piece* piece = attempt()) {
        ++stats_.retries;
        return piece;
      }
    } while (waits_again(lock, patience, progress));
  }
  ++stats_.out_of_memory;
  note(MemoryEvent::Kind::out_of_memory, nullptr, size, bytes);
  lock.unlock();
  throw_out_of_memory(bytes, size);
}

// Once patience has ended, work that is pending by then is waited for still, and memory that is on its way.
bool BasePool::waits_again(Lock& lock, Patience& patience, bool progress) {
  if (patience.lasts())
    return progress || wait_for_oldest(lock, patience.newest) || wait_for_return(lock);
  patience.newest = std::min(patience.newest, stamp_);
  return wait_for_oldest(lock, patience.newest) ||
         (!std::exchange(patience.last_return, true) && wait_for_return(lock));
}

/// False if nothing is pending that waiting could free, in pieces that came back no later than the one of that stamp.
bool BasePool::wait_for_oldest(Lock& lock, std::uint64_t newest) {
  const Piece* oldest = oldest_pending();
  if (oldest == nullptr || oldest->stamp > newest)
    return false;
  const PositionSet waited = oldest->pending;
  lock.unlock();
  passage_.wait_passed(waited);
  lock.lock();
  forget_waited(waited);  // whatever the hint says
  return true;
}

/// False if nobody is giving memory back.
bool BasePool::wait_for_return(Lock& lock) {
  const std::size_t before = returning_;
  if (before == 0)
    return false;
  while (returning_ == before) {
    const int seen = returns_.load();
    lock.unlock();
    returns_.wait(seen);
    lock.lock();
  }
  return true;
}

const Piece* BasePool::oldest_pending() const noexcept {
  const Piece* oldest = nullptr;
  for (const Segment* segment = segments_.head(); segment != nullptr; segment = segment->next) {
    for (const Piece* piece = segment->first; piece != nullptr; piece = piece->right) {
      if (piece->is_free() && !piece->pending.empty() && (oldest == nullptr || piece->stamp < oldest->stamp))
        oldest = piece;
    }
  }
  return oldest;
}

void BasePool::forget_waited(const PositionSet& waited) noexcept {
  for (const Segment* segment = segments_.head(); segment != nullptr; segment = segment->next) {
    for (Piece* piece = segment->first; piece != nullptr; piece = piece->right) {
      if (piece->is_free())
        drop_waited(piece->pending, waited);
    }
  }
}

/// A piece of a new segment; null if the system or the limit says no.
Piece* BasePool::grow(Lock& lock, std::size_t size) {
  const std::size_t best = segment_bytes(size, false), least = segment_bytes(size, true);
  const auto beyond = [&](std::size_t segment) -> std::size_t {
    const std::size_t most = std::max<std::size_t>(stats_.peak_reserved, release_threshold_);
    return stats_.reserved + segment > most ? stats_.reserved + segment - most : 0;
  };
  // Rather than reach a new peak, idle segments go: they were too small for this request, or in pieces.
  if (const std::size_t wanted = beyond(best); wanted > 0)
    give_back(lock, collect_idle(wanted));
  Piece* piece = grow_to(lock, size, best);
  return piece != nullptr || least == best ? piece : grow_to(lock, size, least);
}

Piece* BasePool::grow_to(Lock& lock, std::size_t size, std::size_t bytes) {
  Segment* segment = segment_nodes_.take();
  if (!expect(bytes)) {
    segment_nodes_.give(segment);
    return nullptr;
  }
  Piece* piece = nullptr;
  void* data = nullptr;
  try {
    piece = pieces_.take();
    lock.unlock();
    data = source_->allocate(bytes);
    lock.lock();
    pieces_.ensure(1);  // for cut()
  } catch (...) {
    if (!lock.owns_lock())
      lock.lock();
    if (data != nullptr)
      source_->deallocate(data);
    give_up(bytes);
    segment_nodes_.give(segment);
    if (piece != nullptr)
      pieces_.give(piece);
    throw;
  }
  if (data == nullptr) {
    give_up(bytes);
    segment_nodes_.give(segment);
    pieces_.give(piece);
    return nullptr;
  }
  segment->bytes = bytes;
  segment->small = apart(size);
  add_segment(segment, piece, data);
  return cut(piece, size);
}

}  // namespace sluice::detail
