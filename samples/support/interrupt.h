#pragma once

namespace samples {

/// From the first call on, Ctrl-C and SIGTERM set a flag instead of ending the process; a second signal of either
/// kind ends it at once. SIGHUP (the terminal has gone) sets it too, unless it was ignored (nohup). Printing into a
/// pipe that nobody reads any more (SIGPIPE) sets that flag too, any number of times. A file that may not grow any more
/// (SIGXFSZ) then is a failed write, not the end.
void catch_interrupts();
bool interrupted() noexcept;
/// The exit code that says so: 128 and the signal's number (130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, 141
/// after SIGPIPE).
int interrupt_code() noexcept;

}  // namespace samples
