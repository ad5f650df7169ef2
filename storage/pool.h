#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/storage/chunk.h>

namespace sluice {

struct MemorySnapshot;

/// The part of a pool's figures that small chunks (up to 1 MiB) or large ones make.
struct MemoryClassStats {
  std::uint64_t allocated = 0;  // bytes asked for by live chunks
  std::uint64_t active = 0;     // bytes of live chunks after rounding
  std::uint64_t live = 0;       // chunks on loan
  std::uint64_t allocations = 0;
  std::uint64_t releases = 0;
};

/// Bytes and counts of one pool, as users of other frameworks know them.
struct MemoryStats {
  std::uint64_t allocated = 0;  // bytes asked for by live chunks
  std::uint64_t active = 0;     // bytes of live chunks after rounding
  std::uint64_t reserved = 0;   // bytes held from the system: active + cached
  std::uint64_t peak_allocated = 0;
  std::uint64_t peak_reserved = 0;
  std::uint64_t allocations = 0;         // chunks handed out so far
  std::uint64_t releases = 0;            // chunks taken back so far
  std::uint64_t source_allocations = 0;  // calls to the system so far
  std::uint64_t trims = 0;               // times the cache was given back because memory ran out
  std::uint64_t peak_active = 0;
  std::uint64_t inactive_split = 0;  // free bytes that live chunks beside them keep from going back to the system
  std::uint64_t segments = 0;        // stretches of memory: what the system gave at once, or pages side by side
  std::uint64_t retries = 0;         // requests that were served only after caches were given back or work waited for
  std::uint64_t out_of_memory = 0;   // requests that were not served
  MemoryClassStats small, large;
};

/// Who writes a chunk first, which decides what unfinished work on it is worth avoiding: a computation should not wait
/// for a copy to another memory that still reads the chunk, nor a copy into it for computations.
enum class ChunkUse : std::uint8_t { compute, copy_target };

/// Where the work stands that will use a chunk, as far as that is known: behind a position, or behind all that lies on
/// a stream.
class WorkPlace {
 public:
  constexpr WorkPlace() = default;  // unknown
  constexpr WorkPlace(std::uint16_t stream) noexcept : behind_(stream, 0xffff'ffff'ffffull) {}
  constexpr WorkPlace(Position behind) noexcept : behind_(behind) {}

  constexpr bool is_behind(Position position) const noexcept {
    return position.stream() == behind_.stream() && position.sequence() <= behind_.sequence();
  }

 private:
  Position behind_;
};

/// Hands out chunks of one kind of memory on one device. Thread-safe; no call blocks but the last rung of acquire().
class SLUICE_API Pool {
 public:
  virtual ~Pool() = default;

  /// At least `bytes` bytes, aligned to 64 on a host and 256 on a GPU; 0 bytes gives an empty chunk with null data.
  /// Memory last used by what `work` is behind is as good as free.
  ///
  /// When memory runs out: gives caches back, then waits for the work that has been pending on cached memory for
  /// longest and for what others are giving back, again and again while that is of use, then throws OutOfMemory with a
  /// table of what is held and cached.
  virtual Chunk acquire(std::size_t bytes, WorkPlace work = {}, ChunkUse use = ChunkUse::compute) = 0;
  /// Takes a chunk back with its pending positions. Never waits, never throws.
  virtual void release(Chunk&& chunk) noexcept = 0;
  /// Gives cached memory back to the system (what GPU work still uses stays); returns the bytes given back.
  virtual std::size_t trim() = 0;
  virtual MemoryStats stats() const = 0;
  virtual void reset_peaks() = 0;
  /// Lets another GPU's kernels and copies reach this GPU's memory: what the pool has and what it will get. Nothing for
  /// host memory. See Storage::connect, which does it both ways. Throws CudaError.
  virtual void share(Device peer) = 0;
  /// A hard limit on reserved bytes; 0 = none.
  virtual void set_limit(std::size_t bytes) = 0;
  virtual std::string_view name() const noexcept = 0;
  /// All segments with their chunks as they are now, and the recorded history.
  virtual MemorySnapshot snapshot() const = 0;
  /// Keeps the last `events` events (40 bytes each) from now on; 0 ends it. What was recorded before is forgotten.
  virtual void record_history(std::size_t events) = 0;
};

}  // namespace sluice
