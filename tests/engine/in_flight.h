#pragma once

// Tasks that alone hold memory: what the engine counts as bytes in flight.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include <sluice/engine/api.h>

#include "tests/support/gate.h"

namespace sluice::test {

inline constexpr std::uint64_t k_block = std::uint64_t{64} << 10;

/// Pushes a task that writes `bytes` of memory which nobody else holds; `task` says what else it is.
template <class Body>
TaskHandle push_holder(Engine& engine, Task task, Body&& body, std::uint64_t bytes = k_block) {
  const Var memory = engine.new_var({.home = task.device, .bytes = bytes});
  task.access.push_back(out(memory));
  return engine.push(task, std::forward<Body>(body));
}

/// A gate at which threads sleep: they use no core.
class QuietGate {
 public:
  void open() const {
    const std::lock_guard hold(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }
  void wait() const {
    std::unique_lock hold(state_->mutex);
    state_->changed.wait_for(hold, k_patience, [&] { return state_->open; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Computes until `holds()`: a body that uses its core. False if it never held.
template <class Condition>
bool compute_until(Condition&& holds) {
  const auto limit = std::chrono::steady_clock::now() + k_patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > limit)
      return false;
  }
  return true;
}

}  // namespace sluice::test
