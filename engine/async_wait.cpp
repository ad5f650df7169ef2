// Waits that occupy no thread: a probe of a Var that tells a WaitObserver. Its access ends at once, so that GPU tasks
// after it may be issued; the GPU work before it is then waited for by the thread that watches fences.
#include <new>

#include <sluice/engine/detail/block_pool.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/pending_wait.h>

namespace sluice {

namespace detail {

/// A wait, as its PendingWaits and its node share it. Who takes it tells the WaitObserver, and nobody else.
struct WaitRecord {
  std::atomic<int> references{1};
  std::atomic<bool> taken{false};
  WaitObserver* observer = nullptr;
  TaskNode* node = nullptr;  // until it is started

  bool take() noexcept { return !taken.exchange(true, std::memory_order_acq_rel); }
  void drop() noexcept {
    if (references.fetch_sub(1, std::memory_order_acq_rel) != 1)
      return;
    if (node != nullptr) {
      Core::discard(node);
      Core::drop(node, TaskNode::k_handle);
    }
    this->~WaitRecord();
    give_block(this, sizeof(WaitRecord));
  }
};

void Core::conclude(TaskNode* task) noexcept {
  const PositionSet& positions = task->extras()->result.positions;
  if (positions.empty() || passed(positions) || cpu_->waits_for_gpu())
    return end_async_wait(task, nullptr);
  FailureRef failure;
  try {
    return gpu()->fence(task, positions);
  } catch (...) {  // out of memory
    failure = capture_failure(record_of(task));
  }
  end_async_wait(task, std::move(failure));
}

void Core::end_async_wait(TaskNode* task, FailureRef failure) noexcept {
  WaitRecord* record = task->extras()->wait_record;
  if (record->take()) {
    std::exception_ptr error;
    try {
      if (failure != nullptr) {
        failure->record->reported.store(true);
        std::rethrow_exception(failure->exception);
      }
      wait_positions(
          task->extras()->result.positions);  // passed, but for the serial policy: throws what kernels reported
      rethrow_any_failure_of(*task);
    } catch (...) {
      error = std::current_exception();
    }
    record->observer->complete(std::move(error));
  }
  record->drop();
  close_task(task);
}

}  // namespace detail

PendingWait::PendingWait(Access access, WaitObserver& observer) {
  require(access.var != nullptr, [] { return std::string("async_wait: an empty Var"); });
  if (access.mode != AccessMode::read)
    access.mode = AccessMode::write;
  record_ = ::new (detail::take_block(sizeof(detail::WaitRecord))) detail::WaitRecord;
  record_->observer = &observer;
  try {
    record_->node = access.var->core->make_bodiless(access, detail::TaskKind::async_probe, "async_wait");
    record_->node->need_extras().wait_record = record_;
  } catch (...) {
    record_->drop();
    throw;
  }
}

PendingWait::PendingWait(const PendingWait& other) noexcept : record_(other.record_) {
  record_->references.fetch_add(1, std::memory_order_relaxed);
}

PendingWait::~PendingWait() {
  record_->drop();
}

detail::TaskNode* PendingWait::node() const noexcept {
  return record_->node;
}

void PendingWait::start() const {
  record_->references.fetch_add(1, std::memory_order_relaxed);  // the node's
  detail::TaskNode* node = std::exchange(record_->node, nullptr);
  detail::Core* core = node->core;
  core->retain();  // whom the observer tells may end the engine before this returns
  core->push(node);
  detail::Core::drop(node, detail::TaskNode::k_handle);
  core->cpu().before_wait();
  core->release();
}

bool PendingWait::cancel(std::exception_ptr error) const noexcept {
  if (!record_->take())
    return false;
  record_->observer->complete(std::move(error));
  return true;
}

}  // namespace sluice
