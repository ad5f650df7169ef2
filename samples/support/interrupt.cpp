#include "samples/support/interrupt.h"

#include <csignal>

namespace samples {

namespace {
volatile std::sig_atomic_t was_interrupted = 0;

void on_interrupt(int) {
  was_interrupted = 1;
}
}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

bool interrupted() noexcept {
  return was_interrupted != 0;
}

}  // namespace samples
