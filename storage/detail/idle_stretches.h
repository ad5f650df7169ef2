#pragma once

#include <sluice/storage/detail/paged_pool.h>

namespace sluice::detail {

inline constexpr PageSource::Page k_no_page = 0;

/// Free, and no work may use it any more.
inline bool PagedPool::is_idle(const Piece& piece) const noexcept {
  return piece.is_free() && (piece.pending.empty() || passage_.passed(piece.pending));
}

/// visit(piece, data, bytes) for the whole pages of every idle piece that does not begin in the `except` bytes from
/// `low` on, by address, until it returns false. It may cut the piece.
template <class Visit>
void PagedPool::each_idle_stretch(const std::byte* low, std::size_t except, Visit&& visit) const {
  for (Piece *piece = line_.first, *right; piece != nullptr; piece = right) {
    right = piece->right;
    if (piece->bytes < page_ || !is_idle(*piece) || (piece->data >= low && piece->data < low + except))
      continue;
    const auto begin = static_cast<std::size_t>(piece->data - line_.data);
    const std::size_t first = pages_in(begin) * page_, end = (begin + piece->bytes) / page_ * page_;
    if (first < end && !visit(piece, line_.data + first, end - first))
      return;
  }
}

}  // namespace sluice::detail
