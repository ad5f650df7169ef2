#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <sluice/engine/device.h>
#include <sluice/engine/export.h>
#include <sluice/storage/pool.h>

namespace sluice {

class Engine;

/// Which strategy each kind of memory uses: "bucket" (rounded sizes, cached; the default) or "direct" (no cache; for
/// memory checkers). The environment variable SLUICE_POOL sets all three for programs that do not choose.
struct StorageOptions {
  std::string host = "bucket";
  std::string pinned = "bucket";
  std::string device = "bucket";
};

/// The pools of one engine, made at first use. Pools live as long as the engine's last Var.
class SLUICE_API Storage {
 public:
  explicit Storage(Engine& engine);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// The storage that belongs to `engine`.
  static Storage& of(Engine& engine);

  /// Chooses strategies for pools that are not made yet. Throws ValueError for an unknown name and when a pool that
  /// the choice would change is in use.
  void configure(const StorageOptions& options);

  /// The pool of host memory (kind host or pinned) or of a GPU (kind device). Throws DeviceError for a GPU that is
  /// not there, ValueError for a kind that does not fit the device.
  Pool& pool(Device device, MemoryKind kind);
  /// The pool that arrays of `device` live in: host memory or device memory.
  Pool& pool(Device device) { return pool(device, device.is_gpu() ? MemoryKind::device : MemoryKind::host); }

  /// Gives back cached memory of all pools of `device`; returns the bytes.
  std::size_t empty_cache(Device device);

 private:
  struct Pools;
  std::unique_ptr<Pools> pools_;
};

/// Names of the strategies.
SLUICE_API std::vector<std::string> pool_names();

/// Statistics of the memory that arrays of `device` live in, in the current engine.
SLUICE_API MemoryStats memory_stats(Device device);
SLUICE_API std::size_t empty_cache(Device device);

}  // namespace sluice
