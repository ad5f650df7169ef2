#pragma once

#include <atomic>

namespace sluice::test {

/// What a program has to say of itself when a test case makes no progress, on standard error; null if nothing.
inline std::atomic<void (*)()> hang_report{nullptr};

}  // namespace sluice::test
