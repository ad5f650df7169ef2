#pragma once

// Order in tests is proven with gates, never with sleeps: a task waits on a gate until the test opens it, so whatever
// the test sees meanwhile cannot be luck. Every wait ends after a limit, so a broken engine fails a test instead of
// hanging it.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace sluice::test {

inline constexpr std::chrono::seconds k_patience{60};

/// True once `holds()` is; false if it never became so.
template <class Condition>
bool eventually(Condition&& holds) {
  const auto limit = std::chrono::steady_clock::now() + k_patience;
  for (int looks = 0; !holds(); ++looks) {
    if (std::chrono::steady_clock::now() > limit)
      return false;
    if (looks < 64) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return true;
}

/// A gate that tasks wait on. Copies are the same gate, so that bodies may hold one by value.
class Gate {
 public:
  void open() const noexcept { state_->open.store(true, std::memory_order_release); }
  bool is_open() const noexcept { return state_->open.load(std::memory_order_acquire); }

  /// Called in a body: blocks until the gate is open. False if that never happened.
  bool wait() const {
    state_->inside.fetch_add(1);
    const bool opened = eventually([this] { return is_open(); });
    state_->inside.fetch_sub(1);
    return opened;
  }
  /// Number of threads that wait now.
  int inside() const noexcept { return state_->inside.load(); }
  /// Called by the test: blocks until `n` bodies stand at the gate.
  bool reached(int n = 1) const {
    return eventually([this, n] { return inside() >= n; });
  }

 private:
  struct State {
    std::atomic<bool> open{false};
    std::atomic<int> inside{0};
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Opens its gate at the end of the scope, whatever the test does: an engine that drains never waits for a closed gate.
class OpensAtEnd {
 public:
  explicit OpensAtEnd(Gate gate) : gate_(std::move(gate)) {}
  OpensAtEnd(const OpensAtEnd&) = delete;
  OpensAtEnd& operator=(const OpensAtEnd&) = delete;
  ~OpensAtEnd() { gate_.open(); }

 private:
  Gate gate_;
};

/// A place where `n` threads meet: proof that they run at the same time.
class Meeting {
 public:
  explicit Meeting(int n) : state_(std::make_shared<State>()) { state_->missing = n; }
  /// False if the others never came.
  bool join() const {
    state_->missing.fetch_sub(1);
    return eventually([this] { return state_->missing.load() <= 0; });
  }

 private:
  struct State {
    std::atomic<int> missing{0};
  };
  std::shared_ptr<State> state_;
};

/// The most that were inside at the same time.
class Peak {
 public:
  void enter(int n = 1) noexcept {
    const int now = inside_.fetch_add(n) + n;
    for (int seen = peak_.load(); seen < now && !peak_.compare_exchange_weak(seen, now);) {
    }
  }
  void leave(int n = 1) noexcept { inside_.fetch_sub(n); }
  int peak() const noexcept { return peak_.load(); }

 private:
  std::atomic<int> inside_{0}, peak_{0};
};

}  // namespace sluice::test
