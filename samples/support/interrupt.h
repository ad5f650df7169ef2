#pragma once

#include <stdexcept>
#include <string>

namespace samples {

/// From the first call on, Ctrl-C and SIGTERM set a flag instead of ending the process; a second signal of either
/// kind ends it at once. SIGHUP (the terminal has gone) sets it too, unless it was ignored (nohup).
void catch_interrupts();
/// For programs that print by what survives it (terminal.h): printing into a pipe that nobody reads any more (SIGPIPE)
/// sets that flag too, any number of times, and a file that may not grow any more (SIGXFSZ) is a failed write.
void catch_lost_outputs();
bool interrupted() noexcept;
/// The exit code that says so: 128 and the signal's number (130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, 141
/// after SIGPIPE).
int interrupt_code() noexcept;

/// The end of a program that was interrupted: run_main() says the text and returns interrupt_code().
class Interrupted : public std::runtime_error {
  using runtime_error::runtime_error;
};

/// Between two steps of a program that catches interrupts: throws Interrupted if a signal has come. `left`: what there
/// is of its work, for the message.
void end_if_interrupted(const std::string& left = "nothing was saved");

}  // namespace samples
