#pragma once

#include <mutex>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/group_state.h>

namespace sluice::detail {

/// A fork that comes while it lives finds the locks of Vars free.
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

/// Holds the mutex. Whoever does is inside the lists, so that a fork finds it free.
struct GroupState::Hold {
  explicit Hold(GroupState& group) noexcept : in_lists(group.core_), locked(group.mutex_) {}

  const InLists in_lists;
  const std::lock_guard<std::mutex> locked;
};

}  // namespace sluice::detail
