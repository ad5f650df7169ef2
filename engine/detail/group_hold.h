#pragma once

#include <mutex>

#include <sluice/engine/detail/group_state.h>
#include <sluice/engine/detail/in_lists.h>

namespace sluice::detail {

/// Holds the mutex. Whoever does is inside the lists, so that a fork finds it free.
struct GroupState::Hold {
  explicit Hold(GroupState& group) noexcept : in_lists(group.core_), locked(group.mutex_) {}

  const InLists in_lists;
  const std::lock_guard<std::mutex> locked;
};

}  // namespace sluice::detail
