// Where a request could lie, and pages made and given back for it. How they move stands in page_moves.cpp.
#include <algorithm>
#include <limits>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/storage/detail/idle_stretches.h>
#include <sluice/storage/detail/paged_pool.h>

namespace sluice::detail {

PagedPool::PagedPool(
    Passage& passage, std::unique_ptr<PageSource> source, std::size_t line, const SplitOptions& options)
    : SplitPool(passage, "paged", std::move(source), options),
      pages_(static_cast<PageSource&>(this->source())),
      page_(pages_.page_bytes()),
      table_(line / page_, k_no_page) {
  Piece* all = pieces_.take();
  line_.data = pages_.reserve(line);
  if (line_.data == nullptr) {
    throw OutOfMemory(
        message("storage: no ", line, " bytes of addresses for the memory of ", pages_.device(), "; try pool split"),
        line);
  }
  line_.bytes = line;
  line_.first = all;
  line_.paged = true;
  all->data = line_.data;
  all->bytes = line;
  all->segment = &line_;
  all->state = Piece::State::absent;
  segments().push_back(&line_);
}

PagedPool::~PagedPool() {
  // As in ~BasePool: what is still on loan stays usable.
  std::size_t next = 0;
  const auto drop_to = [&](std::size_t end) {
    for (; next < end; ++next) {
      if (table_[next] == k_no_page)
        continue;
      pages_.unmap(line_.data + next * page_, 1);
      pages_.destroy(table_[next]);
    }
  };
  for (const Piece* piece = line_.first; piece != nullptr; piece = piece->right) {
    if (!piece->is_live())
      continue;
    drop_to(index_of(piece->data));
    next = index_of(piece->data + piece->bytes - 1) + 1;
  }
  drop_to(table_.size());
  for (const Page page : spare_)
    pages_.destroy(page);
  if (line_.live == 0)
    pages_.unreserve(line_.data, line_.bytes);
  segments().erase(&line_);
}

Piece* PagedPool::grow(Lock& lock, std::size_t size) {
  if (apart(size))
    return SplitPool::grow(lock, size);
  std::unique_lock making(making_, std::defer_lock);  // one at a time: what one makes in vain another may need
  for (;;) {
    const Place place = find_place(size);
    if (place.first == nullptr)
      return nullptr;  // no addresses
    const std::size_t idle = count_idle(place.begin(), size, place.missing);
    const std::size_t fresh = place.missing - idle;
    if (fresh <= spare_.size())
      return move_in(lock, place, size, idle);
    if (!making.owns_lock()) {
      lock.unlock();
      making.lock();
      lock.lock();
    } else if (!make_pages(lock, fresh - spare_.size())) {
      return nullptr;
    }
  }
}

/// The one that lacks the fewest pages; of these the first. Only idle pieces and addresses without memory count.
PagedPool::Place PagedPool::find_place(std::size_t size) noexcept {
  Place best{nullptr, 0, std::numeric_limits<std::size_t>::max()};
  for (Piece* first = line_.first; first != nullptr && best.missing > 0; first = first->right) {
    const bool in_gap = first->state == Piece::State::absent;
    if (!in_gap && !is_idle(*first))
      continue;
    Place place{first, 0, 0};
    std::size_t covered = in_gap ? 0 : first->bytes;
    for (const Piece* piece = first->right; piece != nullptr && covered < size; piece = piece->right) {
      if (piece->state == Piece::State::absent)
        place.missing += pages_in(std::min(piece->bytes, size - covered));
      else if (!is_idle(*piece))
        break;
      covered += piece->bytes;
    }
    if (in_gap && covered < size) {  // as late in it as what lies behind allows
      const std::size_t needed = std::min(pages_in(size - covered) * page_, first->bytes);
      place.skip = covered > 0 ? first->bytes - needed : 0;
      place.missing += needed / page_;
      covered += needed;
    } else if (in_gap) {
      continue;  // the next piece does without it
    }
    if (covered >= size && place.missing < best.missing)
      best = place;
  }
  return best;
}

std::size_t PagedPool::count_idle(const std::byte* low, std::size_t except, std::size_t most) const noexcept {
  std::size_t pages = 0;
  each_idle_stretch(low, except, [&](const Piece*, const std::byte*, std::size_t bytes) {
    pages += bytes / page_;
    return pages < most;
  });
  return std::min(pages, most);
}

/// Into spare_. False if the limit or the system says no.
bool PagedPool::make_pages(Lock& lock, std::size_t count) {
  std::vector<Page> made;
  made.reserve(count);
  if (!expect(count * page_))
    return false;
  lock.unlock();
  try {
    for (bool more = pages_.has(count); more && made.size() < count;) {
      const std::optional<Page> page = pages_.make();
      more = page.has_value();
      if (more)
        made.push_back(*page);
    }
    lock.lock();
    spare_.insert(spare_.end(), made.begin(), made.end());
  } catch (...) {
    if (lock.owns_lock())
      lock.unlock();
    for (const Page page : made)
      pages_.destroy(page);
    lock.lock();
    give_up(count * page_);
    throw;
  }
  give_up((count - made.size()) * page_);
  confirm(made.size() * page_, made.size());
  if (made.size() == count)
    return true;
  drop_spare(lock);
  return false;
}

std::size_t PagedPool::drop_spare(Lock& lock) noexcept {
  if (spare_.empty())
    return 0;
  return destroy(lock, std::exchange(spare_, {}));
}

/// Pages that are nowhere go back to the system; returns their bytes.
std::size_t PagedPool::destroy(Lock& lock, const std::vector<Page>& pages) noexcept {
  const std::size_t bytes = pages.size() * page_;
  begin_return(bytes);
  lock.unlock();
  for (const Page page : pages)
    pages_.destroy(page);
  lock.lock();
  end_return(bytes);
  return bytes;
}

std::size_t PagedPool::returnable(const Piece& piece) const noexcept {
  return piece.segment->paged ? whole_pages(piece, nullptr, 0).bytes : 0;
}

/// Idle pages, whatever lies beside them, after idle segments of small pieces.
std::size_t PagedPool::shrink(Lock& lock, std::size_t wanted) {
  std::size_t bytes = SplitPool::shrink(lock, wanted);
  bytes += drop_spare(lock);
  if (bytes >= wanted)
    return bytes;
  const std::size_t pages = count_idle(nullptr, 0, pages_in(std::min(wanted - bytes, line_.bytes)));
  if (pages == 0)
    return bytes;
  Move move;
  move.from.reserve(pages);
  move.pages.reserve(pages);
  pieces_.ensure(2 * pages);
  set_apart(move, pages, nullptr, 0);
  take_from_table(move);
  begin_return(pages * page_);
  lock.unlock();
  unmap(move.from);
  for (const Page page : move.pages)
    pages_.destroy(page);
  lock.lock();
  for (Piece* piece : move.from)
    make_absent(piece);
  end_return(pages * page_);
  return bytes + pages * page_;
}

}  // namespace sluice::detail
