#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "tests/gluon/support.h"
#include "tests/support/gate.h"

namespace sluice::test {

/// Doubles its samples of three numbers. Once it is held, each batch waits at the gate, and
/// says before that it has come; a negative number is refused.
struct Held {
  std::mutex mutex;
  std::vector<std::vector<float>> batches;  // as the network saw them
  std::atomic<bool> holds{false};
  std::atomic<int> arrived{0};
  Gate gate;
  gluon::nn::Lambda net{[this](const NDArray& x) { return run(x); }};

  NDArray run(const NDArray& x) {
    std::vector<float> seen = x.to_vector<float>();
    if (!holds)
      return x * 2.0;
    {
      const std::lock_guard hold(mutex);
      batches.push_back(seen);
    }
    ++arrived;
    arrived.notify_all();
    gate.wait();
    require<ValueError>(
        std::none_of(seen.begin(), seen.end(), [](float v) { return v < 0; }), [] { return "a negative number"; });
    return x * 2.0;
  }
  void await(int count) {
    for (int now = arrived; now < count; now = arrived)
      arrived.wait(now);
  }
  gluon::ServerOptions options() const { return {.sample = {3}, .max_batch = 4, .threads = 1, .hybridize = false}; }
};

inline std::vector<float> sample(float value) {
  return {value, value + 0.25f, value + 0.5f};
}
inline std::vector<float> doubled(float value) {
  return {2 * value, 2 * value + 0.5f, 2 * value + 1};
}

// The first one is alone in its batch: it has arrived before the others come.
inline std::vector<gluon::ServerReply> hand_in(Held& held, gluon::Server& server, int count) {
  std::vector<gluon::ServerReply> replies;
  held.holds = true;
  for (int i = 0; i < count; ++i) {
    replies.push_back(server.submit(sample(static_cast<float>(i))));
    if (i == 0)
      held.await(1);
  }
  return replies;
}

}  // namespace sluice::test
