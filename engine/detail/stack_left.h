#pragma once

namespace sluice::detail {

/// True if this thread's stack holds one more body on top of the one that waits. False on stacks that the program made
/// itself: where those end is not known.
bool stack_is_left() noexcept;
/// True if it is known not to.
bool stack_is_used_up() noexcept;

}  // namespace sluice::detail
