#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include <sluice/engine/cuda/fences.h>
#include <sluice/engine/cuda/gpu.h>
#include <sluice/engine/detail/core.h>

namespace sluice::detail {

void Fences::add(Fence&& fence) {
  const std::lock_guard hold(mutex_);
  new_.push_back(std::move(fence));
  count_.fetch_add(1, std::memory_order_relaxed);
}

void Fences::add(TaskNode* task, const PositionSet& positions) {
  add(Fence{task, positions});
}

void Fences::add(std::promise<void>& waiter, Position position) {
  Fence fence{nullptr, {}, &waiter};
  fence.positions.add(position);
  add(std::move(fence));
}

bool Fences::passed(const Fence& fence) {
  for (Position position : fence.positions) {
    LogicalStream& logical = table_.of(position);
    Gpu& gpu = logical.gpu();
    gpu.loss.check_alive();
    if (logical.launched() < position.sequence()) {
      gpu.issuer.nudge();
      return false;
    }
    try {
      if (!logical.query(position.sequence()))
        return false;
    } catch (...) {
      gpu.loss.rethrow_if_lost();
    }
  }
  return true;
}

bool Fences::try_open(Fence& fence) {
  std::exception_ptr error;
  FailureRef failure;
  try {
    if (!passed(fence))
      return false;
  } catch (...) {
    error = std::current_exception();
    if (fence.task != nullptr)
      failure = capture_failure(core_.record_of(fence.task));
  }
  if (fence.task != nullptr)
    core_.run_fenced(fence.task, std::move(failure));
  else if (error != nullptr)
    fence.waiter->set_exception(error);
  else
    fence.waiter->set_value();
  return true;
}

// True if somebody wants to know.
bool Fences::look() noexcept {
  if (!asked_.exchange(false, std::memory_order_relaxed))
    return false;
  for (int i = 1; i < table_.count(); ++i) {
    LogicalStream& logical = table_.at(static_cast<std::uint16_t>(i));
    try {
      while (logical.done() < logical.launched() && logical.query(logical.done() + 1)) {
      }
    } catch (...) {  // a wait will say so
      logical.gpu().loss.note_if_lost();
    }
  }
  return true;
}

BackgroundPoller::Seen Fences::open() {
  const bool looked = look();
  {
    const std::lock_guard hold(mutex_);
    const std::size_t room = watched_.size() + new_.size();
    try {
      if (room > watched_.capacity())
        watched_.reserve(std::max(room, 2 * watched_.capacity()));
      std::move(new_.begin(), new_.end(), std::back_inserter(watched_));
      new_.clear();
    } catch (const std::bad_alloc&) {  // another look comes
    }
    if (room == 0)
      return looked ? BackgroundPoller::Seen::work : BackgroundPoller::Seen::nothing;
  }
  const auto opened = std::erase_if(watched_, [this](Fence& fence) { return try_open(fence); });
  count_.fetch_sub(static_cast<int>(opened), std::memory_order_relaxed);
  return opened > 0 ? BackgroundPoller::Seen::progress : BackgroundPoller::Seen::work;
}

}  // namespace sluice::detail
