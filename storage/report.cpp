// What a pool says of itself: statistics, a snapshot, and the text of OutOfMemory.
#include <algorithm>
#include <array>
#include <bit>
#include <iomanip>
#include <sstream>

#include <sluice/engine/error.h>
#include <sluice/storage/detail/base_pool.h>
#include <sluice/storage/detail/text.h>

namespace sluice::detail {
namespace {

MemoryBlock block_of(const Piece& piece, const Passage& passage) {
  MemoryBlock block{
      .address = reinterpret_cast<std::uintptr_t>(piece.data), .bytes = piece.bytes, .requested = piece.requested};
  if (piece.is_live()) {
    block.state = MemoryBlock::State::live;
    return block;
  }
  if (!piece.pending.empty() && !passage.passed(piece.pending)) {
    block.state = MemoryBlock::State::pending;
    block.pending.assign(piece.pending.begin(), piece.pending.end());
  }
  return block;
}

bool has_memory(const Piece* piece) noexcept {
  return piece != nullptr && piece->state != Piece::State::absent;
}

/// `piece` or the first one on its right that has memory: a segment of pages has gaps.
const Piece* begin_of_stretch(const Piece* piece) noexcept {
  while (piece != nullptr && !has_memory(piece))
    piece = piece->right;
  return piece;
}

struct Row {
  std::size_t held = 0, held_bytes = 0, cached = 0, cached_bytes = 0;
};

}  // namespace

MemoryStats BasePool::stats() const {
  const Lock lock(mutex_);
  return stats_now();
}

MemoryStats BasePool::stats_now() const {
  MemoryStats stats = stats_;
  stats.small.live = stats.small.allocations - stats.small.releases;
  stats.large.live = stats.large.allocations - stats.large.releases;
  stats.allocations = stats.small.allocations + stats.large.allocations;
  stats.releases = stats.small.releases + stats.large.releases;
  stats.reserved += source_->kept();
  stats.peak_reserved = std::max(stats.peak_reserved, stats.reserved);
  for (const Segment* segment = segments_.head(); segment != nullptr; segment = segment->next) {
    for (const Piece* piece = begin_of_stretch(segment->first); piece != nullptr; piece = begin_of_stretch(piece)) {
      ++stats.segments;
      std::size_t unused = 0;
      bool used = false;
      for (; has_memory(piece); piece = piece->right) {
        used |= piece->is_live();
        unused += piece->is_live() ? 0 : piece->bytes - returnable(*piece);
      }
      stats.inactive_split += used ? unused : 0;
    }
  }
  return stats;
}

MemorySnapshot BasePool::snapshot() const {
  MemorySnapshot snapshot{.pool = std::string(name_), .device = source_->device(), .kind = source_->kind()};
  const Lock lock(mutex_);
  snapshot.stats = stats_now();
  for (const Segment* segment = segments_.head(); segment != nullptr; segment = segment->next) {
    for (const Piece* piece = begin_of_stretch(segment->first); piece != nullptr;) {
      MemorySegment& copy = snapshot.segments.emplace_back();
      copy.address = reinterpret_cast<std::uintptr_t>(piece->data);
      copy.small = segment->small;
      for (; has_memory(piece); piece = piece->right) {
        copy.bytes += piece->bytes;
        copy.blocks.push_back(block_of(*piece, passage_));
      }
      piece = begin_of_stretch(piece);
    }
  }
  snapshot.history = history_.events();
  snapshot.events_lost = history_.lost();
  return snapshot;
}

void BasePool::throw_out_of_memory(std::size_t bytes, std::size_t size) const {
  std::array<Row, 65> rows{};  // by powers of two
  MemoryStats stats;
  std::size_t limit = 0, largest = 0;
  {
    const Lock lock(mutex_);
    stats = stats_now();
    limit = limit_;
    for (const Segment* segment = segments_.head(); segment != nullptr; segment = segment->next) {
      for (const Piece* piece = segment->first; piece != nullptr; piece = piece->right) {
        if (piece->state == Piece::State::absent)
          continue;
        Row& row = rows[static_cast<std::size_t>(std::bit_width(piece->bytes - 1))];
        (piece->is_live() ? row.held : row.cached) += 1;
        (piece->is_live() ? row.held_bytes : row.cached_bytes) += piece->bytes;
        if (piece->is_free())
          largest = std::max(largest, piece->bytes);
      }
    }
  }
  std::ostringstream text;
  text << "out of " << word_of(source_->kind()) << " on " << source_->device() << " (pool " << name_ << "): asked "
       << Bytes{bytes} << " (chunk of " << Bytes{size} << "), held " << Bytes{stats.active} << ", cached "
       << Bytes{stats.reserved - stats.active} << " (largest " << Bytes{largest} << "), limit "
       << (limit == 0 ? "none" : to_text(Bytes{limit}));
  text << "\n  sizes up to        held             cached";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (row.held + row.cached == 0)
      continue;
    text << "\n  " << std::setw(11) << to_text(Bytes{std::size_t{1} << i}) << std::setw(6) << row.held << ' '
         << std::setw(11) << to_text(Bytes{row.held_bytes}) << std::setw(6) << row.cached << ' ' << std::setw(11)
         << to_text(Bytes{row.cached_bytes});
  }
  if (stats.segments == 0)
    text << "\n  nothing held";
  throw OutOfMemory(text.str(), bytes);
}

}  // namespace sluice::detail
