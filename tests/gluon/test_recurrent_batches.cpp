// Recurrent networks of batches of all sizes, whichever of their results a loss reads.
#include <cstdint>
#include <vector>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Trail = std::vector<std::vector<float>>;

/// Samples (N, T, C) through a network without states of its own, to one of its results, samples first.
class Reads : public gluon::Block {
 public:
  Reads(RnnMode mode, std::size_t result)
      : how_{.mode = mode, .hidden_size = 3, .num_layers = 2, .bidirectional = true},
        result_(result),
        parameters_(parameter("parameters", {.shape = {rnn_parameter_size(2, how_)}})) {}

 protected:
  NDArray forward(const NDArray& x) const override {
    return sluice::rnn(x.swapaxes(0, 1), parameters_.data(), {}, how_)[result_].swapaxes(0, 1);
  }

 private:
  RnnOptions how_;
  std::size_t result_;
  Parameter& parameters_;
};

enum class How { by_hand, hybrid, step };

// What steps of these batches leave, and how often was traced.
std::pair<Trail, std::size_t> run(RnnMode mode, std::size_t result, How how, Device device) {
  Engine engine({.workers = 2, .seed = 3});
  const EngineScope scope(engine);
  Reads net(mode, result);
  net.initialize(gluon::init::Uniform(0.5), device);
  if (how == How::hybrid)
    net.hybridize();
  const L2Loss loss;
  Trainer trainer(net.collect_params(), Adam());
  gluon::TrainStep step(net, loss, trainer);
  Trail trail;
  std::uint64_t seed = 0;
  for (const std::int64_t batch : {6, 6, 4, 9}) {
    const NDArray x = random_array({batch, 5, 2}, ++seed).to(device);
    const Shape shape = result == 0 ? Shape{batch, 5, 6} : Shape{batch, 4, 3};
    const NDArray y = random_array(shape, ++seed).to(device);
    NDArray losses;
    if (how == How::step) {
      losses = step(x, y).losses;
    } else {
      {
        const autograd::RecordScope record;
        losses = loss(net(x), y);
      }
      losses.backward();
      trainer.step(batch);
    }
    trail.push_back(values(losses));
  }
  trail.push_back(values(net.collect_params()["parameters"].data()));
  return {trail, how == How::step ? step.traced() : net.hybrid_traces()};
}

void check_all(Device device) {
  for (const RnnMode mode : {RnnMode::rnn_tanh, RnnMode::lstm, RnnMode::gru}) {
    for (std::size_t result = 0; result < (mode == RnnMode::lstm ? 3U : 2U); ++result) {
      CAPTURE(static_cast<int>(mode), result);
      const Trail want = run(mode, result, How::by_hand, device).first;
      for (const How how : {How::hybrid, How::step}) {
        const auto [trail, traced] = run(mode, result, how, device);
        CHECK(trail == want);
        CHECK(traced == 1);
      }
    }
  }
}

}  // namespace

TEST_CASE("Recurrent networks are traced once for batches of all sizes, whichever result is read", "[gluon][rnn]") {
  check_all(cpu());
}

TEST_CASE("Recurrent networks on a GPU are traced once for batches of all sizes", "[gluon][rnn][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_all(gpu());
}
