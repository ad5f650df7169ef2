#pragma once

#include <sluice/engine/detail/policy.h>
#include <sluice/engine/detail/this_thread.h>

namespace sluice::detail {

/// The body on this thread, of the engine with that policy, is about to block: another thread may take its place there
/// and, where it runs on top of another engine's body, in the pool whose worker this is. True if in the latter too.
inline bool give_thread(ThisThread& here, CpuPolicy& policy) {
  policy.before_block();  // may run bodies here, hence first
  if (here.pool == nullptr || here.pool_given)
    return false;
  if (here.pool != &policy)
    here.pool->before_block();
  return here.pool_given = true;
}

inline void take_thread_back(ThisThread& here, CpuPolicy& policy, bool gave_pool) {
  if (gave_pool && here.pool != &policy)
    here.pool->after_block();
  if (gave_pool)
    here.pool_given = false;
  policy.after_block();
}

/// While it lives, the body on this thread blocks; nothing in a BlockingScope.
class GivenThread {
 public:
  GivenThread(ThisThread& here, CpuPolicy& policy) : here_(here) {
    if (here.blocking)
      return;
    policy_ = &policy;
    gave_pool_ = give_thread(here, policy);
  }
  GivenThread(const GivenThread&) = delete;
  GivenThread& operator=(const GivenThread&) = delete;
  ~GivenThread() {
    if (policy_ != nullptr)
      take_thread_back(here_, *policy_, gave_pool_);
  }

 private:
  ThisThread& here_;
  CpuPolicy* policy_ = nullptr;
  bool gave_pool_ = false;
};

}  // namespace sluice::detail
