// Training steps as one graph where forward writes, brings along or loses something.
#include "tests/gluon/told.h"

using namespace sluice;
using namespace sluice::test;
using gluon::TrainStep;

namespace {

/// Some steps of one block, by hand or as a graph.
struct Steps {
  Told::Program program;
  std::function<void(int)> before = [](int) {};           // each step
  std::function<void(Outcome&)> after = [](Outcome&) {};  // each step
  std::size_t* traced = nullptr;
  int count = 4;

  Outcome run(bool graph) const {
    Told block(program);
    block.initialize();
    Trainer trainer(block.collect_params(), Adam({.learning_rate = 0.1}));
    const L2Loss loss;
    TrainStep step(block, loss, trainer);
    Outcome outcome;
    for (int i = 0; i < count; ++i) {
      before(i);
      const NDArray x = pattern_array({2, 3}, i), y = ones({2, 3});
      bool fails = false;  // some gradients are there then, by hand
      try {
        outcome.add(graph ? step(x, y).losses : by_hand(block, loss, trainer, x, y));
      } catch (const Error& error) {
        fails = true;
        outcome.error += typeid(error).name();
        settle(error);
      }
      outcome.add(x);
      for (const auto& [name, parameter] : block.collect_params()) {
        outcome.add(parameter.data());
        if (!fails)
          outcome.add(parameter.grad());
      }
      after(outcome);
    }
    if (graph && traced != nullptr)
      *traced = step.traced();
    return outcome;
  }

 private:
  static NDArray by_hand(const Told& block, const L2Loss& loss, Trainer& trainer, const NDArray& x, const NDArray& y) {
    NDArray losses;
    {
      const autograd::RecordScope record;
      losses = loss(block(x), y);
    }
    losses.backward();
    trainer.step(x.shape()[0]);
    return losses.detach();
  }
  static void settle(const Error& error) {
    try {
      Engine::current().wait_all();
    } catch (const Error&) {
    }
    Engine::current().forgive(error);
  }
};

// `make` gives the steps: what they keep beside is new for each run.
void check_steps(const std::function<Steps()>& make, double tolerance = 0) {
  Outcome runs[2];
  for (const bool graph : {false, true}) {
    Engine engine({.workers = 2, .seed = 3});
    const EngineScope scope(engine);
    runs[graph ? 1 : 0] = make().run(graph);
  }
  check_alike(runs[1], runs[0], tolerance);
}

}  // namespace

TEST_CASE("A step refuses gradients of what forward wrote as by hand", "[gluon][graph][train_step]") {
  check_steps([] {
    return Steps{.program = [](auto in, auto& w, auto& b) {
      const NDArray t = in[0] * w, q = square(t) + b;
      NDArray same = t.detach();
      same += 1.0;
      return Arrays{q};
    }};
  });
  check_steps([] {
    return Steps{.program = [](auto in, auto& w, auto& b) {
      const NDArray t = in[0] * w;
      const NDArray q = square(t) + b;
      const autograd::PauseScope pause(true);
      t.slice(1, 0, 1).assign(3.0);
      return Arrays{q};
    }};
  });
  check_steps([] {  // of what was there before
    const NDArray scale = full({3}, 1.5);
    return Steps{.program = [=](auto in, auto& w, auto& b) {
      const NDArray q = in[0] * w * scale + b;
      const autograd::PauseScope pause(true);
      scale.assign(scale * 0.5);
      return Arrays{q};
    }};
  });
  check_steps([] {  // a copy may be written, and what no gradient needs
    return Steps{.program = [](auto in, auto& w, auto& b) {
      const NDArray t = in[0] * w, q = square(t) + b;
      NDArray copy = t.detach().copy(), sums = q + b;
      copy += 1.0;
      q.detach().assign(0.0);
      return Arrays{sums + copy};
    }};
  });
}

TEST_CASE("A step whose forward writes its samples is taken by hand", "[gluon][graph][train_step]") {
  std::size_t traced = 0;
  check_steps([&] {
    return Steps{
        .program =
            [](auto in, auto& w, auto& b) {
              {
                const autograd::PauseScope pause(true);
                in[0].slice(0, 0, 1).assign(in[0].slice(0, 0, 1) * 0.5);
              }
              return Arrays{in[0] * w + b};
            },
        .traced = &traced};
  });
  CHECK(traced == 1);
}

TEST_CASE("A step whose forward records into an array that stays is taken by hand", "[gluon][graph][train_step]") {
  check_steps([] {
    const auto state = std::make_shared<NDArray>();
    return Steps{
        .program =
            [=](auto in, auto& w, auto& b) {
              *state += in[0] * w;
              return Arrays{*state * w + b};
            },
        .before =
            [=](int i) {
              if (i != 2)  // then it stands on the tape of the step before, which is used up
                *state = zeros({2, 3});
            }};
  });
}

TEST_CASE("A step sees that an array that forward brings along gets a gradient", "[gluon][graph][train_step]") {
  for (const GradReq req : {GradReq::write, GradReq::add}) {
    std::size_t traced = 0;
    check_steps([&] {
      const NDArray scale = full({3}, 1.5);
      return Steps{
          .program = [=](auto in, auto& w, auto& b) { return Arrays{in[0] * w * scale + b}; },
          .before =
              [=](int i) {
                NDArray same = scale;
                if (i == 1 || i == 3)
                  same.attach_grad(i == 1 ? req : GradReq::null);
                if (i == 4)
                  same.attach_grad(req);
              },
          .after = [=](Outcome& outcome) { outcome.add(scale.grad()); },
          .traced = &traced,
          .count = 7};
    });
    CHECK(traced == 4);
  }
}

TEST_CASE("A statistic that is lost takes no step along", "[gluon][graph][train_step]") {
  check_steps([] {
    const NDArray index = array<std::int32_t>({0, 1, 2}), statistic = zeros({3});
    const auto program = [=](auto in, auto& w, auto& b) {
      {
        const autograd::PauseScope pause(true);
        statistic.assign(statistic * 0.5 + w * take(w, index));
      }
      return Arrays{in[0] * (w * 2.0) + b};
    };
    const auto settle = [=](Outcome& outcome) {
      index.assign(1);
      try {
        outcome.add(statistic);
      } catch (const Error& error) {
        outcome.error += typeid(error).name();
        Engine::current().forgive(error);
        statistic.assign(0.0);
      }
    };
    return Steps{.program = program, .before = [=](int i) { index.assign(i == 1 ? 7 : 1); }, .after = settle};
  });
}

TEST_CASE("A network without parameters of its own is traced once", "[gluon][graph][train_step]") {
  const gluon::nn::Activation net("tanh");
  const L2Loss loss;
  gluon::Parameter apart("apart", {.shape = {3}, .init = gluon::init::One()});
  apart.initialize({}, cpu());
  gluon::ParameterDict all;
  all.insert("apart", apart);
  class Scaled final : public gluon::Block {
   public:
    explicit Scaled(const gluon::Parameter& by) : by_(by) {}

   protected:
    NDArray forward(const NDArray& x) const override { return x * by_.data(); }

   private:
    const gluon::Parameter by_;
  };
  const Scaled scaled(apart);
  Trainer trainer(all, SGD({.learning_rate = 0.1}));
  TrainStep step(scaled, loss, trainer);
  const NDArray x = pattern_array({2, 3}), y = ones({2, 3});
  for (int i = 0; i < 3; ++i)
    (void)step(x, y);
  CHECK(step.traced() == 1);
  const std::vector<float> before = values(apart.data());
  apart.initialize({}, cpu(), true);  // of the trainer alone, and another array now
  CHECK(values(step(x, y).losses) == values(loss(x, y)));
  CHECK(step.traced() == 2);
  CHECK(before != values(apart.data()));
}
