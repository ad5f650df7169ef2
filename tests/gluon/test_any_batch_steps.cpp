// Batches of many sizes in training steps, threads and plans that come and go.
#include <atomic>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/gluon/networks.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using gluon::BatchSizes;
using gluon::StepResult;
using gluon::TrainStep;

namespace {

namespace nn = gluon::nn;
using Trail = std::vector<std::vector<float>>;

constexpr std::int64_t k_batches[] = {8, 8, 5, 8, 11, 2, 8, 1, 5, 17, 3, 8, 2, 6, 1, 11, 8, 4, 8, 7};

/// A network whose first layer counts how often it is called.
struct Network {
  nn::Sequential net;
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);

  Network(const std::string& name, Device device) {
    net.add(nn::Lambda([calls = calls](const NDArray& x) {
      ++*calls;
      return x;
    }));
    if (name == "norm") {
      net.add(nn::Conv2D(4, 3), nn::BatchNorm(), nn::Activation("relu"), nn::MaxPool2D(2), nn::Dropout(0.3));
      net.add(nn::Flatten(), nn::Dense(10));
    } else {
      net.add(sample_network(name));
    }
    net.initialize(gluon::init::Xavier(), device);
  }
};

std::unique_ptr<gluon::optimizer::Optimizer> optimizer(bool adam) {
  if (adam)
    return std::make_unique<Adam>();
  return std::make_unique<SGD>(gluon::optimizer::SGDOptions{.momentum = 0.9, .wd = 1e-3});
}

enum class How { by_hand, hybrid, step };

struct Ran {
  Trail trail;
  int calls = 0;           // of forward, when shapes were known
  std::size_t traced = 0;  // as the network or the step says
};

Ran run(const std::string& name, Device device, bool adam, How how, BatchSizes sizes = BatchSizes::any) {
  Engine engine({.workers = 2, .seed = 11});
  const EngineScope scope(engine);
  Network network(name, device);
  const nn::Sequential& net = network.net;
  (void)net(synthetic_batch(4, 12, 0, device).first);
  *network.calls = 0;
  if (how == How::hybrid)
    network.net.hybridize(true, {.most_plans = 3, .batch_sizes = sizes});
  Trainer trainer(net.collect_params(), optimizer(adam));
  const SoftmaxCrossEntropyLoss loss;
  TrainStep step(net, loss, trainer, {.most_plans = 3, .batch_sizes = sizes});
  Ran ran;
  int i = 0;
  for (const std::int64_t n : k_batches) {
    const auto [x, y] = synthetic_batch(n, 12, i, device);
    trainer.set_learning_rate(0.01 / static_cast<double>(++i));
    StepResult result;
    if (how == How::step) {
      result = step(x, y);
    } else {
      {
        const autograd::RecordScope record;
        result.predictions = net(x);
        result.losses = loss(result.predictions, y);
      }
      result.losses.backward();
      trainer.step(n);
    }
    ran.trail.push_back(values(result.losses));
    ran.trail.push_back(values(result.predictions));
  }
  for (const auto& [path, parameter] : net.collect_params())
    ran.trail.push_back(values(parameter.data()));
  ran.calls = *network.calls;
  ran.traced = how == How::step ? step.traced() : net.hybrid_traces();
  return ran;
}

void check_steps(const std::string& name, Device device) {
  for (const bool adam : {false, true}) {
    CAPTURE(name, adam);
    const Ran by_hand = run(name, device, adam, How::by_hand);
    for (const How how : {How::hybrid, How::step}) {
      CAPTURE(static_cast<int>(how));
      const Ran ran = run(name, device, adam, how);
      CHECK((ran.trail == by_hand.trail));  // not printed: thousands of weights
      // One program for all, and one of a single sample, which three plans do not keep for the next time.
      CHECK(ran.traced == 3);
      CHECK(ran.calls == 4);  // once to compare
    }
  }
}

}  // namespace

TEST_CASE("Twenty steps of many batch sizes are those by hand, of one trace", "[gluon][graph][hybrid][batch]") {
  for (const char* name : {"mlp", "torch", "tf", "norm"})
    check_steps(name, cpu());
}

TEST_CASE("Twenty steps of many batch sizes on a GPU are those by hand", "[gluon][graph][hybrid][batch][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const char* name : {"mlp", "norm"})
    check_steps(name, gpu(0));
}

TEST_CASE("A program for each batch size is traced where that is asked for", "[gluon][graph][hybrid][batch]") {
  for (const How how : {How::hybrid, How::step}) {
    const Ran each = run("mlp", cpu(), false, how, BatchSizes::each);
    CHECK((each.trail == run("mlp", cpu(), false, How::by_hand).trail));
    CHECK(each.traced > 8);
    CHECK(each.calls == static_cast<int>(each.traced));
  }
}

TEST_CASE("A loss that asks for the size of the batch makes a step for each", "[gluon][graph][batch]") {
  class MeanLoss : public gluon::loss::Loss {
   protected:
    NDArray compute(const NDArray& predictions, const NDArray& labels) const override {
      return sum(square(predictions - labels), {1}) / static_cast<double>(predictions.shape()[0]);
    }
  };
  const auto trail = [](bool graph) {
    Engine engine({.workers = 2, .seed = 5});
    const EngineScope scope(engine);
    nn::Dense net(3);
    net.initialize(gluon::init::Xavier());
    (void)net(zeros({1, 4}));
    Trainer trainer(net.collect_params(), SGD({.learning_rate = 0.1}));
    const MeanLoss loss;
    TrainStep step(net, loss, trainer);
    Trail made;
    for (const std::int64_t n : k_batches) {
      const NDArray x = pattern_array({n, 4}), y = pattern_array({n, 3}, 7);
      if (graph) {
        made.push_back(values(step(x, y).losses));
        continue;
      }
      NDArray losses;
      {
        const autograd::RecordScope record;
        losses = loss(net(x), y);
      }
      losses.backward();
      trainer.step(n);
      made.push_back(values(losses));
    }
    if (graph)
      CHECK(step.traced() >= 10);
    made.push_back(values(net.collect_params()["weight"].data()));
    return made;
  };
  CHECK(trail(true) == trail(false));
}

namespace {

/// Rows of two tables, one of them not of the batch's size, or of it by chance.
class Tables : public gluon::Block {
 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override {
    ++*calls;
    return {matmul(inputs[0], inputs[1]), sum(inputs[1], {0})};
  }

 public:
  std::shared_ptr<int> calls = std::make_shared<int>(0);
};

}  // namespace

TEST_CASE("Inputs of other first extents are not of the batch, nor are those by chance", "[gluon][graph][batch]") {
  Tables by_hand, hybrid;
  hybrid.hybridize();
  const auto check = [&](std::int64_t n, std::int64_t inner, int calls) {
    CAPTURE(n, inner);
    const NDArray x = pattern_array({n, inner}), table = pattern_array({inner, 4}, 3);
    const Arrays made = hybrid({x, table}), wanted = by_hand({x, table});
    CHECK(values(made[0]) == values(wanted[0]));
    CHECK(values(made[1]) == values(wanted[1]));
    CHECK(*hybrid.calls == calls);
  };
  check(8, 5, 2);
  check(6, 5, 2);
  check(5, 5, 2);  // by chance
  check(7, 7, 3);  // both may be the batch; a second trace of (15, 7) and (15, 4) finds that they are not
  check(9, 9, 4);
  check(8, 7, 6);
  check(9, 7, 6);
}

TEST_CASE("Threads bring batches of different sizes to one network at once", "[gluon][graph][hybrid][concurrent]") {
  nn::Sequential net;
  net.add(nn::Dense(8, {.activation = "relu"}), nn::Dense(4));
  net.initialize(gluon::init::Xavier());
  (void)net(zeros({2, 5}));
  const auto batch = [](int t) { return pattern_array({2 + t, 5}, t); };
  Trail wanted;
  for (int t = 0; t < 6; ++t)
    wanted.push_back(values(net(batch(t))));
  for (int round = 0; round < 10; ++round) {
    net.hybridize(true, {.most_plans = 4});
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 8; ++i)
          wrong += values(net(batch((t + i) % 6))) != wanted[static_cast<std::size_t>((t + i) % 6)];
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    CHECK(wrong == 0);
    CHECK(net.hybrid_traces() <= 6);  // each thread's first call at most
  }
}

TEST_CASE("One plan at a time serves all sizes of one trace", "[gluon][graph][hybrid][batch]") {
  Network network("mlp", cpu());
  (void)network.net(synthetic_batch(4, 12, 0, cpu()).first);
  network.net.hybridize(true, {.most_plans = 1});
  *network.calls = 0;
  for (int i = 0; i < 12; ++i)
    (void)network.net(synthetic_batch(2 + i % 3, 12, i, cpu()).first);
  CHECK(network.net.hybrid_traces() == 1);
  CHECK(*network.calls == 2);
}

TEST_CASE("A hybridized layer within another and a network of such have one trace each", "[gluon][graph][hybrid]") {
  Network network("mlp", cpu());
  (void)network.net(synthetic_batch(4, 12, 0, cpu()).first);
  Trail wanted;
  for (const std::int64_t n : k_batches)
    wanted.push_back(values(network.net(synthetic_batch(n, 12, 3, cpu()).first)));
  for (const bool outer : {false, true}) {
    network.net.hybridize(outer);
    network.net.apply([](gluon::Block& block) {
      if (dynamic_cast<nn::Dense*>(&block) != nullptr)
        block.hybridize();
    });
    std::size_t i = 0;
    for (const std::int64_t n : k_batches)
      CHECK(values(network.net(synthetic_batch(n, 12, 3, cpu()).first)) == wanted[i++]);
    network.net.apply([&](gluon::Block& block) {
      if (dynamic_cast<nn::Dense*>(&block) != nullptr)
        CHECK(block.hybrid_traces() == (outer ? 0 : 2));  // of many samples, and of one
    });
  }
}

TEST_CASE("A server traces a network for one sample and once for all larger batches", "[gluon][graph][hybrid][batch]") {
  nn::Dense net(3);
  net.initialize(gluon::init::Xavier());
  const gluon::Server server(net, {.sample = {4}, .max_batch = 16});
  CHECK(net.hybrid_traces() == 2);
}

TEST_CASE("What forward throws where a batch is compared is no error of the call", "[gluon][graph][hybrid][batch]") {
  int calls = 0;
  nn::Lambda block([&](const NDArray& x) {
    if (++calls == 2)
      throw std::runtime_error("the second call");
    return x * 2.0;
  });
  block.hybridize();
  CHECK(values(block(full({4}, 1.5f))) == std::vector<float>(4, 3.0f));
  CHECK(calls == 2);
  CHECK(values(block(full({7}, 1.5f))) == std::vector<float>(7, 3.0f));  // for this size alone, compared again
  CHECK(block.hybrid_traces() == 2);
  CHECK(calls == 4);
  CHECK(values(block(full({9}, 1.5f))) == std::vector<float>(9, 3.0f));
  CHECK(calls == 4);
}

TEST_CASE("Batches lie as they lie, also of sizes that were not traced", "[gluon][graph][hybrid][batch]") {
  nn::Lambda block([](const NDArray& x) { return tanh(x).reshape({-1}) * 2.0; });
  const NDArray whole = pattern_array({9, 12}), column = pattern_array({1, 3}, 4);
  const NDArray batches[] = {
      pattern_array({4, 3}),
      whole.slice(1, 0, 3),
      whole.slice(0, 2, 8).slice(1, 4, 10, 2),
      whole.T().slice(0, 1, 6).slice(1, 8, 2, -2),
      column.broadcast_to({7, 3}),
  };
  Trail wanted;
  for (const NDArray& batch : batches)
    wanted.push_back(values(block(batch)));
  block.hybridize();
  for (std::size_t i = 0; i < std::size(batches); ++i)
    CHECK(values(block(batches[i])) == wanted[i]);
  CHECK(block.hybrid_traces() == 1);
}

TEST_CASE("Images at places that the network says are one trace for all batches", "[gluon][graph][hybrid][batch]") {
  nn::Lambda moved([](const NDArray& x) {
    const NDArray grid = tanh(x.slice(1, 0, 2)).transpose({0, 2, 3, 1});
    const NDArray offset = sigmoid(x.slice(1, 0, 2));
    const NDArray none = x.slice(1, 0, 0), planes = none.expand_dims(2);
    const NDArray empty =
        sum(grid_sample(none, grid), {1}, true) + convolution3d(planes, ones({3, 0, 1, 1, 1}), {}).squeeze(2);
    return empty + grid_sample(x, grid) + deformable_convolution(x, offset, ones({3, 3, 1, 1}), {});
  });
  const auto batch = [](std::int64_t n) { return pattern_array({n, 3, 4, 5}); };
  Trail wanted;
  for (const std::int64_t n : {4, 7, 2, 9})
    wanted.push_back(values(moved(batch(n))));
  moved.hybridize();
  std::size_t i = 0;
  for (const std::int64_t n : {4, 7, 2, 9})
    CHECK(values(moved(batch(n))) == wanted[i++]);
  CHECK(moved.hybrid_traces() == 1);
}

TEST_CASE("Errors of a batch that was not traced name the lines that a traced one names", "[gluon][graph][hybrid]") {
  const auto text = [](BatchSizes sizes, std::int64_t n) {
    nn::Lambda rows([](const NDArray& x) { return take(arange(0, 12), x.astype(int32)); });
    rows.hybridize(true, {.batch_sizes = sizes});
    std::string said;
    for (const std::int64_t size : {std::int64_t{4}, n}) {
      const NDArray x = full({size}, size == n ? 99.0f : 3.0f);
      try {
        (void)values(rows(x));
      } catch (const IndexError& error) {
        said = error.what();
        Engine::current().forgive(error);
      }
    }
    CHECK(rows.hybrid_traces() == (sizes == BatchSizes::any ? 1 : 2));
    return said;
  };
  const std::string any = text(BatchSizes::any, 7);
  CHECK(any == text(BatchSizes::each, 7));
  CHECK_THAT(any, sluice::test::contains("test_any_batch_steps.cpp"));
}

TEST_CASE("Gradients of gradients go through a batch that was not traced", "[gluon][graph][hybrid][batch]") {
  const auto run_of = [](bool hybrid) {
    Engine engine({.workers = 2, .seed = 3});
    const EngineScope scope(engine);
    nn::Sequential net;
    net.add(nn::Dense(16, {.activation = "tanh"}), nn::Dropout(0.5), nn::Dense(1));
    net.initialize(gluon::init::Xavier());
    (void)net(zeros({4, 5}));
    if (hybrid)
      net.hybridize();
    Trail trail;
    for (const std::int64_t n : {6, 3, 9}) {
      NDArray x = sluice::random::normal(0, 1, {n, 5});
      x.attach_grad();
      const autograd::RecordScope record;
      const NDArray heads[] = {net(x)}, variables[] = {x};
      const auto first = autograd::grad(heads, variables, {}, {.create_graph = true});
      const NDArray again[] = {square(first[0])};
      trail.push_back(values(first[0]));
      trail.push_back(values(autograd::grad(again, variables)[0]));
    }
    if (hybrid)
      CHECK(net.hybrid_traces() == 1);
    return trail;
  };
  CHECK(run_of(true) == run_of(false));
}
