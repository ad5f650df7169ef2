#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include <sluice/engine/detail/fork_watch.h>
#include <sluice/storage/detail/history.h>
#include <sluice/storage/detail/passage.h>
#include <sluice/storage/detail/pending.h>
#include <sluice/storage/detail/piece.h>
#include <sluice/storage/detail/short_mutex.h>
#include <sluice/storage/detail/source.h>
#include <sluice/storage/pool.h>

namespace sluice::detail {

/// Up to here chunks are small: in statistics, and for pools that keep them apart.
inline constexpr std::size_t k_small_most = std::size_t{1} << 20;

/// What all pools share: segments and pieces, the way up when memory runs out, limits, statistics and history. A
/// strategy says how sizes are rounded, how large segments are, and where free pieces wait.
///
/// release() asks neither the passage nor the source where it keeps the chunk, so it works after the engine has gone;
/// it never calls the heap. One short lock; no call of the driver happens under it.
class BasePool : public Pool {
 public:
  Chunk acquire(std::size_t bytes, WorkPlace work = {}, ChunkUse use = ChunkUse::compute) final;
  void release(Chunk&& chunk) noexcept final;
  std::size_t trim() final;
  MemoryStats stats() const final;
  void reset_peaks() final;
  void set_limit(std::size_t bytes) final;
  void share(Device peer) final { source_->share(peer.index); }
  std::string_view name() const noexcept final { return name_; }
  MemorySnapshot snapshot() const final;
  void record_history(std::size_t events) final;

 protected:
  using Lock = std::unique_lock<ShortMutex>;

  BasePool(
      Passage& passage,
      std::string_view name,
      std::unique_ptr<MemorySource> source,
      std::size_t release_threshold) noexcept;
  ~BasePool() override;

  /// The size of the piece for a request below 2^62. Without the lock.
  virtual std::size_t round(std::size_t bytes) const noexcept = 0;
  // Under the lock:
  /// A free piece of at least `bytes` that suits `user`, out of its list and cut to size; null if there is none.
  virtual Piece* take(std::size_t bytes, const User& user) = 0;
  /// A segment for a piece of `bytes`: the size that would be best, or the least that will do.
  virtual std::size_t segment_bytes(std::size_t bytes, bool /*least*/) const noexcept { return bytes; }
  /// True if pieces of `bytes` have segments of their own.
  virtual bool apart(std::size_t /*bytes*/) const noexcept { return false; }
  /// The only piece of a new segment: the part of it for a request of `bytes`. Keeps the rest.
  virtual Piece* cut(Piece* piece, std::size_t /*bytes*/) { return piece; }
  /// Keeps a piece that came back. False if it should go back to the source at once (nothing is pending on it then).
  virtual bool keep(Piece* piece) noexcept = 0;
  /// A kept piece is about to go: out of its list.
  virtual void unlink(Piece* piece) noexcept = 0;
  /// Which free neighbours may become one: those that nothing is pending on; those that `user` need not wait for; or
  /// all, so that somebody may have to wait for more than their own place.
  enum class Merging : std::uint8_t { idle, own, all };
  /// What was put off: forgets what has passed, merges. Called before the source is asked.
  virtual void tidy(Merging, const User& /*user*/) noexcept {}

  /// A piece of `size` from memory that the pool did not hold; null if the system or the limit says no. Lets the lock
  /// go meanwhile.
  virtual Piece* grow(Lock& lock, std::size_t size);
  /// Gives at least `wanted` bytes of idle memory back to the system, if there are so many; returns how many.
  virtual std::size_t shrink(Lock& lock, std::size_t wanted);

  /// Bytes of a free piece that can go back to the system while others of its segment are live.
  virtual std::size_t returnable(const Piece& /*piece*/) const noexcept { return 0; }

  /// Segments that nobody needs any more, as a chain made by remove(): they go back before the source is asked.
  virtual Segment* due() noexcept { return nullptr; }

  MemorySource& source() const noexcept { return *source_; }
  std::size_t alignment() const noexcept { return source_->alignment(); }
  /// Counts `bytes` that the source is about to give; false if the limit says no.
  bool expect(std::size_t bytes) noexcept;
  /// The source gave them, in so many calls.
  void confirm(std::size_t bytes, std::size_t calls) noexcept;
  /// The source did not.
  void give_up(std::size_t bytes) noexcept;
  /// `bytes` are on their way back to the system, and are there: until then whoever runs out of memory waits.
  void begin_return(std::size_t bytes) noexcept { returning_ += bytes; }
  void end_return(std::size_t bytes) noexcept;
  void note(MemoryEvent::Kind kind, const void* data, std::size_t bytes, std::size_t requested = 0) noexcept {
    if (history_.on()) [[unlikely]]
      history_.note(kind, data, bytes, requested);
  }
  Linked<Segment>& segments() noexcept { return segments_; }
  /// Takes a segment, whose pieces lie in no list, out of the pool and puts it before `chain`.
  Segment* remove(Segment* segment, Segment* chain) noexcept;

  Passage& passage_;
  NodeStore<Piece> pieces_;

 private:
  class Patience;

  bool may_ever_fit(std::size_t size) const noexcept;
  bool wants_patience(std::size_t size) const noexcept;
  Piece* find(Lock& lock, std::size_t bytes, std::size_t size, User user);
  Piece* spare(Lock& lock, std::size_t size, const User& user);
  Piece* climb(Lock& lock, std::size_t bytes, std::size_t size, const User& user);
  Piece* grow_to(Lock& lock, std::size_t size, std::size_t segment);
  void add_segment(Segment* segment, Piece* piece, void* data) noexcept;
  Segment* collect_idle(std::size_t wanted) noexcept;
  bool is_idle(const Segment& segment) const noexcept;
  std::size_t give_back(Lock& lock, Segment* segments) noexcept;
  const Piece* oldest_pending() const noexcept;
  void forget_waited(const PositionSet& waited) noexcept;
  bool waits_again(Lock& lock, Patience& patience, bool progress);
  bool wait_for_oldest(Lock& lock, std::uint64_t newest);
  bool wait_for_return(Lock& lock);
  void book(Piece* piece, std::size_t bytes) noexcept;
  void at_fork(ForkMoment moment) noexcept;
  MemoryStats stats_now() const;
  [[noreturn]] void throw_out_of_memory(std::size_t bytes, std::size_t size) const;

  const std::string_view name_;
  const std::unique_ptr<MemorySource> source_;
  const std::size_t release_threshold_;

  mutable ShortMutex mutex_;
  NodeStore<Segment> segment_nodes_;
  Linked<Segment> segments_;  // oldest first
  MemoryStats stats_;
  std::size_t limit_ = 0;
  std::uint64_t stamp_ = 0;
  std::size_t expected_ = 0;     // bytes: reserved already, and not there yet
  std::size_t returning_ = 0;    // bytes: reserved still, and nobody's
  std::atomic<int> returns_{0};  // times that some of it has gone
  History history_;
  const ForkWatch forks_;  // last: it may call at once
};

}  // namespace sluice::detail
