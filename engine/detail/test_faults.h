#pragma once

#include <atomic>

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
  /// No thread can be started for a library's team, as where the system has no more.
  std::atomic<bool> no_team_threads{false};
};

SLUICE_API TestFaults& test_faults() noexcept;

}  // namespace sluice::detail
