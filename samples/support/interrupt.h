#pragma once

namespace samples {

/// From the first call on, Ctrl-C sets a flag instead of ending the process; a second one ends it.
void catch_interrupts();
bool interrupted() noexcept;

}  // namespace samples
