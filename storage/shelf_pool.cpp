#include <bit>
#include <limits>

#include <sluice/storage/detail/pending.h>
#include <sluice/storage/detail/shelf_pool.h>

namespace sluice::detail {
namespace {

// A shelf is searched from its newest piece, this far: beyond it, any piece will do.
constexpr int k_search = 16;
constexpr std::size_t k_never = std::numeric_limits<std::size_t>::max();  // idle segments stay until memory runs out

// Sizes of four steps a doubling, counted.
std::size_t step_of(std::size_t granules) noexcept {
  const std::size_t doubling = granules < 8 ? 0 : static_cast<std::size_t>(std::bit_width(granules)) - 3;
  return doubling * 4 + (granules >> doubling);
}

}  // namespace

ShelfPool::ShelfPool(Passage& passage, SizeRule rule, std::unique_ptr<MemorySource> source) noexcept
    : BasePool(passage, "bucket", std::move(source), k_never),
      rule_(rule),
      first_large_(step_of(rule.large_from / rule.smallest)) {}

std::size_t ShelfPool::index_of(std::size_t bytes) const noexcept {
  return bytes <= rule_.large_from ? step_of(bytes / rule_.smallest) : first_large_ + bytes / rule_.large_step;
}

/// Null for a far size that never had a segment.
ShelfPool::Shelf* ShelfPool::shelf_of(std::size_t bytes) noexcept {
  const std::size_t index = index_of(bytes);
  if (index < k_near) [[likely]]
    return &near_[index];
  const auto at = far_.find(bytes);
  return at == far_.end() ? nullptr : &at->second;
}

Piece* ShelfPool::take(std::size_t bytes, const User& user) {
  Shelf* shelf = shelf_of(bytes);
  if (shelf == nullptr)
    shelf = &far_[bytes];  // room for what comes back: release() must not call the heap
  if (shelf->empty())
    return nullptr;
  if (Piece* const newest = shelf->head(); newest->pending.empty()) [[likely]] {
    shelf->erase(newest);
    return newest;
  }
  Piece* piece = best_of(*shelf, user);
  if (piece != nullptr)
    shelf->erase(piece);
  return piece;
}

// Nothing pending, or only on the stream that asks; else passed; else the oldest work that does not hold the user up.
Piece* ShelfPool::best_of(const Shelf& shelf, const User& user) const noexcept {
  Piece* last = nullptr;
  int left = k_search;
  for (Piece* piece = shelf.head(); piece != nullptr && left > 0; piece = piece->next, --left) {
    if (only_before(piece->pending, user.work))
      return piece;
    if (!user.is_held_up(piece->pending, passage_))
      last = piece;
  }
  left = k_search;
  for (Piece* piece = shelf.head(); piece != nullptr && left > 0; piece = piece->next, --left) {
    if (passage_.passed(piece->pending))
      return piece;
  }
  return last;
}

bool ShelfPool::keep(Piece* piece) noexcept {
  shelf_of(piece->bytes)->push_front(piece);
  return true;
}

void ShelfPool::unlink(Piece* piece) noexcept {
  shelf_of(piece->bytes)->erase(piece);
}

DirectPool::DirectPool(
    Passage& passage, std::string_view name, SizeRule rule, std::unique_ptr<MemorySource> source) noexcept
    : BasePool(passage, name, std::move(source), k_never), rule_(rule) {}

bool DirectPool::keep(Piece* piece) noexcept {
  if (piece->pending.empty())
    return false;
  parked_.push_back(piece);
  return true;
}

// From the oldest to the first that a GPU may still touch.
Segment* DirectPool::due() noexcept {
  Segment* chain = nullptr;
  while (!parked_.empty() && passage_.passed(parked_.head()->pending)) {
    Piece* piece = parked_.head();
    parked_.erase(piece);
    chain = remove(piece->segment, chain);
  }
  return chain;
}

}  // namespace sluice::detail
