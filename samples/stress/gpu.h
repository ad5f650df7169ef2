#pragma once

#include <cstddef>
#include <memory>

#include "samples/stress/work.h"

// What the programs do with CUDA, without its types. In builds without CUDA every function throws DeviceError.
namespace samples::stress {

/// Zeroed memory, freed with the object.
class Memory {
 public:
  Memory() = default;
  /// They throw CudaError. Pinned memory is the host's, and all GPUs reach it.
  static Memory on_gpu(int gpu, std::size_t bytes);
  static Memory pinned(std::size_t bytes);
  /// Of the host, for no GPU. Throws std::bad_alloc.
  static Memory plain(std::size_t bytes);

  void* data() const noexcept { return data_.get(); }

 private:
  using Free = void (*)(void*);
  Memory(void* data, Free free) : data_(data, free) {}

  std::unique_ptr<void, Free> data_{nullptr, [](void*) {}};
};

/// Blocks until it is done.
void copy_and_wait(void* to, const void* from, std::size_t bytes);

/// Enqueues on a cudaStream_t (null: the legacy stream). They throw CudaError if CUDA refuses it.
void enqueue_copy(void* stream, void* to, const void* from, std::size_t bytes);
void enqueue_work(void* stream, const Work& work);

/// A stream that the engine knows nothing of.
class ForeignStream {
 public:
  explicit ForeignStream(int gpu);
  ForeignStream(const ForeignStream&) = delete;
  ForeignStream& operator=(const ForeignStream&) = delete;
  ~ForeignStream();
  void* get() const noexcept { return stream_; }

  /// Launches on it from the calling thread.
  void launch(const Work& work) const;

 private:
  int gpu_;
  void* stream_ = nullptr;
};

}  // namespace samples::stress
