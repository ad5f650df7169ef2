// How pages move. Under the lock pieces are set apart and count as live; without it the driver moves the memory; under
// it again the pieces become what they are now. Nodes and room in vectors are there before anything changes.
#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include <sluice/storage/detail/idle_stretches.h>
#include <sluice/storage/detail/paged_pool.h>

namespace sluice::detail {

/// A piece of `size` at `place`, with memory from `idle` idle pages and for the rest from spare_; null if there is no
/// memory to put them there.
Piece* PagedPool::move_in(Lock& lock, const Place& place, std::size_t size, std::size_t idle) {
  Move move;
  move.from.reserve(idle);
  move.pages.reserve(place.missing);
  std::size_t parts = 0;
  for (const Piece* piece = place.first; piece != nullptr && piece->data < place.begin() + size; piece = piece->right)
    ++parts;
  move.parts.reserve(parts);
  move.gaps.reserve(parts);
  pieces_.ensure(2 * idle + 4);

  set_apart(move, idle, place.begin(), size);
  claim(move, place, size);
  take_from_table(move);
  const auto fresh = static_cast<std::ptrdiff_t>(place.missing - idle);
  move.pages.insert(move.pages.end(), spare_.end() - fresh, spare_.end());
  spare_.erase(spare_.end() - fresh, spare_.end());

  lock.unlock();
  unmap(move.from);
  bool there = false;
  std::exception_ptr error;
  try {
    there = map(move);
  } catch (...) {
    error = std::current_exception();
  }
  if (!there)
    unmap(move.gaps);
  lock.lock();
  if (there)
    return join(move, size);
  undo(lock, move);
  if (error != nullptr)
    std::rethrow_exception(error);
  return nullptr;
}

/// `pages` pages of idle pieces, but for the `except` bytes from `low` on.
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

/// The pieces of the place, the first and the last cut to what is needed.
void PagedPool::claim(Move& move, const Place& place, std::size_t size) noexcept {
  std::size_t covered = 0;
  Piece* piece = place.first;
  if (place.skip > 0) {
    piece = cut_off(piece, place.skip);
    piece->state = Piece::State::absent;
  }
  for (; covered < size; piece = piece->right) {
    const bool in_gap = piece->state == Piece::State::absent;
    const std::size_t needed = in_gap ? pages_in(size - covered) * page_ : size - covered;
    if (!in_gap) {
      unlink(piece);
      piece->pending.clear();
    }
    if (piece->bytes > needed) {
      Piece* rest = cut_off(piece, needed);
      if (in_gap)
        rest->state = Piece::State::absent;
      else
        bins_of(*rest).insert(rest);
    }
    if (in_gap)
      move.gaps.push_back(piece);
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

/// False when memory for it has run out.
bool PagedPool::map(const Move& move) {
  std::span<const Page> pages(move.pages);
  for (const Piece* gap : move.gaps) {
    const std::size_t count = gap->bytes / page_;
    if (!pages_.map(gap->data, pages.first(count)))
      return false;
    pages = pages.subspan(count);
  }
  return true;
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
