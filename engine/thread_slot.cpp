#include <cstddef>
#include <mutex>
#include <new>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/thread_slot.h>

namespace sluice::detail {

namespace {

struct Registry {
  std::mutex mutex;
  bool taken[k_slots] = {};
};

// Never destroyed: threads may outlive static objects. Without the heap, which a program's first thread may find empty.
Registry& registry() noexcept {
  alignas(Registry) static std::byte place[sizeof(Registry)];
  static auto* const all = ::new (place) Registry;
  return *all;
}

struct Lease {
  int slot = k_shared_slot;
  ~Lease() {
    this_thread().slot = k_shared_slot;  // for what other thread-local objects still do
    if (slot == k_shared_slot)
      return;
    const std::lock_guard hold(registry().mutex);
    registry().taken[slot] = false;
  }
};

}  // namespace

void keep_only_slot(int mine) noexcept {
  Registry& all = registry();
  ::new (&all.mutex) std::mutex;  // its holder is not in this process
  for (int slot = 0; slot < k_slots; ++slot)
    all.taken[slot] = slot == mine;
}

int take_thread_slot() noexcept {
  static thread_local Lease lease;
  Registry& all = registry();
  const std::lock_guard hold(all.mutex);
  for (int slot = 0; slot < k_shared_slot; ++slot) {
    if (all.taken[slot])
      continue;
    all.taken[slot] = true;
    lease.slot = slot;
    break;
  }
  return lease.slot;
}

}  // namespace sluice::detail
