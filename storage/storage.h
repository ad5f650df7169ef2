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

/// Which strategy each kind of memory uses:
///   bucket      rounded sizes; what comes back waits for a request of its size
///   split       large segments, cut to what is asked for; free neighbours become one again
///   paged       the same over 8 MiB pages that move to where a long stretch is wanted; where a GPU's driver has no
///               virtual memory management: split. Its memory is not for cudaIpcGetMemHandle
///   direct      nothing is kept; for memory checkers
///   cuda_async  device memory from the driver's own pool
/// The environment variable SLUICE_POOL sets all three for programs that do not choose (host and pinned memory stay
/// bucket for paged and cuda_async).
struct StorageOptions {
  std::string host = "bucket";
  std::string pinned = "bucket";
  std::string device = "paged";
  /// Hard limits on the bytes held from the system; 0 = none. `device_limit` is for each GPU.
  std::size_t host_limit = 0;
  std::size_t pinned_limit = 0;
  std::size_t device_limit = 0;
  /// split: segments for requests above 1 MiB have at least so many bytes; rounded up to 2 MiB.
  std::size_t segment_bytes = std::size_t{20} << 20;
  /// split, and small chunks of paged: a pool that must grow beyond its peak and so many bytes gives idle segments back
  /// to the system first.
  std::size_t release_threshold = 0;
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

  /// Chooses strategies for pools that are not made yet; limits are for pools in use too. Throws ValueError for an
  /// unknown name and when a pool is in use with another strategy or other sizes than chosen.
  void configure(const StorageOptions& options);

  /// The pool of host memory (kind host or pinned) or of a GPU (kind device). Throws DeviceError for a GPU that is
  /// not there, ValueError for a kind that does not fit the device.
  Pool& pool(Device device, MemoryKind kind);
  /// The pool that arrays of `device` live in: host memory or device memory.
  Pool& pool(Device device) { return pool(device, device.is_gpu() ? MemoryKind::device : MemoryKind::host); }

  /// Lets two GPUs reach each other's memory, so that copies between them go directly and kernels of one may read what
  /// the other has; at the first call, which takes 0.1 ms and as much again for each 8 MiB that the pools hold. False
  /// where the hardware or the driver cannot: then copies go by way of the host. Copies of arrays call it themselves.
  /// Throws DeviceError for a GPU that is not there.
  bool connect(Device a, Device b);

  /// Gives back cached memory of all pools of `device`; returns the bytes.
  std::size_t empty_cache(Device device);

 private:
  struct Pools;
  std::unique_ptr<Pools> pools_;
};

/// Names of the strategies for a kind of memory.
SLUICE_API std::vector<std::string> pool_names(MemoryKind kind = MemoryKind::host);

/// Statistics of the memory that arrays of `device` live in, in the current engine.
SLUICE_API MemoryStats memory_stats(Device device);
SLUICE_API std::size_t empty_cache(Device device);

}  // namespace sluice
