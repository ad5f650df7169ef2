#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/source_location.h>
#include <sluice/engine/var.h>
#include <sluice/storage/chunk.h>
#include <sluice/storage/pool.h>

namespace sluice::detail {

/// Memory and the Vars that name it: one Var a disjoint region (one to begin with). Counted by the arrays that see
/// it; when the last array goes, the Vars retire, and when the last Var has retired the chunk goes back to its pool
/// with what is pending on it. Memory thus outlives every task that names its Var: a task's body takes data pointers
/// at push and needs no handle on the array.
class Buffer final : public RetireHook {
 public:
  struct Region {
    std::size_t begin = 0;  // bytes from the start of the chunk
    std::size_t end = 0;
    Var var;
  };

  /// With a chunk of `pool`; its Var starts with what the chunk has pending. Throws OutOfMemory.
  static Buffer* create(Engine& engine, Pool& pool, std::size_t bytes, ChunkUse use);

  void retain() noexcept { arrays_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;
  int use_count() const noexcept { return arrays_.load(std::memory_order_acquire); }

  std::byte* data() const noexcept { return static_cast<std::byte*>(chunk_.data); }
  const Chunk& chunk() const noexcept { return chunk_; }
  /// The memory came with nothing pending on a GPU: as long as no task was pushed on it, its maker may write it.
  bool fresh() const noexcept { return fresh_; }
  /// Where the engine stood that made it, to be compared with another's alone: it may be gone.
  const void* maker() const noexcept { return maker_; }
  /// Throws EngineStopped when that engine is gone.
  Engine& engine() const { return regions_.front().var.engine(); }
  const auto& regions() const noexcept { return regions_; }
  /// Cuts the memory at `ends` (bytes, ascending, the last one its end) into regions with a Var each, in the place of
  /// those that it has. What was pushed before on any of these comes before what is pushed on one of the new ones then.
  /// Nobody else may use the buffer meanwhile. Throws what Engine::push() throws; it is as it was then.
  void divide(const std::vector<std::size_t>& ends, SourceLocation site);
  /// The Var of a buffer that has one region.
  const Var& var() const noexcept { return regions_.front().var; }

  /// Raised by everything that writes, before that is pushed: who still sees the version of then pushes before the
  /// write, or by no order at all. backward compares it with what it saw when it saved.
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  std::uint64_t raise_version() noexcept { return version_.fetch_add(1, std::memory_order_release) + 1; }
  /// The same of memory that nobody else knows yet.
  void begin_versions() noexcept { version_.store(1, std::memory_order_relaxed); }
  /// For a push that was refused: takes back what raise_version() made of it, unless others have raised it since.
  void take_back_version(std::uint64_t raised) noexcept {
    version_.compare_exchange_strong(raised, raised - 1, std::memory_order_release, std::memory_order_relaxed);
  }

  void on_retire(const PositionSet& pending) noexcept override;

 private:
  Buffer(Pool& pool, std::size_t bytes, ChunkUse use) : chunk_(pool.acquire(bytes, {}, use)) {}
  ~Buffer() = default;
  static void destroy(Buffer* buffer) noexcept;

  Chunk chunk_;
  const void* maker_ = nullptr;
  boost::container::small_vector<Region, 1> regions_;
  bool fresh_ = true;
  std::atomic<int> arrays_{1};
  std::atomic<int> live_regions_{1};
  std::atomic<std::uint64_t> version_{0};
  std::atomic_flag merging_;  // held while a retiring Var adds what it left pending
};

}  // namespace sluice::detail
