// Functions with gradients of their own, segments that run again, and hooks in blocks: hybridized or as whole steps
// they give what they give by hand.
#include <memory>

#include "tests/gluon/told.h"

using namespace sluice;
using namespace sluice::test;
using autograd::Kept;

namespace {

using Grads = std::vector<NDArray>;

/// x^2, whose gradient is said to be 3 x.
struct Threefold : autograd::Function {
  Grads forward(std::span<const NDArray> in, Kept& kept) const override {
    kept.save(in[0]);
    return {square(in[0])};
  }
  Grads backward(std::span<const NDArray> grads, const Kept& kept) const override {
    return {grads[0] * kept.saved(0) * 3.0};
  }
};

NDArray threefold(const NDArray& x) {
  return autograd::apply(std::make_shared<Threefold>(), std::span(&x, 1))[0];
}

const Told::Program k_programs[] = {
    [](auto in, auto& w, auto& b) { return Arrays{threefold(in[0] * w) + b}; },
    [](auto in, auto& w, auto& b) {
      const auto segment = [&](const NDArray& x) { return tanh(x * w) * b; };
      return Arrays{autograd::checkpoint(segment, in[0] * w) + b};
    },
    [](auto in, auto& w, auto& b) {
      const NDArray h = in[0] * w;
      autograd::add_hook(h, [](const NDArray& g) { return g * 5.0; });
      return Arrays{square(h) + b};
    },
    [](auto in, auto& w, auto& b) {
      const NDArray h = in[0] * w, y = square(h) + b;
      if (autograd::on_tape(h))  // after its last use
        autograd::add_hook(h, [](const NDArray& g) { return g * 5.0; });
      return Arrays{y};
    }};

}  // namespace

TEST_CASE("Gradients that no call tells are those of a hybridized block", "[gluon][hybrid][function]") {
  std::vector<Told::Program> programs(std::begin(k_programs), std::end(k_programs));
  programs.push_back([](auto in, auto& w, auto& b) {
    const NDArray h = in[0] * w;
    autograd::add_hook(h, [](const NDArray& g) { return g * values(g)[0]; });  // looks at numbers: runs each time
    return Arrays{square(h) + b};
  });
  for (const Told::Program& program : programs) {
    check_as_by_hand(
        [&](auto in, auto& w, auto& b) { return autograd::is_recording() ? program(in, w, b) : Arrays{in[0] * w}; },
        [](Told& block, Outcome& outcome) {
          for (int i = 0; i < 3; ++i) {
            NDArray x = three_numbers();
            x.attach_grad();
            const autograd::RecordScope record;
            const NDArray y = block({x})[0];
            outcome.add(y.detach());
            const Grads grads = autograd::grad(std::vector{y}, std::vector{x, block.w().data(), block.b().data()});
            for (const NDArray& grad : grads)
              outcome.add(grad);
          }
        },
        1e-6);
  }
}

TEST_CASE("Whole steps with gradients that no call tells are as by hand", "[gluon][hybrid][function]") {
  for (const Told::Program& program : k_programs) {
    const auto weights = [&](bool whole) {
      Engine engine({.workers = 2, .seed = 5});
      const EngineScope scope(engine);
      Told net(program);
      net.initialize();
      gluon::Trainer trainer(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0.1}));
      const gluon::loss::L2Loss loss;
      const NDArray x = three_numbers(), label = full({3}, 0.5f);
      gluon::TrainStep step(net, loss, trainer);
      for (int i = 0; i < 3; ++i) {
        if (whole) {
          step(x, label);
          continue;
        }
        {
          const autograd::RecordScope record;
          loss(net(x), label).backward();
        }
        trainer.step(3);
      }
      return std::pair(values(net.w().data()), values(net.b().data()));
    };
    CHECK(weights(true) == weights(false));
  }
}

TEST_CASE("A hook in a traced body is refused", "[gluon][hybrid][function]") {
  const auto body = [](const Arrays& a) {
    const NDArray h = a[0] * 2.0;
    if (autograd::on_tape(h))
      autograd::add_hook(h, [](const NDArray& g) { return g; });
    return Arrays{h};
  };
  Told block([&](auto in, auto& w, auto&) { return cond(sum(in[0]) > 0, body, body, {in[0] * w}); });
  block.initialize();
  block.hybridize();
  const autograd::RecordScope record;
  CHECK_THROWS_AS(block({three_numbers()}), UnsupportedError);
}
