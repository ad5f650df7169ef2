#include <algorithm>

#include <sluice/storage/detail/pending.h>
#include <sluice/storage/detail/split_pool.h>

namespace sluice::detail {
namespace {

// Pieces of a list that are looked at: a list holds sizes that differ by a sixteenth.
constexpr int k_look = 8, k_look_patiently = 256;

std::size_t up(std::size_t bytes, std::size_t step) noexcept {
  return (bytes + step - 1) / step * step;
}

/// Sparing the work that an empty one needs none of.
void copy_pending(PositionSet& to, const PositionSet& from) {
  if (!from.empty())
    to = from;
  else if (!to.empty())
    to.clear();
}

bool is_smaller(const Piece& a, const Piece& b) noexcept {
  return a.bytes < b.bytes || (a.bytes == b.bytes && a.data < b.data);
}

/// The best of the first pieces of a list: one that may be used at once; of these the smallest.
struct Choice {
  Piece* piece = nullptr;
  bool ready = false;

  /// `by_age`: of those that have to be waited for the one that came back first, whose work is done first.
  void look(Piece* head, std::size_t bytes, const User& user, const Passage& passage, bool by_age) noexcept {
    int left = by_age ? k_look_patiently : k_look;
    for (Piece* each = head; each != nullptr && left > 0; each = each->next, --left) {
      if (each->bytes < bytes)
        continue;
      const bool fits_better =
          piece == nullptr || (by_age && !ready ? each->stamp < piece->stamp : is_smaller(*each, *piece));
      if (ready && !fits_better)
        continue;
      const bool now = only_before(each->pending, user.work) || passage.passed(each->pending);
      if (!now && (ready || !fits_better || user.is_held_up_by_open(each->pending, passage)))
        continue;
      piece = each;
      ready = now;
    }
  }
};

}  // namespace

SplitPool::SplitPool(Passage& passage, std::unique_ptr<MemorySource> source, const SplitOptions& options)
    : SplitPool(passage, "split", std::move(source), options) {}

SplitPool::SplitPool(
    Passage& passage, std::string_view name, std::unique_ptr<MemorySource> source, const SplitOptions& options) noexcept
    : BasePool(passage, name, std::move(source), options.release_threshold),
      options_(options),
      granule_(std::max<std::size_t>(alignment(), 256)),
      small_(granule_),
      large_(granule_) {}

std::size_t SplitPool::round(std::size_t bytes) const noexcept {
  return up(bytes, granule_);
}

std::size_t SplitPool::segment_bytes(std::size_t bytes, bool least) const noexcept {
  if (apart(bytes))
    return std::max(up(bytes, options_.page), options_.small_segment);
  return least ? up(bytes, options_.page) : std::max(up(bytes, options_.page), options_.large_segment);
}

Piece* SplitPool::take(std::size_t bytes, const User& user) {
  Bins& bins = apart(bytes) ? small_ : large_;
  Piece* piece = find(bins, bytes, user);
  if (piece == nullptr)
    return nullptr;
  if (piece->bytes == bytes) {
    bins.erase(piece);
    return piece;
  }
  if (!piece->pending.empty() && passage_.passed(piece->pending))
    piece->pending.clear();  // rather than copy it
  Piece* rest = pieces_.take();
  try {
    copy_pending(rest->pending, piece->pending);
  } catch (...) {
    pieces_.give(rest);
    throw;  // nothing has changed yet
  }
  bins.erase(piece);
  return split(piece, bytes, rest);
}

Piece* SplitPool::find(const Bins& bins, std::size_t bytes, const User& user) const noexcept {
  Choice choice;
  const std::uint32_t own = bins.bin_of(bytes);
  choice.look(bins.head(own), bytes, user, passage_, user.patient);
  if (choice.ready)
    return choice.piece;
  // Larger ones; two lists, lest a piece that needs a stream wait is taken where the next would not.
  std::uint32_t bin = bins.next_after(own);
  for (int lists = 0; lists < 2 && bin != Bins::k_none && !choice.ready; ++lists, bin = bins.next_after(bin))
    choice.look(bins.head(bin), bytes, user, passage_, false);
  return choice.piece;
}

Piece* SplitPool::cut(Piece* piece, std::size_t bytes) {
  if (piece->bytes == bytes)
    return piece;
  Piece* rest = pieces_.take();
  rest->pending.clear();
  return split(piece, bytes, rest);
}

Piece* SplitPool::split(Piece* piece, std::size_t bytes, Piece* rest) noexcept {
  part(piece, bytes, rest);
  bins_of(*rest).insert(rest);
  return piece;
}

void SplitPool::part(Piece* piece, std::size_t bytes, Piece* rest) noexcept {
  rest->data = piece->data + bytes;
  rest->bytes = piece->bytes - bytes;
  rest->segment = piece->segment;
  rest->stamp = piece->stamp;
  rest->requested = 0;
  rest->state = Piece::State::free;
  rest->left = piece;
  rest->right = piece->right;
  if (rest->right != nullptr)
    rest->right->left = rest;
  piece->right = rest;
  piece->bytes = bytes;
}

bool SplitPool::keep(Piece* piece) noexcept {
  piece = merge(piece);
  bins_of(*piece).insert(piece);
  return true;
}

void SplitPool::unlink(Piece* piece) noexcept {
  bins_of(*piece).erase(piece);
}

/// `piece`, in no list, with its free neighbours, which leave theirs.
Piece* SplitPool::merge(Piece* piece) noexcept {
  Bins& bins = bins_of(*piece);
  if (Piece* right = piece->right;
      right != nullptr && right->is_free() && may_merge(*piece, *right, Merging::idle, {})) {
    bins.erase(right);
    absorb(piece, right);
  }
  if (Piece* left = piece->left; left != nullptr && left->is_free() && may_merge(*left, *piece, Merging::idle, {})) {
    bins.erase(left);
    absorb(left, piece);
    piece = left;
  }
  return piece;
}

bool SplitPool::may_merge(const Piece& a, const Piece& b, Merging what, const User& user) const noexcept {
  if (options_.merge_pending || what == Merging::all)
    return mergeable(a.pending, b.pending);
  if (what == Merging::own)
    return only_before(a.pending, user.work) && only_before(b.pending, user.work);
  return a.pending.empty() && b.pending.empty();
}

void SplitPool::absorb(Piece* piece, Piece* right) noexcept {
  piece->bytes += right->bytes;
  piece->right = right->right;
  if (piece->right != nullptr)
    piece->right->left = piece;
  if (!right->pending.empty())
    piece->pending.add(right->pending);  // within what it holds without the heap
  piece->stamp = std::max(piece->stamp, right->stamp);
  pieces_.give(right);
}

void SplitPool::tidy(Merging what, const User& user) noexcept {
  for (Segment* segment = segments().head(); segment != nullptr; segment = segment->next) {
    for (Piece* piece = segment->first; piece != nullptr; piece = piece->right) {
      if (piece->is_free())
        drop_passed(piece->pending, passage_);
    }
    for (Piece* piece = segment->first; piece != nullptr;) {
      Piece* const right = piece->right;
      if (!piece->is_free() || right == nullptr || !right->is_free() || !may_merge(*piece, *right, what, user)) {
        piece = right;
        continue;
      }
      Bins& bins = bins_of(*piece);
      bins.erase(right);
      bins.erase(piece);
      absorb(piece, right);
      bins.insert(piece);
    }
  }
}

}  // namespace sluice::detail
