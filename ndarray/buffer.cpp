#include <utility>

#include <sluice/engine/engine.h>
#include <sluice/ndarray/buffer.h>
#include <sluice/storage/pool.h>

namespace sluice::detail {

Buffer* Buffer::create(Engine& engine, Chunk chunk) {
  Buffer* buffer = new Buffer;
  buffer->chunk_ = std::move(chunk);
  try {
    const PositionSet pending = std::exchange(buffer->chunk_.pending, {});
    buffer->fresh_ = pending.empty();
    Var var = engine.new_var(
        {.home = buffer->chunk_.device, .on_retire = buffer, .pending = &pending, .bytes = buffer->chunk_.bytes});
    buffer->regions_.push_back({0, buffer->chunk_.requested, std::move(var)});
  } catch (...) {
    buffer->chunk_.pool->release(std::move(buffer->chunk_));
    delete buffer;
    throw;
  }
  return buffer;
}

void Buffer::release() noexcept {
  if (arrays_.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  // The last Var to retire deletes this buffer, maybe while the list is being dropped.
  const auto regions = std::move(regions_);
}

void Buffer::on_retire(const PositionSet& pending) noexcept {
  while (merging_.test_and_set(std::memory_order_acquire)) {
  }
  chunk_.pending.add(pending);
  merging_.clear(std::memory_order_release);
  if (live_regions_.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  chunk_.pool->release(std::move(chunk_));
  delete this;
}

}  // namespace sluice::detail
