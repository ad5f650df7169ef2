// Signals that come while a library computes. A handler's frame is written below the stack pointer: it must lie in the
// thread's stack whenever a handler can run.
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <pthread.h>
#include <thread>
#include <ucontext.h>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

std::atomic<std::uintptr_t> stack_begin, stack_end;
std::atomic<int> handled, beside_stack;

std::uintptr_t stack_pointer(const ucontext_t& context) {
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RSP]);
#else
  return static_cast<std::uintptr_t>(context.uc_mcontext.sp);
#endif
}

// Runs on a stack of its own, so that it can tell of a stray stack pointer without writing there.
void on_signal(int /*signal*/, siginfo_t* /*info*/, void* context) {
  const std::uintptr_t pointer = stack_pointer(*static_cast<const ucontext_t*>(context));
  ++handled;
  if (pointer < stack_begin || pointer > stack_end)
    ++beside_stack;
}

void note_own_stack() {
  pthread_attr_t attributes;
  REQUIRE(pthread_getattr_np(pthread_self(), &attributes) == 0);
  void* lowest = nullptr;
  std::size_t size = 0;
  pthread_attr_getstack(&attributes, &lowest, &size);
  pthread_attr_destroy(&attributes);
  stack_begin = reinterpret_cast<std::uintptr_t>(lowest);
  stack_end = stack_begin + size;
}

// While it lives, the thread that made it gets one SIGUSR1 after the other.
class Signals {
 public:
  Signals() {
    note_own_stack();
    handled = beside_stack = 0;
    const stack_t handlers{.ss_sp = handler_stack_.data(), .ss_flags = 0, .ss_size = handler_stack_.size()};
    REQUIRE(sigaltstack(&handlers, &stack_before_) == 0);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    REQUIRE(sigaction(SIGUSR1, &action, &before_) == 0);
    sender_ = std::thread([this, to = pthread_self()] {
      while (!done_) {
        const int seen = handled;
        pthread_kill(to, SIGUSR1);
        while (!done_ && handled == seen)
          std::this_thread::yield();
      }
    });
  }
  ~Signals() {
    done_ = true;
    sender_.join();
    sigaction(SIGUSR1, &before_, nullptr);
    sigaltstack(&stack_before_, nullptr);
  }

 private:
  std::vector<std::byte> handler_stack_ = std::vector<std::byte>(256 * 1024);
  stack_t stack_before_ = {};
  struct sigaction before_ = {};
  std::atomic<bool> done_{false};
  std::thread sender_;
};

}  // namespace

// oneDNN's products point the stack at their workspace until version 3.11.1: Ctrl-C then destroyed the heap.
TEST_CASE("Signals do not find the stack pointer in a library's workspace", "[operator][signals]") {
  Engine engine({.cpu_policy = CpuMode::serial, .seed = 1});
  const EngineScope scope(engine);
  const NDArray a = sluice::random::uniform({256, 784}), b = sluice::random::uniform({784, 32});
  const NDArray images = sluice::random::uniform({8, 16, 14, 14}), weights = sluice::random::uniform({32, 16, 3, 3});
  engine.wait_all();
  const Signals signals;
  while (handled < 2000) {
    (void)matmul(a, b);
    (void)matmul(b.T(), a.T());
    (void)convolution(images, weights, {});
    engine.wait_all();
  }
  CHECK(beside_stack == 0);
}
