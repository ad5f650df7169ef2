#pragma once

#include <sluice/engine/detail/core.h>

namespace sluice::detail {

/// Whoever takes a Var's lock, or another that forks must find free, does so while one of these lives: a fork waits
/// for it.
class InLists {
 public:
  explicit InLists(Core& core) noexcept : core_(core), here_(this_thread()) { core_.enter_lists(here_); }
  InLists(const InLists&) = delete;
  InLists& operator=(const InLists&) = delete;
  ~InLists() { core_.leave_lists(here_); }

 private:
  Core& core_;
  const ThisThread& here_;
};

}  // namespace sluice::detail
