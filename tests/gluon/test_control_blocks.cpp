// Blocks whose forward has loops and branches of the library: by hand, hybridized, as a training step, exported.
#include "tests/gluon/networks.h"
#include "tests/gluon/told.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

namespace nn = gluon::nn;

// Reads a sequence (time, batch, features) with a cell, then a branch and a counted loop on what it read.
class Reader : public gluon::Block {
 public:
  explicit Reader(std::int64_t units)
      : units_(units),
        input_(child("input", nn::Dense(units, {.flatten = false}))),
        hidden_(parameter("hidden", {.shape = {units, units}})),
        scores_(child("scores", nn::Dense(3))) {}

 protected:
  NDArray forward(const NDArray& sequence) const override {
    const NDArray first = zeros({sequence.shape()[1], units_}, {.device = sequence.device()});
    const LoopResult read = foreach(
        [&](const Arrays& x, const Arrays& h) -> LoopResult {
          const NDArray next = tanh(input_(x[0]) + matmul(h[0], hidden_.data()));
          return {{}, {next}};
        },
        {sequence},
        {first});
    const NDArray last = read.states[0];
    const NDArray chosen = cond(
        sum(last) > 0,
        [&](const Arrays& a) { return Arrays{a[0] * 2}; },
        [&](const Arrays& a) { return Arrays{matmul(a[0], hidden_.data())}; },
        {last})[0];
    const LoopResult settled = while_loop(
        [](const Arrays& v) { return max(abs(v[0])) > 0.5; },
        [](const Arrays& v) -> LoopResult {
          return {{}, {v[0] * 0.75}};
        },
        {chosen},
        20);
    return scores_(settled.states[0]);
  }

 private:
  std::int64_t units_;
  gluon::Child<nn::Dense> input_;
  gluon::Parameter& hidden_;
  gluon::Child<nn::Dense> scores_;
};

NDArray sequence(std::int64_t turns, int seed, Device device = cpu()) {
  return array(pattern(turns * 4 * 5, seed), {turns, 4, 5}).to(device);
}

using Trail = std::vector<std::vector<float>>;

Trail train(bool hybrid, std::int64_t turns, Device device) {
  Engine engine({.workers = 2, .seed = 3});
  const EngineScope scope(engine);
  Reader net(6);
  net.initialize(gluon::init::Xavier(), device);
  if (hybrid)
    net.hybridize();
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0.1}));
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  Trail trail;
  for (int i = 0; i < 4; ++i) {
    NDArray x = sequence(turns, i, device);
    x.attach_grad();
    NDArray losses;
    {
      const autograd::RecordScope record;
      losses = loss(net(x), array({0, 1, 2, 1}, {4}).to(device));
    }
    losses.backward();
    trail.push_back(values(losses));
    trail.push_back(values(x.grad()));
    for (const auto& [path, parameter] : net.collect_params())
      trail.push_back(values(parameter.grad()));
    trainer.step(4);
    trail.push_back(values(net(x)));
  }
  if (hybrid)
    CHECK(net.hybrid_traces() == 2);
  return trail;
}

void check_close(const Trail& found, const Trail& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    check_near(found[i], expected[i], 1e-4);
  }
}

}  // namespace

TEST_CASE("a network with loops and branches trains hybridized as without", "[gluon][graph][hybrid][control]") {
  for (const std::int64_t turns : {5, 40}) {
    CAPTURE(turns);
    check_close(train(true, turns, cpu()), train(false, turns, cpu()));
  }
}

TEST_CASE("a network with loops and branches trains on a GPU", "[gluon][graph][hybrid][control][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const std::int64_t turns : {5, 40}) {
    CAPTURE(turns);
    check_close(train(true, turns, gpu(0)), train(false, turns, cpu()));
  }
}

TEST_CASE("a training step of a network with loops and branches is one plan", "[gluon][graph][control]") {
  const auto run = [](bool planned) {
    Engine engine({.workers = 2, .seed = 3});
    const EngineScope scope(engine);
    Reader net(6);
    net.initialize(gluon::init::Xavier());
    const gluon::loss::SoftmaxCrossEntropyLoss loss;
    gluon::Trainer trainer(net.collect_params(), gluon::optimizer::Adam());
    gluon::TrainStep step(net, loss, trainer);
    const NDArray labels = array({0, 1, 2, 1}, {4});
    Trail trail;
    for (int i = 0; i < 6; ++i) {
      const NDArray x = sequence(40, i);
      if (planned) {
        trail.push_back(values(step(x, labels).losses));
        continue;
      }
      NDArray losses;
      {
        const autograd::RecordScope record;
        losses = loss(net(x), labels);
      }
      losses.backward();
      trainer.step(4);
      trail.push_back(values(losses));
    }
    for (const auto& [path, parameter] : net.collect_params())
      trail.push_back(values(parameter.data()));
    return trail;
  };
  check_close(run(true), run(false));
}

TEST_CASE("a network with loops and branches is exported and imported", "[gluon][graph][export][control]") {
  const TemporaryFolder folder;
  Reader net(6);
  net.initialize(gluon::init::Xavier());
  for (const std::int64_t turns : {5, 40}) {
    CAPTURE(turns);
    const NDArray x = sequence(turns, 1);
    net.export_to(folder / "net", {x});
    gluon::SymbolBlock read = gluon::SymbolBlock::imports(folder / "net.json");
    for (const int seed : {1, 2, 3}) {
      const NDArray other = sequence(turns, seed);
      CHECK(values(read(other)) == values(net(other)));
    }
    read.hybridize();
    CHECK(values(read(x)) == values(net(x)));
    // What was imported can be trained on.
    const auto gradients = [&](const gluon::Block& block) {
      NDArray input = x.detach();
      input.attach_grad();
      NDArray result;
      {
        const autograd::RecordScope record;
        result = block(input);
      }
      result.backward();
      return values(input.grad());
    };
    check_near(gradients(read), gradients(net), 1e-4);
    read.hybridize(false);
    check_near(gradients(read), gradients(net), 1e-4);
  }
}

TEST_CASE("Sides that are not taken give zeros as gradients where they are traced alone", "[gluon][hybrid][control]") {
  for (const bool traced : {false, true}) {
    for (const bool loop : {false, true}) {
      Told block([loop](auto in, auto& w, auto& b) {
        const auto with_w = [&](const Arrays& a) { return Arrays{a[0] * w}; };
        const auto with_b = [&](const Arrays& a) { return Arrays{a[0] + b}; };
        const auto turn = [&](const Arrays& a) -> LoopResult { return {{}, with_w(a)}; };
        const auto never = [](const Arrays& a) { return sum(a[0]) * 0; };
        return loop ? with_b(while_loop(never, turn, {in[0]}, 3).states)
                    : cond(sum(in[0]) < 0, with_w, with_b, {in[0]});
      });
      block.initialize();
      if (traced)
        block.hybridize();
      for (const Parameter& parameter : {block.w(), block.b()})
        parameter.grad().assign(9.0);
      NDArray result;
      {
        const autograd::RecordScope record;
        result = block({three_numbers()})[0];
      }
      result.backward();
      CHECK(values(block.w().grad()) == std::vector<float>(3, traced ? 0.0f : 9.0f));
      CHECK(values(block.b().grad()) == std::vector<float>(3, 1.0f));
    }
  }
}
