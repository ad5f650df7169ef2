#pragma once

namespace sluice::detail {

/// Slots for what each thread counts for itself. All but the last belong to one living thread each; threads beyond
/// that share the last.
inline constexpr int k_slots = 64;
inline constexpr int k_shared_slot = k_slots - 1;

/// Takes a slot for the calling thread, which gives it back when it ends. Called once a thread; ThisThread keeps it.
int take_thread_slot() noexcept;

/// In a forked child, which has the calling thread alone.
void keep_only_slot(int mine) noexcept;

}  // namespace sluice::detail
