#pragma once

// Memory that runs out: a program that links scarce.cpp can have the n-th allocation on the host fail, whichever thread
// makes it, and then sees what became of everything else. Every `operator new` counts.
#include <string>

#include "tests/support/plenty.h"

namespace sluice::test {

/// From arm() to disarm() the n-th allocation of the process throws std::bad_alloc, once. One at a time.
class Scarcity {
 public:
  explicit Scarcity(long nth) noexcept : nth_(nth) {}
  Scarcity(const Scarcity&) = delete;
  Scarcity& operator=(const Scarcity&) = delete;
  ~Scarcity() { disarm(); }

  void arm() noexcept;
  void disarm() noexcept;
  /// True once an allocation has failed.
  bool struck() const noexcept;
  /// Return addresses of the allocation that failed, for addr2line.
  static std::string where();

 private:
  const long nth_;
};

/// Allocations of this thread so far.
long allocations_here() noexcept;

}  // namespace sluice::test
