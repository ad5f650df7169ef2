#include <memory>
#include <new>
#include <utility>

#include <sluice/engine/engine.h>
#include <sluice/engine/region.h>
#include <sluice/operator/workspace.h>
#include <sluice/storage/storage.h>

namespace sluice {

namespace {

/// Scratch memory of a captured body: replays use it as long as there are any.
struct KeptChunk final : RetireHook {
  explicit KeptChunk(Chunk&& held) : chunk(std::move(held)) {}
  void on_retire(const PositionSet& pending) noexcept override {
    const std::unique_ptr<KeptChunk> ends(this);
    chunk.pending.add(pending);
    chunk.pool->release(std::move(chunk));
  }
  Chunk chunk;
};

void keep(Chunk&& chunk) noexcept {
  try {
    auto kept = std::make_unique<KeptChunk>(std::move(chunk));
    if (region_keeps(*kept))
      kept.release();
  } catch (const std::bad_alloc&) {  // then it is lost: given to others, replays would write into it
  }
}

// Bodies that may run side by side have scratch memory each until a region keeps so much; from there on they wait for
// each other rather than make it grow, unless it is for a little.
constexpr std::size_t k_side_by_side = std::size_t{256} << 20, k_little = std::size_t{1} << 20;

struct Wanted {
  const Pool& pool;
  std::size_t bytes;
};

std::size_t excess(const RetireHook& hook, const void* context) {
  const auto& wanted = *static_cast<const Wanted*>(context);
  const auto* const kept = dynamic_cast<const KeptChunk*>(&hook);
  const bool suits = kept != nullptr && kept->chunk.pool == &wanted.pool && kept->chunk.bytes >= wanted.bytes;
  return suits ? kept->chunk.bytes - wanted.bytes : k_unsuitable;
}

std::size_t kept_bytes() {
  std::size_t sum = 0;
  std::size_t* const into = &sum;
  region_lends(
      [](const RetireHook& hook, const void* context) {
        if (const auto* const kept = dynamic_cast<const KeptChunk*>(&hook))
          **static_cast<std::size_t* const*>(context) += kept->chunk.bytes;
        return k_unsuitable;
      },
      &into,
      true);
  return sum;
}

Chunk lent_by_region(const Pool& pool, std::size_t bytes) {
  const Wanted wanted{pool, bytes};
  RetireHook* hook = region_lends(excess, &wanted);
  if (hook == nullptr && bytes > k_little && kept_bytes() + bytes > k_side_by_side)
    hook = region_lends(excess, &wanted, true);
  const std::unique_ptr<KeptChunk> lent(static_cast<KeptChunk*>(hook));
  return lent == nullptr ? Chunk() : std::move(lent->chunk);
}

}  // namespace

Workspace::Workspace(const Queue& queue, std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0)
    return;
  Pool& pool = Storage::of(queue.engine()).pool(queue.device());
  if (region_captures() && (chunk_ = lent_by_region(pool, bytes)))
    return;
  const WorkPlace work = queue.device().is_gpu() ? WorkPlace(queue.position()) : WorkPlace();
  chunk_ = pool.acquire(bytes, work);
  if (queue.device().is_cpu())
    return;
  queue.wait_for(chunk_.pending);
  // From here on the stream itself has passed what earlier owners left.
  chunk_.pending.clear();
  chunk_.pending.add(queue.position());
}

Workspace::~Workspace() {
  if (!chunk_)
    return;
  if (region_captures())
    keep(std::move(chunk_));
  else
    chunk_.pool->release(std::move(chunk_));
}

}  // namespace sluice
