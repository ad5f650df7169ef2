// Replays of a region that report while others are on their way: on the simulated CUDA runtime.
#include <thread>

#include "tests/engine/sim_region.h"
#include "tests/engine/sim_reporting.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// A region of two tasks that report what they are told to, the second behind a gate.
struct TwoReporters {
  explicit TwoReporters(bool is_captured) : captured(is_captured) {}

  void round() {
    region.run(1, [&] {
      engine.push(on_gpu("first", {out(x)}, true), [this](Queue queue) {
        if (!captured)
          spoil(queue);
        sim_launch(queue, [this, word = queue.error_word()] {
          if (first >= 0)
            report(word, first, 77);
          ++ran;
        });
      });
      engine.push(on_gpu("second", {read(x), out(y)}, true), [this](Queue queue) {
        sim_launch(queue, [this, word = queue.error_word()] {
          while (!gate)
            std::this_thread::yield();
          if (second >= 0)
            report(word, second, 77);
        });
      });
    });
  }
  /// Both tasks of `count` rounds report, the second's after somebody has looked at the first's.
  void bad_rounds(int count) {
    ran = 0;
    first = 40;
    second = 41;
    gate = false;
    for (int i = 0; i < count; ++i)
      round();
    engine.flush();
    REQUIRE(eventually([&] { return ran >= 1; }));
    engine.push(on_gpu("beside", {write(other)}, false), [](Queue queue) { sim_launch(queue, [] {}); });
    engine.wait(other);
    gate = true;
  }
  std::string good_round() {
    first = second = -1;
    gate = true;
    round();
    return text_of_error([&] { engine.wait(y); });
  }

  Sim sim;
  Engine engine{{.workers = 1}};
  Var x = engine.new_var(), y = engine.new_var(), other = engine.new_var();
  std::atomic<long long> first{-1}, second{-1};
  std::atomic<bool> gate{true};
  std::atomic<int> ran{0};
  bool captured;
  Region region{engine, gpu(0), "plan"};
};

}  // namespace

TEST_CASE("A good replay is not told what an earlier one reports late", "[sim][reports][region]") {
  for (const bool captured : {true, false}) {
    for (const int rounds : {1, 2}) {
      CAPTURE(captured, rounds);
      TwoReporters two(captured);
      REQUIRE(two.good_round() == "");
      two.bad_rounds(rounds);
      CHECK_THAT(text_of_error([&] { two.engine.wait(two.y); }), contains("index 4"));
      for (int i = 0; i < 3; ++i)
        CHECK(two.good_round() == "");
    }
  }
}

TEST_CASE("Replays that nobody waits for share a bounded number of words", "[sim][reports][region]") {
  constexpr int k_rounds = 3000, k_most_allocations = 8;  // 24 and more without a bound
  TwoReporters two(false);
  REQUIRE(two.good_round() == "");
  const int before = sim::calls("cudaHostAlloc");
  for (int i = 0; i < k_rounds; ++i) {
    two.round();
    if (i % 100 == 0) {
      two.engine.flush();
      REQUIRE(eventually([] { return sim::idle(); }));
    }
  }
  two.engine.flush();
  REQUIRE(eventually([] { return sim::idle(); }));
  CHECK(sim::calls("cudaHostAlloc") - before <= k_most_allocations);
  CHECK_NOTHROW(two.engine.wait(two.y));
}

TEST_CASE("A region that is captured at last refuses nothing any more", "[sim][region]") {
  TwoReporters two(false);
  REQUIRE(two.good_round() == "");
  REQUIRE(two.region.refusal().has_value());
  two.captured = true;
  two.region.forget();
  CHECK(two.good_round() == "");
  CHECK(two.good_round() == "");
  CHECK(two.region.counts().launched == 2);
  CHECK_FALSE(two.region.refusal().has_value());
}
