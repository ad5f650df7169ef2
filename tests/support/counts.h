#pragma once

#include <string>

namespace sluice::test {

/// Prints `test cases: N passed, N failed, N skipped` on a line of its own, once in a process. `one_more_failed` counts
/// the case that is running as failed. From any thread.
void print_counts(bool one_more_failed);

/// What the runtime that a program brings along (device_sim) has noticed since it was last asked: the case that has
/// just ended fails of it. "" if nothing; null where there is no such runtime.
[[gnu::weak]] std::string take_noticed();

}  // namespace sluice::test
