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
  std::vector<bool> used(table_.size());
  for (const Piece* piece = line_.first; piece != nullptr; piece = piece->right) {
    for (std::size_t i = index_of(piece->data); piece->is_live() && i <= index_of(piece->data + piece->bytes - 1); ++i)
      used[i] = true;
  }
  for (std::size_t i = 0; i < table_.size(); ++i) {
    if (table_[i] == k_no_page || used[i])
      continue;
    pages_.unmap(line_.data + i * page_, 1);
    pages_.destroy(table_[i]);
  }
  for (const Page page : spare_)
    pages_.destroy(page);
  if (line_.live == 0)
    pages_.unreserve(line_.data, line_.bytes);
  segments().erase(&line_);
}

Piece* PagedPool::grow(Lock& lock, std::size_t size) {
  if (apart(size))
    return SplitPool::grow(lock, size);
  for (;;) {
    const Place place = find_place(size);
    if (place.first == nullptr)
      return nullptr;  // no addresses
    const std::size_t idle = count_idle(place.first->data, size, place.missing);
    const std::size_t fresh = place.missing - idle;
    if (fresh <= spare_.size())
      return move_in(lock, place, size, idle);
    if (!make_pages(lock, fresh - spare_.size()))
      return nullptr;
  }
}

/// The one that lacks the fewest pages; of these the first. Only idle pieces and addresses without memory count.
PagedPool::Place PagedPool::find_place(std::size_t size) noexcept {
  Place best{nullptr, std::numeric_limits<std::size_t>::max()};
  for (Piece* first = line_.first; first != nullptr && best.missing > 0; first = first->right) {
    std::size_t covered = 0, missing = 0;
    for (const Piece* piece = first; piece != nullptr && covered < size && missing < best.missing;
         piece = piece->right) {
      if (piece->state == Piece::State::absent)
        missing += pages_in(std::min(piece->bytes, size - covered));
      else if (!is_idle(*piece))
        break;
      covered += piece->bytes;
    }
    if (covered >= size && missing < best.missing)
      best = {first, missing};
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
  if (!add_reserved(count * page_, count))
    return false;
  lock.unlock();
  try {
    for (bool more = true; more && made.size() < count;) {
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
    drop_reserved(count * page_);
    throw;
  }
  drop_reserved((count - made.size()) * page_);
  if (made.size() == count) {
    confirm_reserved();
    return true;
  }
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
  lock.unlock();
  for (const Page page : pages)
    pages_.destroy(page);
  lock.lock();
  drop_reserved(pages.size() * page_);
  return pages.size() * page_;
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
  lock.unlock();
  unmap(move.from);
  lock.lock();
  for (Piece* piece : move.from)
    make_absent(piece);
  return bytes + destroy(lock, move.pages);
}

}  // namespace sluice::detail
