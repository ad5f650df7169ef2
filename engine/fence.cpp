#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sluice/engine/detail/fence.h>
#include <sluice/engine/detail/test_faults.h>

namespace sluice::detail {

std::atomic<bool> membarrier_works{false};

void prepare_fences() noexcept {
#if !defined(__SANITIZE_THREAD__)
  membarrier_works.store(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0);
#endif
}

void heavy_fence() noexcept {
  probe_lock();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (membarrier_works.load(std::memory_order_relaxed))
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

}  // namespace sluice::detail
