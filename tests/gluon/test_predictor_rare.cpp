// A predictor where something goes wrong: beside it, in the middle, or with the engine.
#include <atomic>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "tests/gluon/networks.h"
#include "tests/gluon/support.h"
#include "tests/support/child.h"

using namespace sluice;
using namespace sluice::test;
using gluon::Predictor;
namespace nn = gluon::nn;

namespace {

// While the parameter has failed each request says so; once it is written again all is well, and fast.
void recovers_from_a_failed_parameter(Device device) {
  const nn::Dense net = ones_of(1, 3, device);
  const gluon::Parameter weight = net.collect_params()["weight"];
  const Predictor predict(net, zeros({1, 3}, {.device = device}));
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(1);
  const NDArray table = ones({2, 3}, {.device = device});
  for (int turn = 1; turn < 4; ++turn) {
    weight.set_data(take(table, array<std::int32_t>({7}, {1}, device)));
    for (int i = 0; i < 4; ++i)
      CHECK_THROWS_AS(predict(x, y), IndexError);
    weight.set_data(full({1, 3}, turn, {.device = device}));
    for (int i = 0; i < 40; ++i) {
      predict(x, y);
      CHECK(y[0] == 6.0f * static_cast<float>(turn));
    }
  }
  if (device.is_gpu())
    CHECK(predict.counts().launched > 80);
}

// Some threads ask for what there is, others for what there is not: each gets its own.
void keeps_errors_apart(Device device) {
  constexpr int k_threads = 6, k_turns = 25;
  const NDArray table = array<float>({0, 10, 20, 30}, {4}, device);
  const nn::Lambda net([table](const NDArray& x) { return take(table, x); });
  const Predictor predict(net, zeros({2}, {.dtype = int32, .device = device}), {.most_at_once = 4});
  std::atomic<int> wrong{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < k_threads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<float> y(2);
      for (int turn = 0; turn < k_turns; ++turn) {
        const std::int32_t first = (t + turn) % 4;
        const bool bad = t % 3 == 0 && turn % 2 == 1;
        try {
          predict(std::vector<std::int32_t>{first, bad ? 9 : 1}, y);
          wrong += bad || y != std::vector<float>{10.0f * static_cast<float>(first), 10};
        } catch (const IndexError&) {
          refused += bad ? 1 : 1000;
        }
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
  CHECK(refused == 2 * (k_turns / 2));
}

// Requests that are under way are answered, later ones refused.
void stops_under_load(Device device) {
  Engine engine;
  const EngineScope here(engine);
  const nn::Dense net = ones_of(2, 3, device);
  const Predictor predict(net, zeros({1, 3}, {.device = device}), {.most_at_once = 3});
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> answered{0}, wrong{0}, refused{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 5; ++t) {
      threads.emplace_back([&, t] {
        const std::vector<float> x{1, 2, static_cast<float>(t)};
        std::vector<float> y(2);
        try {
          for (;; ++answered) {
            y = {0, 0};
            predict(x, y);
            wrong += y != std::vector<float>(2, 3.0f + static_cast<float>(t));
          }
        } catch (const EngineStopped&) {
          ++refused;
        }
      });
    }
    while (answered < 60)
      std::this_thread::yield();
    engine.stop();
    for (std::thread& thread : threads)
      thread.join();
    CHECK(wrong == 0);
    CHECK(refused == 5);
    engine.restart();
  }
}

void outlives_its_engine(Device device) {
  auto engine = std::make_unique<Engine>();
  std::unique_ptr<Predictor> predict;
  std::unique_ptr<nn::Dense> net;
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(2);
  {
    const EngineScope here(*engine);
    net = std::make_unique<nn::Dense>(ones_of(2, 3, device));
    predict = std::make_unique<Predictor>(*net, zeros({1, 3}, {.device = device}));
    (*predict)(x, y);
    CHECK(y == std::vector<float>{6, 6});
  }
  engine.reset();
  CHECK_THROWS_AS((*predict)(x, y), EngineStopped);
}

}  // namespace

TEST_CASE("A request says of which error a parameter has failed, until that is written again", "[gluon][predictor]") {
  recovers_from_a_failed_parameter(cpu());
}
TEST_CASE("So does a request of a GPU, which then launches again", "[gluon][predictor][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  recovers_from_a_failed_parameter(gpu(0));
}

TEST_CASE("An error is that of the request that made it", "[gluon][predictor][concurrent]") {
  keeps_errors_apart(cpu());
}
TEST_CASE("An error is that of the GPU's request that made it", "[gluon][predictor][concurrent][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  keeps_errors_apart(gpu(0));
}

TEST_CASE("Engines stop while requests run", "[gluon][predictor][concurrent]") {
  stops_under_load(cpu());
}
TEST_CASE("Engines stop while requests of a GPU run", "[gluon][predictor][concurrent][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  stops_under_load(gpu(0));
}

namespace {

struct Unused final : gluon::Block {
  gluon::Child<nn::Dense> used, unused;
  Unused() : used(child("used", ones_of(2, 3, cpu()))), unused(child("unused", nn::Dense(2))) {}
  NDArray forward(const NDArray& x) const override { return used(x); }
};

struct Scaled final : gluon::Block {
  NDArray scale = full({1}, 2.0);
  double factor = 3;
  NDArray forward(const NDArray& x) const override { return x * scale * factor; }
};

// It would be gone before the first request.
static_assert(!std::is_constructible_v<Predictor, nn::Dense, NDArray>);
static_assert(!std::is_constructible_v<Predictor, nn::Dense, std::vector<NDArray>>);
static_assert(!std::is_constructible_v<Predictor, const nn::Dense, NDArray>);
static_assert(std::is_constructible_v<Predictor, nn::Dense&, NDArray>);
static_assert(std::is_constructible_v<Predictor, const nn::Dense&, std::vector<NDArray>>);

}  // namespace

TEST_CASE("Parameters that forward does without need no values", "[gluon][predictor]") {
  Unused net;
  const bool waits = GENERATE(false, true);  // for its shape
  if (waits)
    net.initialize(gluon::init::One());
  for (const NDArray& example : {ones({1, 3}), abstract_array({{1, 3}, float32, cpu()})}) {
    const Predictor predict(net, example);
    std::vector<float> y(2);
    predict(std::vector<float>{1, 2, 3}, y);
    CHECK(y == std::vector<float>{6, 6});
    net.used->own_parameter("weight").set_data(full({2, 3}, 2.0));
    predict(std::vector<float>{1, 2, 3}, y);
    CHECK(y == std::vector<float>{12, 12});
    net.used->own_parameter("weight").set_data(ones({2, 3}));
  }
  nn::Dense late(2);  // gets its shape as it is traced
  late.initialize(gluon::init::One());
  const Predictor predict(late, abstract_array({{1, 3}, float32, cpu()}));
  std::vector<float> y(2);
  for (int i = 0; i < 3; ++i) {
    predict(std::vector<float>{1, 2, 3}, y);
    CHECK(y == std::vector<float>{6, 6});
  }
  const nn::Dense nothing(2, {.in_units = 3});
  CHECK_THROWS_AS(Predictor(nothing, abstract_array({{1, 3}, float32, cpu()})), ValueError);
  CHECK_THROWS_AS(Predictor(nothing, ones({1, 3})), ValueError);
}

TEST_CASE("What forward reads beside parameters is read when it is traced", "[gluon][predictor]") {
  Scaled net;
  Predictor predict(net, zeros({1}));
  const std::vector<float> x{1};
  std::vector<float> y(1);
  predict(x, y);
  CHECK(y[0] == 6);
  net.scale = full({1}, 5.0);
  net.factor = 7;
  predict.retrace();
  predict(x, y);
  CHECK(y[0] == 35);
}

TEST_CASE("A predictor and its parameters are of one engine", "[gluon][predictor]") {
  Engine one({.workers = 1}), other({.workers = 1});
  std::unique_ptr<nn::Dense> net;
  {
    const EngineScope here(one);
    net = std::make_unique<nn::Dense>(ones_of(2, 3, cpu()));
  }
  const EngineScope here(other);
  CHECK_THROWS_AS(Predictor(*net, zeros({1, 3})), ValueError);
}

TEST_CASE("A predictor may outlive its engine", "[gluon][predictor]") {
  outlives_its_engine(cpu());
}
TEST_CASE("A predictor of a GPU may outlive its engine", "[gluon][predictor][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  outlives_its_engine(gpu(0));
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork of a process with threads
TEST_CASE("A forked child asks the predictor of its parent", "[gluon][predictor]") {
  Engine engine({.workers = 2});
  const EngineScope here(engine);
  const nn::Dense net = ones_of(2, 3, cpu());
  const Predictor predict(net, zeros({1, 3}));
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(2);
  predict(x, y);
  engine.wait_all();
  const int code = in_child([&] {
    for (int i = 0; i < 5; ++i) {
      y = {0, 0};
      predict(x, y);
      if (y != std::vector<float>{6, 6})
        return 1;
    }
    return 0;
  });
  CHECK(code == 0);
}

// Even where the parent's threads were in the middle of theirs.
TEST_CASE("A forked child is refused a predictor of a GPU, and the parent goes on", "[gluon][predictor][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Engine engine;
  const EngineScope here(engine);
  const nn::Dense net = ones_of(2, 3, gpu(0));
  auto predict = std::make_unique<Predictor>(net, zeros({1, 3}, {.device = gpu(0)}), gluon::PredictorOptions{2});
  const std::vector<float> x{1, 2, 3};
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (std::vector<float> y(2); !stop; ++answered) {
        (*predict)(x, y);
        wrong += y != std::vector<float>{6, 6};
      }
    });
  }
  for (int round = 0; round < 4; ++round) {
    for (const int seen = answered; answered < seen + 20;)
      std::this_thread::yield();
    const int code = in_child([&] {
      std::vector<float> y(2);
      try {
        (*predict)(x, y);
        return 1;
      } catch (const Forked&) {
      }
      predict.reset();
      return 0;
    });
    CHECK(code == 0);
  }
  stop = true;
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}
#endif
