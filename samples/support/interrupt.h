#pragma once

namespace samples {

/// From the first call on, Ctrl-C and SIGTERM set a flag instead of ending the process; a second signal of either
/// kind ends it at once. Printing into a pipe that nobody reads any more (SIGPIPE) sets that flag too, any number of
/// times. A file that may not grow any more (SIGXFSZ) then is a failed write, not the end.
void catch_interrupts();
bool interrupted() noexcept;
/// The exit code that says so: 128 and the signal's number (130 after Ctrl-C, 143 after SIGTERM, 141 after SIGPIPE).
int interrupt_code() noexcept;

}  // namespace samples
