#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/handle.h>
#include <sluice/engine/detail/spin_lock.h>
#include <sluice/engine/detail/stream.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

class StreamTable;

/// A GPU stream and what the engine knows of it: how much was issued, which events mark where, what it has waited
/// for. One thread at a time issues on it (the lease); others leave their tasks in its list.
class CudaStream final : public Stream {
 public:
  static constexpr std::uint64_t k_ring = 128;
  static constexpr int k_max_streams = 256;

  CudaStream(StreamTable& table, Device device, StreamKind kind, std::uint16_t index);
  ~CudaStream() override;

  // -- What Queue sees; only the holder of the lease calls these -----------------------------------------------------
  void* native() const noexcept override { return stream_.get(); }
  Position current_position() const noexcept override { return {index_, issued_.load(std::memory_order_relaxed) + 1}; }
  void wait_for(const PositionSet& positions) override;
  ErrorWord* error_word() const noexcept override { return error_word_; }

  /// Marks the end of a task: records its event and counts it. Returns its position. Never throws; a failed record
  /// is kept for the task by the caller's next check.
  Position mark() noexcept;

  // -- The lease -----------------------------------------------------------------------------------------------------
  /// True: the caller holds the stream now and issues `task`. False: the holder will.
  bool lease_or_leave(TaskNode* task);
  /// The next task that others left, or null: then the lease is given up.
  TaskNode* next_or_give_up();

  // -- Any thread ----------------------------------------------------------------------------------------------------
  std::uint64_t issued() const noexcept { return issued_.load(std::memory_order_acquire); }
  /// Host-known: everything up to this sequence is done.
  std::uint64_t done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Asks the driver. Throws CudaError.
  bool query(std::uint64_t sequence);
  /// Blocks the host. Throws CudaError.
  void synchronize(std::uint64_t sequence);
  /// Throws what kernels of this stream reported, once.
  void throw_reported();
  Device device() const noexcept { return device_; }
  StreamKind kind() const noexcept { return kind_; }
  std::uint16_t index() const noexcept { return index_; }
  bool leased() const noexcept { return leased_.load(std::memory_order_relaxed); }

 private:
  struct Mark {
    cuda::EventHandle event;
    std::atomic<std::uint64_t> sequence{0};
  };

  Mark& mark_at(std::uint64_t sequence) { return ring_[sequence % k_ring]; }
  void raise_done(std::uint64_t sequence) noexcept;

  StreamTable& table_;
  const Device device_;
  const StreamKind kind_;
  const std::uint16_t index_;
  cuda::StreamHandle stream_;
  ErrorWord* error_word_ = nullptr;
  std::mutex reported_mutex_;
  std::atomic<std::uint64_t> issued_{0};
  std::atomic<std::uint64_t> done_{0};
  std::array<Mark, k_ring> ring_;
  std::array<std::uint64_t, k_max_streams> clock_{};  // of each other stream: how far this one has waited

  SpinLock lock_;
  std::atomic<bool> leased_{false};
  TaskNode* left_head_ = nullptr;
  TaskNode* left_tail_ = nullptr;
};

/// All streams of one engine, by the number that positions carry.
class StreamTable {
 public:
  /// The stream of that number; positions name only streams that exist.
  CudaStream& at(std::uint16_t index) const noexcept { return *streams_[index].load(std::memory_order_acquire); }
  int count() const noexcept { return count_.load(std::memory_order_acquire); }
  CudaStream& add(Device device, StreamKind kind);
  /// Blocks the host, asleep, until `event` of `device` has passed. Throws CudaError.
  void sleep_until(Device device, cudaEvent_t event);
  void clear() noexcept;
  ~StreamTable() { clear(); }

  std::atomic<std::uint64_t> waits{0};

 private:
  struct Sleeper {
    cuda::StreamHandle stream;
    cuda::EventHandle wake;
  };

  std::mutex mutex_;
  std::map<std::size_t, std::vector<Sleeper>> sleepers_;  // by device: not in use
  std::atomic<int> count_{1};                             // number 0 is no stream: an empty Position is all zero
  std::array<std::atomic<CudaStream*>, CudaStream::k_max_streams> streams_{};
};

}  // namespace sluice::detail
