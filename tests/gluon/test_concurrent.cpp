// The first forwards of a network, on several threads at once.
#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

TEST_CASE("concurrent first forwards initialise each parameter once", "[gluon][block][concurrent]") {
  constexpr int k_threads = 4;
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> made{0};
    const auto counted = [&](const NDArray& array) {
      ++made;
      fill(array, 0.5);
    };
    nn::Sequential net;
    net.add(nn::Conv2D(2, 3), nn::BatchNorm(), nn::Dense(3, {.flatten = true}), nn::Dense(2));
    net.initialize(counted);
    std::latch start(k_threads);
    std::vector<std::vector<float>> results(k_threads);
    std::vector<std::string> errors(k_threads);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < k_threads; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        try {
          results[i] = values(net(ones({2, 1, 5, 5})));
        } catch (const Error& error) {
          errors[i] = error.what();
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    for (const std::string& error : errors)
      CHECK(error.empty());
    for (const auto& result : results)
      CHECK(result == results[0]);
    CHECK(made == 3);  // weights; the rest have initialisers of their own
  }
}

TEST_CASE("concurrent first forwards of other widths: one wins, the others are errors", "[gluon][block][concurrent]") {
  for (int round = 0; round < 20; ++round) {
    nn::Dense layer(2);
    layer.initialize(gluon::init::One());
    std::latch start(2);
    std::atomic<int> done{0}, refused{0};
    std::vector<std::thread> threads;
    for (const std::int64_t width : {3, 4}) {
      threads.emplace_back([&, width] {
        start.arrive_and_wait();
        try {
          layer(ones({1, width})).wait_to_read();
          ++done;
        } catch (const ShapeError&) {
          ++refused;
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    CHECK(done == 1);
    CHECK(refused == 1);
  }
}

TEST_CASE("a first forward that fails leaves the parameter to the next", "[gluon][block][concurrent]") {
  int calls = 0;
  nn::Dense layer(2);
  layer.initialize([&](const NDArray& array) {
    if (++calls == 1)
      throw ValueError("not yet");
    fill(array, 1.0);
  });
  CHECK_THROWS_AS(layer(ones({1, 3})), ValueError);
  CHECK(values(layer(ones({1, 3}))) == std::vector<float>{3, 3});
}
