#pragma once

#include <cstddef>

#include <sluice/engine/queue.h>
#include <sluice/storage/chunk.h>

namespace sluice {

/// Scratch memory of a kernel, from the same pool as the arrays of its device. Made and dropped inside the task's
/// body: on a GPU the memory goes back at once with the task's position pending on it, so the host never waits. Bodies
/// that a region captures keep it for the replays, in which one uses what another before it used. Throws OutOfMemory.
class SLUICE_API Workspace {
 public:
  Workspace(const Queue& queue, std::size_t bytes);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();

  /// Aligned to 64 bytes on a host, 256 on a GPU; null if no bytes were asked for.
  void* data() const noexcept { return chunk_.data; }
  template <class T>
  T* as() const noexcept {
    return static_cast<T*>(chunk_.data);
  }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_;
  Chunk chunk_;
};

}  // namespace sluice
