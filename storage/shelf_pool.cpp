#include <algorithm>
#include <limits>

#include <sluice/storage/detail/shelf_pool.h>

namespace sluice::detail {
namespace {

// A shelf is searched from its newest chunk, this far: beyond it, any chunk will do.
constexpr std::size_t k_search = 16;

// So many chunks of a size lie cached, all of them holding up who asks, before one is taken all the same: enough for a
// copy in, a computation and a copy out to go on side by side.
constexpr std::size_t k_spares = 3;

bool only_on(const PositionSet& pending, std::optional<std::uint16_t> stream) noexcept {
  return std::all_of(
      pending.begin(), pending.end(), [&](Position position) { return stream && position.stream() == *stream; });
}

}  // namespace

ShelfPool::ShelfPool(
    Passage& passage, std::string_view name, SizeRule rule, Keep keep, std::unique_ptr<Source> source) noexcept
    : passage_(passage), name_(name), rule_(rule), keep_(keep), source_(std::move(source)) {}

ShelfPool::~ShelfPool() {
  give_back(true);  // the engine drained its streams before it ended
}

Chunk ShelfPool::acquire(std::size_t bytes, std::optional<std::uint16_t> stream, ChunkUse use) {
  Chunk chunk{.device = source_->device(), .kind = source_->kind(), .pool = this};
  if (bytes == 0)
    return chunk;
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / 4;
  const std::size_t size = bytes > most ? bytes : rule_.round(bytes);
  if (bytes > most)
    throw_out_of_memory(bytes, size);

  const User user{stream, use};
  Kept found;
  bool got = try_acquire(size, user, found);
  if (!got) {
    relieve();
    got = try_acquire(size, user, found);
  }
  if (!got) {
    wait_for_kept();
    got = try_acquire(size, user, found);
  }
  if (!got)
    throw_out_of_memory(bytes, size);

  chunk.data = found.data;
  chunk.bytes = size;
  chunk.requested = bytes;
  chunk.pending = std::move(found.pending);
  const std::lock_guard lock(mutex_);
  ++stats_.allocations;
  stats_.allocated += bytes;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  return chunk;
}

bool ShelfPool::try_acquire(std::size_t size, const User& user, Kept& found) {
  if (keep_ == Keep::cached)
    return take_kept(size, user, false, found) || take_new(size, found) || take_kept(size, user, true, found);
  give_back(false);
  return take_new(size, found);
}

bool ShelfPool::take_kept(std::size_t size, const User& user, bool held_up, Kept& found) {
  const std::lock_guard lock(mutex_);
  const auto at = shelves_.find(size);
  if (at == shelves_.end() || at->second.kept.empty())
    return false;
  Shelf& shelf = at->second;
  const std::size_t best = best_of(shelf.kept, user);
  if (!held_up && shelf.kept.size() < k_spares && holds_up(shelf.kept[best].pending, user))
    return false;
  std::swap(shelf.kept[best], shelf.kept.back());
  found = std::move(shelf.kept.back());
  shelf.kept.pop_back();
  --parked_;
  if (!found.pending.empty() && passage_.passed(found.pending))
    found.pending.clear();
  ++shelf.live;
  stats_.active += size;
  return true;
}

// Nothing pending, or only on the stream that asks; else passed; else what holds nobody up; else the one whose work is
// the oldest.
std::size_t ShelfPool::best_of(const std::vector<Kept>& kept, const User& user) const {
  const std::size_t end = kept.size() - std::min(kept.size(), k_search);
  for (std::size_t i = kept.size(); i-- > end;) {
    if (only_on(kept[i].pending, user.stream))
      return i;
  }
  for (std::size_t i = kept.size(); i-- > end;) {
    if (passage_.passed(kept[i].pending))
      return i;
  }
  for (std::size_t i = end; i < kept.size(); ++i) {
    if (!holds_up(kept[i].pending, user))
      return i;
  }
  return end;
}

bool ShelfPool::holds_up(const PositionSet& pending, const User& user) const {
  if (only_on(pending, user.stream) || passage_.passed(pending))
    return false;
  return user.use == ChunkUse::copy_target || std::any_of(pending.begin(), pending.end(), [&](Position position) {
           PositionSet one;
           one.add(position);
           return passage_.copies(position) && !passage_.passed(one);
         });
}

bool ShelfPool::take_new(std::size_t size, Kept& found) {
  {
    const std::lock_guard lock(mutex_);
    if (limit_ != 0 && (size > limit_ || stats_.reserved > limit_ - size))
      return false;
    Shelf& shelf = shelves_[size];
    // Room for every chunk of this size to come back: release() must not allocate.
    if (shelf.kept.capacity() <= shelf.live + shelf.kept.size())
      shelf.kept.reserve(2 * (shelf.live + shelf.kept.size() + 1));
    ++shelf.live;
    stats_.active += size;
    stats_.reserved += size;
    ++stats_.source_allocations;
  }
  const auto undo = [&] {
    const std::lock_guard lock(mutex_);
    --shelves_[size].live;
    stats_.active -= size;
    stats_.reserved -= size;
    --stats_.source_allocations;
  };
  try {
    found.data = source_->allocate(size);
  } catch (...) {
    undo();
    throw;
  }
  if (found.data == nullptr) {
    undo();
    return false;
  }
  found.pending.clear();
  const std::lock_guard lock(mutex_);
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  return true;
}

void ShelfPool::release(Chunk&& chunk) noexcept {
  Chunk mine = std::move(chunk);
  chunk = Chunk{};
  if (mine.data == nullptr)
    return;
  const bool keeps = keep_ == Keep::cached || !mine.pending.empty();
  {
    const std::lock_guard lock(mutex_);
    Shelf& shelf = shelves_.find(mine.bytes)->second;
    --shelf.live;
    stats_.active -= mine.bytes;
    stats_.allocated -= mine.requested;
    ++stats_.releases;
    if (keeps) {
      shelf.kept.push_back({mine.data, std::move(mine.pending)});
      ++parked_;
      return;
    }
    stats_.reserved -= mine.bytes;
  }
  source_->deallocate(mine.data);
}

std::size_t ShelfPool::trim() {
  return give_back(false);
}

std::size_t ShelfPool::give_back(bool everything) noexcept {
  std::vector<void*> freed;
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    if (parked_ == 0)
      return 0;
    try {
      freed.reserve(parked_);
    } catch (const std::bad_alloc&) {
      return 0;  // no memory even for the list: what is kept stays kept
    }
    for (auto& [size, shelf] : shelves_) {
      std::erase_if(shelf.kept, [&, chunk_size = size](const Kept& kept) {
        if (!everything && !kept.pending.empty() && !passage_.passed(kept.pending))
          return false;
        freed.push_back(kept.data);
        bytes += chunk_size;
        return true;
      });
    }
    parked_ -= freed.size();
    stats_.reserved -= bytes;
  }
  for (void* data : freed)
    source_->deallocate(data);
  return bytes;
}

void ShelfPool::relieve() {
  {
    const std::lock_guard lock(mutex_);
    ++stats_.trims;
  }
  trim();
  passage_.relieve(source_->device());
}

// The last rung: chunks that came back but that a GPU may still use are worth waiting for.
void ShelfPool::wait_for_kept() {
  PositionSet pending;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [size, shelf] : shelves_) {
      for (const Kept& kept : shelf.kept)
        pending.add(kept.pending);
    }
  }
  if (!pending.empty())
    passage_.wait_passed(pending);
  relieve();
}

MemoryStats ShelfPool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void ShelfPool::reset_peaks() {
  const std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

void ShelfPool::set_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

}  // namespace sluice::detail
