#pragma once

// Small work for GPU streams, and memory to do it on. No CUDA types, so that test cases are plain C++.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <sluice/engine/queue.h>

#include "tests/engine/dag_step.h"

namespace sluice::test {

/// Loads every kernel of the tests: one that is loaded while another waits at a gate would wait for it. Called at the
/// beginning of each GPU test case.
void prepare_gpus();

// -- Work, enqueued on a cudaStream_t. `delay_us`: how long the kernel dawdles before it touches anything. ------------
void enqueue_step(void* stream, const Step& step, std::uint64_t task, Cell* cells, Seen* seen, unsigned delay_us);
void enqueue_store(void* stream, std::uint64_t* word, std::uint64_t value, unsigned delay_us = 0);
/// word = 3 * word + value: the order of two additions shows.
void enqueue_append(void* stream, std::uint64_t* word, std::uint64_t value, unsigned delay_us = 0);
/// to = 3 * to + from.
void enqueue_combine(void* stream, std::uint64_t* to, const std::uint64_t* from, unsigned delay_us = 0);
/// Whether a GPU can run blocks in clusters.
bool has_clusters(int device);
/// word = 3 * word + 100 * x + y, if the kernel runs in clusters of x by y blocks as it should.
void enqueue_cluster(void* stream, std::uint64_t* word, unsigned x, unsigned y);
/// Not from host to host: there CUDA makes the host wait.
void enqueue_copy(void* stream, void* to, const void* from, std::size_t bytes);
/// What a kernel that meets a bad index does.
void enqueue_bad_index(void* stream, ErrorWord* word, long long value, long long bound);
/// A launch that CUDA refuses: more threads in a block than there can be.
void enqueue_refused_launch(void* stream);
/// As enqueue_append, but on the legacy default stream, as pasted code does it.
void append_on_legacy_stream(std::uint64_t* word, std::uint64_t value, unsigned delay_us = 0);

/// A stream that the engine knows nothing of. Members throw CudaError.
class ForeignStream {
 public:
  ForeignStream();
  ForeignStream(const ForeignStream&) = delete;
  ForeignStream& operator=(const ForeignStream&) = delete;
  ~ForeignStream();

  void* get() const noexcept { return stream_; }
  void begin_capture();
  /// Ends the capture and launches what it holds.
  void launch_captured();

 private:
  void* stream_ = nullptr;
};

// -- Memory. These block; they throw CudaError.
// ------------------------------------------------------------------------
void* gpu_allocate(std::size_t bytes, int device);
void* pinned_allocate(std::size_t bytes);
void gpu_free(void* memory) noexcept;
void pinned_free(void* memory) noexcept;
void copy_and_wait(void* to, const void* from, std::size_t bytes);

/// Zeroed or given elements in a GPU's memory.
template <class T>
class GpuArray {
 public:
  explicit GpuArray(const std::vector<T>& values, int device = 0)
      : size_(values.size()), data_(static_cast<T*>(gpu_allocate(size_ * sizeof(T), device))) {
    copy_and_wait(data_, values.data(), size_ * sizeof(T));
  }
  explicit GpuArray(std::size_t n, int device = 0) : GpuArray(std::vector<T>(n), device) {}
  GpuArray(const GpuArray&) = delete;
  GpuArray& operator=(const GpuArray&) = delete;
  ~GpuArray() { gpu_free(data_); }

  T* data() const noexcept { return data_; }
  std::vector<T> values() const {
    std::vector<T> result(size_);
    copy_and_wait(result.data(), data_, size_ * sizeof(T));
    return result;
  }

 private:
  std::size_t size_;
  T* data_;
};

/// Zeroed elements in pinned host memory, reachable from the host and from every GPU.
template <class T>
class PinnedArray {
 public:
  explicit PinnedArray(std::size_t n) : data_(static_cast<T*>(pinned_allocate(n * sizeof(T)))) {
    for (std::size_t i = 0; i < n; ++i)
      data_[i] = T{};
  }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  ~PinnedArray() { pinned_free(data_); }

  T* data() const noexcept { return data_; }
  T& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  T* data_;
};

}  // namespace sluice::test
