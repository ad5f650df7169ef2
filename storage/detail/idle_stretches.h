#pragma once

#include <algorithm>

#include <sluice/storage/detail/paged_pool.h>

namespace sluice::detail {

inline constexpr PageSource::Page k_no_page = 0;

/// Free, and no work may use it any more.
inline bool PagedPool::is_idle(const Piece& piece) const noexcept {
  return piece.is_free() && (piece.pending.empty() || passage_.passed(piece.pending));
}

/// The whole pages of a piece, behind the `except` bytes from `low` on if it reaches into them.
inline PagedPool::Range PagedPool::whole_pages(
    const Piece& piece, const std::byte* low, std::size_t except) const noexcept {
  const auto end = static_cast<std::size_t>(piece.data + piece.bytes - line_.data) / page_ * page_;
  auto begin = static_cast<std::size_t>(piece.data - line_.data);
  if (piece.data >= low && piece.data < low + except)
    begin = static_cast<std::size_t>(low + except - line_.data);
  begin = pages_in(begin) * page_;
  return {line_.data + begin, end > begin ? end - begin : 0};
}

/// visit(piece, data, bytes) for the whole pages of every idle piece, but for the `except` bytes from `low` on, by
/// address, until it returns false. It may cut the piece.
template <class Visit>
void PagedPool::each_idle_stretch(const std::byte* low, std::size_t except, Visit&& visit) const {
  for (Piece *piece = line_.first, *right; piece != nullptr; piece = right) {
    right = piece->right;
    if (piece->bytes < page_ || !is_idle(*piece))
      continue;
    const Range pages = whole_pages(*piece, low, except);
    if (pages.bytes > 0 && !visit(piece, pages.begin, pages.bytes))
      return;
  }
}

}  // namespace sluice::detail
