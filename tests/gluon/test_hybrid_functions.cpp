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

TEST_CASE(
    "Hooks on parameters are called once, hybridized too, and steps see them come and go",
    "[gluon][hybrid][function]") {
  const Told::Program program = [](auto in, auto& w, auto& b) { return Arrays{in[0] * w + b, square(in[0] * w)}; };
  for (const bool one : {true, false}) {
    for (const bool graph : {false, true}) {
      check_as_by_hand(
          program,
          [&](Told& block, Outcome& outcome) {
            int calls = 0;
            autograd::add_hook(block.w().data(), [&](const NDArray& g) { return ++calls, g * g * 10.0; });
            for (int i = 0; i < 3; ++i) {
              const autograd::RecordScope record;
              const Arrays out = block({three_numbers()});
              const NDArray y = one ? out[1] : out[0] + out[1];
              const auto first =
                  autograd::grad(std::vector{y}, std::vector{block.w().data()}, {}, {.create_graph = graph});
              outcome.add(first[0].detach());
              if (graph)
                outcome.add(autograd::grad(std::vector{sum(first[0])}, std::vector{block.w().data()})[0]);
            }
            CHECK(calls == (graph ? 6 : 3));
          },
          1e-5);
    }
  }
  const auto weights = [&](bool whole) {
    Engine engine({.workers = 2, .seed = 5});
    const EngineScope scope(engine);
    Told net([](auto in, auto& w, auto& b) { return Arrays{in[0] * w + b}; });
    net.initialize();
    gluon::Trainer trainer(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0.1}));
    const gluon::loss::L2Loss loss;
    const NDArray x = three_numbers(), label = full({3}, 0.5f);
    gluon::TrainStep step(net, loss, trainer);
    std::uint64_t hook = 0;
    for (int i = 0; i < 6; ++i) {
      if (i == 2)
        hook = autograd::add_hook(net.w().data(), [](const NDArray& g) { return g * 0.0; });
      if (i == 4)
        autograd::remove_hook(net.w().data(), hook);
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
