#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <sluice/engine/detail/trace_span.h>
#include <sluice/gluon/detail/server_answer.h>

namespace sluice::gluon::detail {

/// Requests that will run together. Whoever got a place writes its sample there by itself, beside the others.
struct ServerBatch {
  using Clock = std::chrono::steady_clock;

  explicit ServerBatch(std::int64_t places) : begun(static_cast<std::size_t>(places)) {}
  ServerBatch(const ServerBatch&) = delete;
  ServerBatch& operator=(const ServerBatch&) = delete;
  virtual ~ServerBatch() = default;

  std::int64_t taken = 0;                // places, under the queue's lock until the batch is taken
  std::vector<Clock::time_point> begun;  // by place
  ServerBatch* next = nullptr;           // among those that are full
  std::shared_ptr<ServerAnswer> answer = {};
  std::unique_ptr<sluice::detail::TraceSpan> span = {};  // while it waits, if the engine is traced
};

/// Gathers requests to batches, for threads that take them. Any thread.
class ServerQueue {
 public:
  using Clock = ServerBatch::Clock;
  struct Limits {
    std::int64_t max_batch, max_queue;
    std::chrono::microseconds max_delay;
    bool refuses;  // rather than wait
    std::size_t takers;
  };
  struct Place {
    ServerBatch* batch;
    std::int64_t row;
    std::shared_ptr<ServerAnswer> answer;
  };

  /// `make` gives batches, as many as are under way at once.
  ServerQueue(const Limits& limits, std::function<std::unique_ptr<ServerBatch>()> make);

  /// A place in the batch that fills now. The caller must say answer->note_filled(), whatever comes. Waits for room if
  /// it may. Throws ServerBusy, ServerStopped, and what `make` throws.
  Place reserve(bool may_rest);

  /// Waits for the next batch, all of whose places are written; the caller gives it back. Null: there will be none.
  ServerBatch* take();
  void give_back(ServerBatch& batch) noexcept;
  /// Where it cannot be used again.
  void drop(ServerBatch& batch) noexcept;
  /// What was handed in is still there to be taken.
  void stop() noexcept;

  std::int64_t waiting() const;
  std::uint64_t refused() const;

 private:
  bool may_open() const noexcept;
  void add_batch(std::unique_lock<std::mutex>& hold);
  void open();
  void rest(std::unique_lock<std::mutex>& hold);
  void close() noexcept;
  ServerBatch* next(std::unique_lock<std::mutex>& hold);

  const Limits limits_;
  const std::function<std::unique_ptr<ServerBatch>()> make_;
  const std::size_t most_batches_;
  mutable std::mutex mutex_;
  std::condition_variable work_;  // for takers
  std::condition_variable room_;  // for those who hand in
  bool stopped_ = false;
  ServerBatch* open_ = nullptr;        // has places left, and one that is taken
  ServerBatch* first_full_ = nullptr;  // in the order in which they were opened
  ServerBatch* last_full_ = nullptr;
  std::vector<ServerBatch*> free_;  // the one used last is taken first
  std::vector<std::unique_ptr<ServerBatch>> all_;
  std::size_t making_ = 0;
  std::int64_t waiting_ = 0;
  std::size_t resting_ = 0;  // who wait for room
  std::uint64_t refused_ = 0;
};

}  // namespace sluice::gluon::detail
