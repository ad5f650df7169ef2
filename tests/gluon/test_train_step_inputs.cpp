// Training steps of networks of several inputs and outputs, with losses of more than one label.
#include <vector>

#include "tests/gluon/networks.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using gluon::StepResult;
using gluon::Trainer;
using gluon::TrainStep;

namespace {

namespace nn = gluon::nn;

// Two towers; the second's output is one of the network's as well.
class TwoTowers : public gluon::Block {
 public:
  TwoTowers()
      : left_(child("left", nn::Dense(3, {.in_units = 4}))), right_(child("right", nn::Dense(3, {.in_units = 2}))) {}

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override {
    require_inputs(inputs, 2);
    const NDArray right = (*right_)(inputs[1]);
    return {(*left_)(inputs[0]) * tanh(right), right};
  }

 private:
  gluon::Child<nn::Dense> left_, right_;
};

// Of logits and of what is to be small, with labels and a weight a sample.
class WeightedLoss : public gluon::Block {
 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override {
    require_inputs(inputs, 4);
    return {softmax_cross_entropy(inputs[0], inputs[2]) * inputs[3] + mean(square(inputs[1]), {1})};
  }
};

struct Given {
  NDArray x, n, labels, weights;

  Given(std::int64_t batch, int at, Device device)
      : x(random_array({batch, 4}, 10 * at + 1, -1, 1).to(device)),
        n(random_array({batch, 2}, 10 * at + 2, -1, 1).to(device)),
        labels(random_array({batch}, 10 * at + 3, 0, 2.9).astype(int32).to(device)),
        weights(random_array({batch}, 10 * at + 4, 0.5, 2).to(device)) {}
};

// All that steps of these batches leave, by hand or as a graph.
std::vector<std::vector<float>> run_steps(bool as_graph, Device device, std::size_t* traced = nullptr) {
  Engine engine({.workers = 2, .seed = 3});
  const EngineScope scope(engine);
  TwoTowers net;
  net.initialize(gluon::init::Xavier(), device);
  const WeightedLoss loss;
  Trainer trainer(net.collect_params(), gluon::optimizer::Adam());
  TrainStep step(net, loss, trainer);
  std::vector<std::vector<float>> trail;
  int at = 0;
  for (const std::int64_t batch : {8, 8, 5, 8}) {
    const Given given(batch, ++at, device);
    StepResult result;
    if (as_graph) {
      result = step({given.x, given.n}, {given.labels, given.weights});
    } else {
      {
        const autograd::RecordScope record;
        result.outputs = net({given.x, given.n});
        result.losses = loss({result.outputs[0], result.outputs[1], given.labels, given.weights})[0];
      }
      result.losses.backward();
      trainer.step(batch);
      result.predictions = result.outputs[0];
    }
    for (const NDArray& array : {result.losses, result.predictions, result.outputs.at(0), result.outputs.at(1)})
      trail.push_back(values(array));
  }
  for (const auto& [name, parameter] : net.collect_params())
    trail.push_back(values(parameter.data()));
  if (traced != nullptr)
    *traced = step.traced();
  return trail;
}

}  // namespace

TEST_CASE("A step as a graph takes several inputs, outputs and labels, to the last bit", "[gluon][graph]") {
  std::size_t traced = 0;
  const auto planned = run_steps(true, cpu(), &traced), by_hand = run_steps(false, cpu());
  REQUIRE(planned.size() == by_hand.size());
  for (std::size_t i = 0; i < planned.size(); ++i) {
    CAPTURE(i);
    CHECK(planned[i] == by_hand[i]);
  }
  CHECK(traced == 1);  // of all sizes of batches
}

TEST_CASE("A step as a graph takes several inputs, outputs and labels on a GPU", "[gluon][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  CHECK(run_steps(true, gpu()) == run_steps(false, gpu()));
}

TEST_CASE("Steps of as many arrays that are cut otherwise are others", "[gluon][graph]") {
  // Both take three arrays: the first two samples and a label, the second a sample and two labels.
  class Any : public gluon::Block {
   public:
    Any() : dense_(child("dense", nn::Dense(3, {.in_units = 3}))) {}

   protected:
    Arrays forward_all(std::span<const NDArray> inputs) const override {
      return {(*dense_)(inputs.size() == 2 ? inputs[0] + inputs[1] : inputs[0])};
    }

   private:
    gluon::Child<nn::Dense> dense_;
  };
  class Distance : public gluon::Block {
   protected:
    Arrays forward_all(std::span<const NDArray> inputs) const override {
      NDArray distance = square(inputs[0] - inputs[1]);
      return {mean(inputs.size() == 3 ? distance * inputs[2] : distance, {1})};
    }
  };
  Any net;
  net.initialize();
  const Distance loss;
  Trainer trainer(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0}));
  TrainStep step(net, loss, trainer);
  const NDArray a = random_array({2, 3}, 1, -1, 1), b = random_array({2, 3}, 2, -1, 1),
                c = random_array({2, 3}, 3, -1, 1);
  for (int i = 0; i < 2; ++i) {
    CHECK(values(step({a, b}, {c}).losses) == values(loss({net({a, b})[0], c})[0]));
    CHECK(values(step({a}, {b, c}).losses) == values(loss({net({a})[0], b, c})[0]));
  }
  CHECK(step.traced() == 2);
  CHECK(values(step({a}, {b}).losses) == values(loss({net({a})[0], b})[0]));  // fewer arrays than before
  CHECK(step.traced() == 3);
}

TEST_CASE("Outputs that a network leaves undefined come back undefined, as by hand", "[gluon][graph]") {
  // Attention weights, say, that nobody asked for.
  class Sparing : public gluon::Block {
   public:
    Sparing() : dense_(child("dense", nn::Dense(3, {.in_units = 3}))) {}

   protected:
    Arrays forward_all(std::span<const NDArray> inputs) const override {
      const NDArray y = (*dense_)(inputs[0]);
      return {NDArray(), y, NDArray(), tanh(y), NDArray()};
    }

   private:
    gluon::Child<nn::Dense> dense_;
  };
  class OfSome : public gluon::Block {
   protected:
    Arrays forward_all(std::span<const NDArray> inputs) const override {
      return {mean(square(inputs[1] - inputs.back()), {1})};
    }
  };
  Sparing net;
  net.initialize();
  const OfSome loss;
  Trainer trainer(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0}));
  TrainStep step(net, loss, trainer);
  for (const std::int64_t batch : {4, 4, 7}) {
    const NDArray x = random_array({batch, 3}, 1, -1, 1), y = random_array({batch, 3}, 2, -1, 1);
    const Arrays want = net({x});
    const StepResult got = step(x, y);
    REQUIRE(got.outputs.size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      REQUIRE(got.outputs[i].defined() == want[i].defined());
      CHECK((!want[i].defined() || values(got.outputs[i]) == values(want[i])));
    }
    CHECK_FALSE(got.predictions.defined());
  }
  CHECK(step.traced() == 1);
}

TEST_CASE("A loss that gives nothing is refused", "[gluon][graph]") {
  class Nothing : public gluon::Block {
   protected:
    Arrays forward_all(std::span<const NDArray>) const override { return {}; }
  };
  nn::Dense net(3, {.in_units = 3});
  net.initialize();
  const Nothing loss;
  Trainer trainer(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0}));
  TrainStep step(net, loss, trainer);
  CHECK_THROWS_AS(step(ones({2, 3}), ones({2})), ValueError);
}

TEST_CASE("A step of nothing, or of arrays that are none, is refused and not counted", "[gluon][graph]") {
  TwoTowers net;
  net.initialize();
  const WeightedLoss loss;
  Trainer trainer(net.collect_params(), gluon::optimizer::Adam());
  TrainStep step(net, loss, trainer);
  const Given given(4, 1, cpu());
  CHECK_THROWS_AS(step.call({}, {}), ValueError);
  CHECK_THROWS_AS(step({given.x, NDArray()}, {given.labels, given.weights}), ValueError);
  CHECK_THROWS_AS(step({given.x, given.n}, {given.labels, NDArray()}), ValueError);
  CHECK_THROWS_AS(step({given.x}, {given.labels, given.weights}), ValueError);  // the network takes two
  NDArray recorded = given.n.detach();
  recorded.attach_grad();
  {
    const autograd::RecordScope record;
    CHECK_THROWS_AS(step({given.x, recorded * 2}, {given.labels, given.weights}), UnsupportedError);
  }
  step({given.x, given.n}, {given.labels, given.weights});
  CHECK(trainer.optimizer().num_updates() == 1);
}
