#pragma once

#include <cstddef>
#include <cstdint>

#include <sluice/engine/device.h>
#include <sluice/engine/position.h>

namespace sluice {

class Pool;

/// What kind of memory: ordinary host memory, page-locked host memory that GPUs copy from and map, GPU memory.
enum class MemoryKind : std::uint8_t { host, pinned, device };

/// A piece of memory on loan from a pool. It comes out with what earlier owners left pending on GPU streams, and
/// goes back with what its last owner left: whoever uses it next waits for that, the host never does.
struct Chunk {
  void* data = nullptr;
  std::size_t bytes = 0;      // usable size: at least what was asked for
  std::size_t requested = 0;  // what was asked for
  Device device = cpu();
  MemoryKind kind = MemoryKind::host;
  Pool* pool = nullptr;
  PositionSet pending = {};
  void* token = nullptr;  // the pool's own

  explicit operator bool() const noexcept { return pool != nullptr; }
};

}  // namespace sluice
