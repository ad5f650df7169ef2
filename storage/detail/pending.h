#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include <sluice/storage/detail/passage.h>
#include <sluice/storage/pool.h>

namespace sluice::detail {

/// Streams that a free piece may be pending on and still be merged: as many as a PositionSet holds without the heap.
inline constexpr std::size_t k_most_pending = 4;

/// Nothing pending, or only what the work that asks is behind anyway.
inline bool only_before(const PositionSet& pending, WorkPlace work) noexcept {
  return std::all_of(pending.begin(), pending.end(), [work](Position position) { return work.is_behind(position); });
}

/// Who asks for a piece, and what of it holds them up.
struct User {
  WorkPlace work;
  ChunkUse use = ChunkUse::compute;
  bool patient = false;  // takes what holds it up too

  /// Work that may last long beside this user's is still to be done with the piece.
  bool is_held_up(const PositionSet& pending, const Passage& passage) const noexcept {
    return !patient && !only_before(pending, work) && !passage.passed(pending) && is_held_up_by_open(pending, passage);
  }
  /// The same, of work that is known to be neither only_before(work) nor passed.
  bool is_held_up_by_open(const PositionSet& pending, const Passage& passage) const noexcept {
    if (patient)
      return false;
    return use == ChunkUse::copy_target || std::any_of(pending.begin(), pending.end(), [&](Position position) {
             return passage.copies(position) && !passage.passed(position);
           });
  }
};

/// Positions of `a` and `b` together, one a stream.
inline std::size_t union_size(const PositionSet& a, const PositionSet& b) noexcept {
  std::size_t size = a.size();
  for (const Position position : b) {
    if (std::none_of(a.begin(), a.end(), [&](Position held) { return held.stream() == position.stream(); }))
      ++size;
  }
  return size;
}

/// Moves all of `from`, which belongs to a piece, into `to`. A PositionSet that was moved from may have no room left,
/// not even for one position; those of pieces always have room for k_most_pending.
inline void take_pending(PositionSet& to, PositionSet& from) {
  if (from.size() <= k_most_pending) {
    to = from;
    from.clear();
    return;
  }
  to = std::move(from);
  std::destroy_at(&from);
  std::construct_at(&from);
}

/// The other way, without the heap.
inline void keep_pending(PositionSet& to, PositionSet& from) noexcept {
  if (from.size() <= k_most_pending) {
    to = from;
  } else {
    to = std::move(from);
  }
  from.clear();
}

/// True if what waits for both can be one set.
inline bool mergeable(const PositionSet& a, const PositionSet& b) noexcept {
  return (a.empty() && b.empty()) || union_size(a, b) <= k_most_pending;
}

/// Takes away what the GPU has passed.
inline void drop_passed(PositionSet& pending, const Passage& passage) noexcept {
  if (pending.empty())
    return;
  if (passage.passed(pending))
    return pending.clear();
  if (pending.size() > k_most_pending)
    return;  // the rest would need the heap
  PositionSet left;
  for (const Position position : pending) {
    if (!passage.passed(position))
      left.add(position);
  }
  pending = left;
}

/// Takes away what `waited` covers.
inline void drop_waited(PositionSet& pending, const PositionSet& waited) noexcept {
  const bool covered = std::all_of(pending.begin(), pending.end(), [&](Position position) {
    return std::any_of(waited.begin(), waited.end(), [&](Position passed) {
      return passed.stream() == position.stream() && passed.sequence() >= position.sequence();
    });
  });
  if (covered)
    pending.clear();
}

}  // namespace sluice::detail
