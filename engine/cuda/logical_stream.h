#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/cuda/cuda_stream.h>
#include <sluice/engine/detail/stream.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

struct Gpu;
class LogicalStream;

/// What a task's Queue sees of its logical stream: the CUDA stream to enqueue on. There is one for tasks that are
/// launched and one for tasks that are captured: library handles are bound to a CUDA stream, so each has slots of its
/// own.
class StreamView final : public Stream {
 public:
  StreamView(Gpu& gpu, LogicalStream& logical, bool captures) noexcept
      : gpu_(gpu), logical_(logical), captures_(captures) {}
  void* native() override;
  Position current_position() override;
  void wait_for(const PositionSet& positions) override;
  ErrorWord* error_word() override;
  std::shared_ptr<void>& slot(std::size_t id) override;

  void enqueue_on(cudaStream_t native) noexcept { native_ = native; }
  cudaStream_t enqueued_on() const noexcept { return native_; }
  void drop_slots() noexcept { slots_ = {}; }
  /// The body that is called next has this place; none: the next one.
  void take_place(Position place) noexcept { place_ = place; }

 private:
  Gpu& gpu_;
  LogicalStream& logical_;
  const bool captures_;
  cudaStream_t native_ = nullptr;
  Position place_;
  std::array<std::shared_ptr<void>, k_max_slots> slots_;
};

/// A stream number that positions carry. Tasks on one logical stream follow each other, all on one CUDA stream, which
/// may have several. Three counts say how far it is: issued (the order is settled), launched (given to the GPU, alone
/// or as part of a batch), done (as far as the host knows).
class LogicalStream {
 public:
  static constexpr int k_marks = 512;

  LogicalStream(Gpu& gpu, StreamKind kind, std::uint16_t number, int local);
  ~LogicalStream();
  LogicalStream(const LogicalStream&) = delete;
  LogicalStream& operator=(const LogicalStream&) = delete;

  // -- The device's issuing thread only ------------------------------------------------------------------------------
  Position next_position() const noexcept { return {number_, issued_.load(std::memory_order_relaxed) + 1}; }
  /// True for the first that asks, who follows `sequence` on its stream; those that follow it too may go elsewhere.
  bool follow_first(std::uint64_t sequence) noexcept { return !std::exchange(followed_[sequence % k_marks], true); }
  /// Settles the next task's place; its name is kept for the case that the device fails.
  Position issue(const TaskNode& task) noexcept;
  /// All up to `sequence` was launched, and is done when `milestone` is.
  void launched(std::uint64_t sequence, Milestone& milestone) noexcept;

  // -- Any thread ----------------------------------------------------------------------------------------------------
  std::uint64_t issued() const noexcept { return issued_.load(std::memory_order_acquire); }
  std::uint64_t launched() const noexcept { return launched_.load(std::memory_order_acquire); }
  std::uint64_t done() const noexcept { return done_.load(std::memory_order_acquire); }
  Position tail() const noexcept { return issued() == 0 ? Position() : Position(number_, issued()); }

  /// A milestone behind `sequence`, which has been launched: the oldest one still known, and how far it reaches. It may
  /// stand for later work by now: whoever waits for it waits longer, never less.
  struct Reach {
    Milestone* milestone;
    std::uint64_t sequence;
  };
  Reach reach(std::uint64_t sequence) const noexcept;
  /// Asks the driver about work that has been launched. Throws CudaError.
  bool query(std::uint64_t sequence);
  /// The GPU has passed it: what kernels have reported so far is published first.
  void raise_done(std::uint64_t sequence) noexcept;
  /// "name (file:line)", with the origin before the file where there is one, of the tasks that the host does not know
  /// to be done, the oldest first, `most` at most.
  void list_unfinished(std::vector<std::string>& names, std::size_t most) const;

  Gpu& gpu() const noexcept { return gpu_; }
  Device device() const noexcept { return device_; }
  StreamKind kind() const noexcept { return kind_; }
  std::uint16_t number() const noexcept { return number_; }
  int local() const noexcept { return local_; }

  StreamView direct;
  StreamView captured;

 private:
  struct Mark {
    std::atomic<Milestone*> milestone{nullptr};
    std::atomic<std::uint64_t> sequence{0};
  };
  struct Note {
    std::atomic<const char*> name{""};
    std::atomic<const char*> file{""};
    std::atomic<int> line{0};
    std::atomic<std::uint32_t> origin{0};
  };

  Gpu& gpu_;
  const Device device_;
  const StreamKind kind_;
  const std::uint16_t number_;
  const int local_;  // index in the frontiers of its device
  std::atomic<std::uint64_t> issued_{0};
  std::atomic<std::uint64_t> launched_{0};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> marked_{0};  // marks made so far
  std::array<Mark, k_marks> marks_;
  std::array<Note, k_marks> notes_;
  std::array<bool, k_marks> followed_{};
};

/// All logical streams of one engine, by the number that positions carry.
class LogicalStreamTable {
 public:
  /// The one of that number; positions name only those that exist.
  LogicalStream& at(std::uint16_t number) const noexcept { return *streams_[number].load(std::memory_order_acquire); }
  LogicalStream& of(Position position) const noexcept { return at(position.stream()); }
  int count() const noexcept { return count_.load(std::memory_order_acquire); }
  /// Throws ValueError when the numbers have run out.
  LogicalStream& add(Gpu& gpu, StreamKind kind, int local);
  void clear() noexcept;
  ~LogicalStreamTable() { clear(); }

 private:
  std::mutex mutex_;
  std::atomic<int> count_{1};  // number 0 is none: an empty Position is all zero
  std::array<std::atomic<LogicalStream*>, k_max_logical_streams> streams_{};
};

}  // namespace sluice::detail
