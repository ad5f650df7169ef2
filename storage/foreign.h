#pragma once

#include <cstddef>

#include <sluice/engine/device.h>
#include <sluice/engine/export.h>
#include <sluice/storage/pool.h>

namespace sluice {

class Engine;

/// Memory that another library allocated, and how it is told that nobody here needs it any more.
struct ForeignMemory {
  void* data = nullptr;
  std::size_t bytes = 0;
  Device device = cpu();
  MemoryKind kind = MemoryKind::host;
  /// Called once, on any thread, with no lock of ours held; null: nobody is told. It may use engines.
  void (*give_back)(void* context) noexcept = nullptr;
  void* context = nullptr;
};

namespace detail {
class ForeignPool;
}

/// Takes foreign memory over, as a pool whose first chunk it is. It goes back when both this object and that chunk have
/// gone, and the GPU has passed what the chunk was released with; never before. Nobody waits for that: where it is not
/// so at once, a task gives it back.
class SLUICE_API ForeignLoan {
 public:
  /// Throws std::bad_alloc, and then has taken nothing over.
  ForeignLoan(Engine& engine, const ForeignMemory& memory);
  ForeignLoan(const ForeignLoan&) = delete;
  ForeignLoan& operator=(const ForeignLoan&) = delete;
  ~ForeignLoan();

  /// acquire() gives that memory the first time, and later what the device's ordinary pool has, as do its other calls:
  /// whoever makes an array beside a foreign one gets memory of ours. Good until the memory goes back.
  Pool& pool() const noexcept;

 private:
  detail::ForeignPool* const pool_;
};

}  // namespace sluice
