#include <new>
#include <utility>

#include <sluice/engine/engine.h>
#include <sluice/ndarray/buffer.h>
#include <sluice/ndarray/detail/buffers_kept.h>
#include <sluice/ndarray/detail/free_list.h>

namespace sluice::detail {

namespace {

using BufferMemory = FreeList<Buffer>;

}  // namespace

constinit thread_local BuffersKept* BuffersKept::here [[gnu::tls_model("initial-exec")]] = nullptr;

BuffersKept::Scope::Scope(BuffersKept& kept) noexcept : before_(std::exchange(here, &kept)) {}
BuffersKept::Scope::~Scope() {
  here = before_;
}

void BuffersKept::keep(Buffer* buffer) {
  try {
    buffers_.push_back(buffer);
  } catch (...) {
    buffer->release();  // nobody else has it yet
    throw;
  }
  buffer->retain();
}

void BuffersKept::clear() noexcept {
  for (Buffer* const buffer : std::exchange(buffers_, {}))
    buffer->release();
}

Buffer* Buffer::create(Engine& engine, Pool& pool, std::size_t bytes, ChunkUse use) {
  void* const memory = BufferMemory::take();
  Buffer* buffer = nullptr;
  try {
    buffer = ::new (memory) Buffer(pool, bytes, use);
  } catch (...) {
    BufferMemory::give(memory);
    throw;
  }
  Chunk& chunk = buffer->chunk_;
  try {
    buffer->maker_ = &engine;
    buffer->fresh_ = chunk.pending.empty();
    VarOptions options{.home = chunk.device, .on_retire = buffer, .bytes = chunk.bytes};
    if (!buffer->fresh_) [[unlikely]]
      options.pending = &chunk.pending;
    buffer->regions_.emplace_back(0, chunk.requested, engine.new_var(options));
  } catch (...) {
    pool.release(std::move(chunk));
    destroy(buffer);
    throw;
  }
  if (!buffer->fresh_) [[unlikely]]
    chunk.pending.clear();
  BuffersKept::note(buffer);
  return buffer;
}

void Buffer::destroy(Buffer* buffer) noexcept {
  buffer->~Buffer();
  BufferMemory::give(buffer);
}

void Buffer::release() noexcept {
  if (arrays_.load(std::memory_order_acquire) != 1 && arrays_.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  // The last Var to retire ends this buffer, maybe while they are being dropped.
  if (regions_.size() == 1) [[likely]] {
    const Var var = std::move(regions_.front().var);
    return;
  }
  const auto regions = std::move(regions_);
}

void Buffer::divide(const std::vector<std::size_t>& ends, SourceLocation site) {
  Engine& on = engine();
  boost::container::small_vector<Region, 1> made;
  Task task{.name = "partition", .device = chunk_.device};
  for (const Region& region : regions_)
    task.access.push_back(write(region.var));  // behind its readers too
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const VarOptions options{.home = chunk_.device, .on_retire = this, .bytes = end - begin};
    live_regions_.fetch_add(1, std::memory_order_acq_rel);
    try {
      made.emplace_back(begin, end, on.new_var(options));
    } catch (...) {
      live_regions_.fetch_sub(1, std::memory_order_acq_rel);
      throw;
    }
    task.access.push_back(out(made.back().var));
    begin = end;
  }
  on.push(
      task, [](Queue) {}, site);
  const auto before = std::exchange(regions_, std::move(made));  // whose Vars retire here
  fresh_ = false;
}

void Buffer::on_retire(const PositionSet& pending) noexcept {
  if (!pending.empty()) {
    while (merging_.test_and_set(std::memory_order_acquire)) {
    }
    chunk_.pending.add(pending);
    merging_.clear(std::memory_order_release);
  }
  if (live_regions_.load(std::memory_order_acquire) != 1 && live_regions_.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  chunk_.pool->release(std::move(chunk_));
  destroy(this);
}

}  // namespace sluice::detail
