// What a body may ask of the thread that runs it.
#include <sluice/engine/blocking_scope.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/given_thread.h>
#include <sluice/engine/queue.h>
#include <sluice/engine/worker_local.h>

namespace sluice {

static_assert(detail::k_local_places == detail::k_slots && detail::k_shared_slot == detail::k_slots - 1);

int detail::local_place() noexcept {
  return this_thread().slot;
}

int Queue::worker() const noexcept {
  const detail::ThisThread& here = detail::this_thread();
  return here.pool == nullptr || here.core == nullptr || here.pool != &here.core->cpu() ? -1 : here.pool->worker_here();
}

BlockingScope::BlockingScope() {
  detail::ThisThread& here = detail::this_thread();
  if (here.task == nullptr || !here.task->device.is_cpu() || here.blocking)
    return;
  gave_pool_ = detail::give_thread(here, here.core->cpu());
  here.blocking = blocks_ = true;
}

BlockingScope::~BlockingScope() {
  if (!blocks_)
    return;
  detail::ThisThread& here = detail::this_thread();
  here.blocking = false;
  detail::take_thread_back(here, here.core->cpu(), gave_pool_);
}

}  // namespace sluice
