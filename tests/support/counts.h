#pragma once

namespace sluice::test {

/// Prints `test cases: N passed, N failed, N skipped` on a line of its own, once in a process. `one_more_failed` counts
/// the case that is running as failed. From any thread.
void print_counts(bool one_more_failed);

}  // namespace sluice::test
