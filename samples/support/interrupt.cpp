#include "samples/support/interrupt.h"

#include <csignal>

namespace samples {

namespace {

volatile std::sig_atomic_t caught = 0;

void act(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

void on_interrupt(int signal) {
  caught = signal;
  act(SIGINT, SIG_DFL);
  act(SIGTERM, SIG_DFL);
}

// A terminal that goes tells twice, as its shell and as itself, and a session that ends sends SIGTERM behind it: none
// of them is a wish to end at once.
void on_hangup(int signal) {
  if (caught == 0)
    caught = signal;
}

// Nobody reads what is printed: training stops as after Ctrl-C, which counts where both come (Ctrl-C ends `tee` too).
void on_closed_pipe(int signal) {
  if (caught == 0)
    caught = signal;
}

}  // namespace

void catch_interrupts() {
  act(SIGINT, on_interrupt);
  act(SIGTERM, on_interrupt);
  struct sigaction before = {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)  // as nohup leaves it
    act(SIGHUP, on_hangup);
}

void catch_lost_outputs() {
  act(SIGPIPE, on_closed_pipe);
  act(SIGXFSZ, SIG_IGN);
}

bool interrupted() noexcept {
  return caught != 0;
}

int interrupt_code() noexcept {
  return 128 + static_cast<int>(caught);
}

void end_if_interrupted(const std::string& left) {
  if (interrupted())
    throw Interrupted("interrupted; " + left);
}

}  // namespace samples
