#include <algorithm>
#include <utility>

#include <sluice/engine/blocking_scope.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/detail/server_queue.h>
#include <sluice/gluon/server.h>

namespace sluice::gluon::detail {

// Of those that wait all are full but one, and each taker has one.
ServerQueue::ServerQueue(const Limits& limits, std::function<std::unique_ptr<ServerBatch>()> make)
    : limits_(limits),
      make_(std::move(make)),
      most_batches_(
          limits.takers + static_cast<std::size_t>((limits.max_queue + limits.max_batch - 1) / limits.max_batch) + 1) {}

bool ServerQueue::may_open() const noexcept {
  return open_ != nullptr || !free_.empty() || all_.size() + making_ < most_batches_;
}

// Without the lock, as pinned memory takes its time.
void ServerQueue::add_batch(std::unique_lock<std::mutex>& hold) {
  ++making_;
  hold.unlock();
  std::unique_ptr<ServerBatch> made;
  std::exception_ptr error;
  try {
    made = make_();
  } catch (...) {
    error = std::current_exception();
  }
  hold.lock();
  --making_;
  room_.notify_all();
  if (error != nullptr)
    std::rethrow_exception(error);
  free_.reserve(all_.size() + 1);
  all_.push_back(std::move(made));
  free_.push_back(all_.back().get());
}

void ServerQueue::open() {
  auto answer = std::make_shared<ServerAnswer>();
  open_ = free_.back();
  open_->answer = std::move(answer);
  free_.pop_back();
}

// No place is left: to the end of those that wait.
void ServerQueue::close() noexcept {
  (first_full_ == nullptr ? first_full_ : last_full_->next) = open_;
  last_full_ = std::exchange(open_, nullptr);
}

// What runs in this thread's place meanwhile may hand in samples too: without the lock.
void ServerQueue::rest(std::unique_lock<std::mutex>& hold) {
  hold.unlock();
  {
    const BlockingScope blocks;
    hold.lock();
    ++resting_;
    room_.wait(hold, [this] { return stopped_ || (waiting_ < limits_.max_queue && may_open()); });
    --resting_;
    hold.unlock();
  }
  hold.lock();
}

ServerQueue::Place ServerQueue::reserve(bool may_rest) {
  const Clock::time_point now = Clock::now();
  std::unique_lock hold(mutex_);
  while (stopped_ || waiting_ >= limits_.max_queue || open_ == nullptr) {
    require<ServerStopped>(!stopped_, [] { return "the server has stopped and takes no more requests"; });
    const bool full = waiting_ >= limits_.max_queue, must_rest = full || !may_open();
    const bool refuses = (full && limits_.refuses) || (must_rest && !may_rest);
    refused_ += refuses ? 1 : 0;
    require<ServerBusy>(!refuses, [&] {
      return message(
          "the server is busy: ",
          waiting_,
          " requests wait, which is all that may",
          may_rest ? "" : "; on a thread of its own nobody waits for room");
    });
    if (must_rest)
      rest(hold);
    else if (free_.empty())
      add_batch(hold);
    else
      open();
  }
  const Place place{open_, open_->taken++, open_->answer};
  open_->begun[static_cast<std::size_t>(place.row)] = now;
  ++waiting_;
  if (open_->taken == limits_.max_batch)
    close();
  if (place.row == 0 || open_ == nullptr)
    work_.notify_one();
  return place;
}

// With the lock held: full batches, and the open one when its first sample has waited for long enough.
ServerBatch* ServerQueue::next(std::unique_lock<std::mutex>& hold) {
  for (;;) {
    if (ServerBatch* const batch = first_full_; batch != nullptr) {
      first_full_ = std::exchange(batch->next, nullptr);
      return batch;
    }
    if (open_ == nullptr && stopped_)
      return nullptr;
    if (open_ == nullptr) {
      work_.wait(hold);
      continue;
    }
    const Clock::time_point due = open_->begun[0] + limits_.max_delay;
    if (stopped_ || limits_.max_delay.count() == 0 || Clock::now() >= due)
      return std::exchange(open_, nullptr);
    work_.wait_until(hold, due);
  }
}

ServerBatch* ServerQueue::take() {
  ServerBatch* batch = nullptr;
  {
    std::unique_lock hold(mutex_);
    batch = next(hold);
    if (batch == nullptr)
      return nullptr;
    waiting_ -= batch->taken;
    if (resting_ > 0)
      room_.notify_all();
  }
  batch->answer->wait_filled(batch->taken);
  return batch;
}

void ServerQueue::give_back(ServerBatch& batch) noexcept {
  const std::lock_guard hold(mutex_);
  batch.taken = 0;
  batch.answer.reset();
  free_.push_back(&batch);
  if (resting_ > 0)
    room_.notify_all();
}

void ServerQueue::drop(ServerBatch& batch) noexcept {
  std::unique_ptr<ServerBatch> gone;
  const std::lock_guard hold(mutex_);
  const auto at = std::find_if(all_.begin(), all_.end(), [&](const auto& one) { return one.get() == &batch; });
  gone = std::move(*at);
  all_.erase(at);
  room_.notify_all();
}

void ServerQueue::stop() noexcept {
  const std::lock_guard hold(mutex_);
  stopped_ = true;
  work_.notify_all();
  room_.notify_all();
}

std::int64_t ServerQueue::waiting() const {
  const std::lock_guard hold(mutex_);
  return waiting_;
}

std::uint64_t ServerQueue::refused() const {
  const std::lock_guard hold(mutex_);
  return refused_;
}

}  // namespace sluice::gluon::detail
