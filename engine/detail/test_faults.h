#pragma once

#include <atomic>

#include <sluice/engine/detail/spin_lock.h>
#include <sluice/engine/export.h>

namespace sluice::detail {

/// Faults that tests plant to show that they would notice a broken engine. All zero: no fault.
struct TestFaults {
  /// Every n-th task is queued without the last of its accesses, so nothing orders it there.
  std::atomic<int> drop_every_nth_edge{0};
  /// No batch of GPU tasks is launched because nobody adds to it: for tests that must know what a batch holds, however
  /// slow the machine is.
  std::atomic<bool> keep_batches_open{false};
  /// The driver does not tell which kernels a graph holds.
  std::atomic<bool> kernels_unnamed{false};
  /// No worker beyond so many can be started, as where the system has no more threads.
  std::atomic<int> most_workers{1 << 20};
  /// Not null: a lock that nobody is to hold where a thread passes a heavy fence or wakes another. How often that was
  /// looked at, and it was held.
  std::atomic<SpinLock*> probed{nullptr};
  std::atomic<int> probes{0}, found_held{0};
  /// No thread can be started for a library's team, as where the system has no more.
  std::atomic<bool> no_team_threads{false};
  /// The least microseconds between two looks of the thread that watches GPUs. No fault: where kernels are functions of
  /// the host, looking more often takes more of the processor than they do.
  std::atomic<int> poller_sleeps{0};
};

SLUICE_API TestFaults& test_faults() noexcept;

inline void probe_lock() noexcept {
  TestFaults& faults = test_faults();
  SpinLock* const lock = faults.probed.load(std::memory_order_relaxed);
  if (lock == nullptr) [[likely]]
    return;
  faults.probes.fetch_add(1);
  if (lock->try_lock())
    lock->unlock();
  else
    faults.found_held.fetch_add(1);
}

}  // namespace sluice::detail
