// How pages move. Under the lock pieces are set apart and count as live; without it the driver moves the memory; under
// it again the pieces become what they are now. Nodes and room in vectors are there before anything changes.
#include <algorithm>
#include <span>
#include <utility>

#include <sluice/storage/detail/idle_stretches.h>
#include <sluice/storage/detail/paged_pool.h>

namespace sluice::detail {

/// A piece of `size` at `place`, with memory from `idle` idle pages and for the rest from spare_.
Piece* PagedPool::move_in(Lock& lock, const Place& place, std::size_t size, std::size_t idle) {
  Move move;
  move.from.reserve(idle);
  move.pages.reserve(place.missing);
  std::size_t parts = 0;
  for (const Piece* piece = place.first; piece != nullptr && piece->data < place.first->data + size;
       piece = piece->right)
    ++parts;
  move.parts.reserve(parts);
  move.gaps.reserve(parts);
  pieces_.ensure(2 * idle + 2);

  const std::byte* const low = place.first->data;
  set_apart(move, idle, low, size);
  claim(move, place.first, size);
  take_from_table(move);
  const auto fresh = static_cast<std::ptrdiff_t>(place.missing - idle);
  move.pages.insert(move.pages.end(), spare_.end() - fresh, spare_.end());
  spare_.erase(spare_.end() - fresh, spare_.end());

  lock.unlock();
  unmap(move.from);
  try {
    map(move);
  } catch (...) {
    unmap(move.gaps);
    lock.lock();
    undo(lock, move);
    throw;
  }
  lock.lock();
  return join(move, size);
}

/// `pages` pages of idle pieces that do not begin in the `except` bytes from `low` on.
void PagedPool::set_apart(Move& move, std::size_t pages, const std::byte* low, std::size_t except) noexcept {
  each_idle_stretch(low, except, [&](Piece* piece, std::byte* data, std::size_t bytes) {
    if (pages == 0)
      return false;
    const std::size_t taken = std::min(bytes, pages * page_);
    unlink(piece);
    piece->pending.clear();
    Piece* apart = piece;
    if (data > piece->data) {
      apart = cut_off(piece, static_cast<std::size_t>(data - piece->data));
      bins_of(*piece).insert(piece);
    }
    if (apart->bytes > taken) {
      Piece* rest = cut_off(apart, taken);
      bins_of(*rest).insert(rest);  // merged later, lest a piece ends that the visit goes on from
    }
    apart->state = Piece::State::live;
    move.from.push_back(apart);
    pages -= taken / page_;
    return pages > 0;
  });
}

/// What lies behind the first `bytes` of `piece`: free, in no list, nothing pending.
Piece* PagedPool::cut_off(Piece* piece, std::size_t bytes) noexcept {
  Piece* rest = pieces_.take();  // there is one
  rest->pending.clear();
  part(piece, bytes, rest);
  return rest;
}

/// The pieces of the place, the last gap cut to what is needed.
void PagedPool::claim(Move& move, Piece* first, std::size_t size) noexcept {
  std::size_t covered = 0;
  for (Piece* piece = first; covered < size; piece = piece->right) {
    if (piece->is_free()) {
      unlink(piece);
      piece->pending.clear();
    } else {
      const std::size_t needed = pages_in(size - covered) * page_;
      if (piece->bytes > needed)
        cut_off(piece, needed)->state = Piece::State::absent;
      move.gaps.push_back(piece);
    }
    piece->state = Piece::State::live;
    move.parts.push_back(piece);
    covered += piece->bytes;
  }
  move.rest = pieces_.take();
}

/// The parts become one piece of `size`; what is left over is free again.
Piece* PagedPool::join(Move& move, std::size_t size) noexcept {
  for (Piece* piece : move.from)
    make_absent(piece);
  auto page = move.pages.begin();
  for (const Piece* gap : move.gaps) {
    note(MemoryEvent::Kind::segment_in, gap->data, gap->bytes);
    const std::size_t count = gap->bytes / page_;
    std::copy_n(page, count, table_.begin() + static_cast<std::ptrdiff_t>(index_of(gap->data)));
    page += static_cast<std::ptrdiff_t>(count);
  }
  Piece* piece = move.parts.front();
  for (std::size_t i = 1; i < move.parts.size(); ++i)
    absorb(piece, move.parts[i]);
  if (piece->bytes == size) {
    pieces_.give(move.rest);
    return piece;
  }
  move.rest->pending.clear();
  part(piece, size, move.rest);
  keep(move.rest);
  return piece;
}

/// No page could be put there: the place is as before, the pages go back to the system.
void PagedPool::undo(Lock& lock, Move& move) noexcept {
  pieces_.give(move.rest);
  for (Piece* piece : move.from)
    make_absent(piece);
  for (Piece* part : move.parts) {
    if (std::find(move.gaps.begin(), move.gaps.end(), part) == move.gaps.end()) {
      part->state = Piece::State::free;
      keep(part);
    }
  }
  for (Piece* gap : move.gaps)
    make_absent(gap);
  destroy(lock, move.pages);
}

/// Their pages, into move.pages.
void PagedPool::take_from_table(Move& move) noexcept {
  for (const Piece* piece : move.from) {
    note(MemoryEvent::Kind::segment_out, piece->data, piece->bytes);
    const std::size_t first = index_of(piece->data);
    for (std::size_t i = first; i < first + piece->bytes / page_; ++i)
      move.pages.push_back(std::exchange(table_[i], k_no_page));
  }
}

void PagedPool::unmap(const std::vector<Piece*>& pieces) noexcept {
  for (const Piece* piece : pieces)
    pages_.unmap(piece->data, piece->bytes / page_);
}

void PagedPool::map(const Move& move) {
  std::span<const Page> pages(move.pages);
  for (const Piece* gap : move.gaps) {
    const std::size_t count = gap->bytes / page_;
    pages_.map(gap->data, pages.first(count));
    pages = pages.subspan(count);
  }
}

/// Addresses without memory, one piece with such neighbours.
void PagedPool::make_absent(Piece* piece) noexcept {
  piece->state = Piece::State::absent;
  if (Piece* right = piece->right; right != nullptr && right->state == Piece::State::absent)
    absorb(piece, right);
  if (Piece* left = piece->left; left != nullptr && left->state == Piece::State::absent)
    absorb(left, piece);
}

}  // namespace sluice::detail
