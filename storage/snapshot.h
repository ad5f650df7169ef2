#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sluice/engine/device.h>
#include <sluice/engine/export.h>
#include <sluice/engine/position.h>
#include <sluice/storage/pool.h>

namespace sluice {

/// Something that happened in a pool.
struct MemoryEvent {
  enum class Kind : std::uint8_t { acquire, release, segment_in, segment_out, out_of_memory };
  std::int64_t time_ns = 0;  // of the steady clock
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  std::size_t requested = 0;
  Kind kind = Kind::acquire;
};

/// A stretch of a segment.
struct MemoryBlock {
  enum class State : std::uint8_t {
    live,     // on loan
    pending,  // came back; GPU work may still use it
    free,
  };
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  std::size_t requested = 0;  // 0 unless live
  State state = State::free;
  std::vector<Position> pending = {};
};

/// What one call of the system gave, or pages side by side.
struct MemorySegment {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  bool small = false;                    // holds small blocks alone
  std::vector<MemoryBlock> blocks = {};  // by address, without gaps
};

/// A pool at one moment.
struct MemorySnapshot {
  std::string pool = {};
  Device device = {};
  MemoryKind kind = MemoryKind::host;
  MemoryStats stats = {};
  std::vector<MemorySegment> segments = {};  // oldest first
  std::vector<MemoryEvent> history = {};     // oldest first
  std::uint64_t events_lost = 0;             // older than the history reaches
};

/// {"pool", "device", "kind", "stats": {..}, "segments": [{"address", "bytes", "small", "blocks": [{"address", "bytes",
/// "requested", "state", "pending": [[stream, sequence]]}]}], "history": [..], "events_lost"}; addresses are numbers.
SLUICE_API std::string to_json(const MemorySnapshot& snapshot);
/// A page of its own: reserved and active bytes over the recorded history, the chunks' lifetimes by address, and the
/// segments as they are.
SLUICE_API std::string to_html(const MemorySnapshot& snapshot);
/// A table for people: bytes, peaks, counts, small and large.
SLUICE_API std::string to_text(const MemorySnapshot& snapshot);

/// The memory that arrays of `device` live in, in the current engine: to_json and to_text of its pool's snapshot.
SLUICE_API std::string memory_snapshot(Device device);
SLUICE_API std::string memory_summary(Device device);
/// Writes the page to_html() of `device` to `path`. Throws FileError.
SLUICE_API void save_memory_picture(Device device, const std::string& path);
/// Keeps the last `events` acquires and releases of `device` for snapshots and pictures; 0 ends it.
SLUICE_API void record_memory_history(Device device, std::size_t events = 100'000);

}  // namespace sluice
