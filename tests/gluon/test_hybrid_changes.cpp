// Which changes of networks drop the programs that a block became: those that can be part of them.
#include "tests/gluon/told.h"

using namespace sluice;
using namespace sluice::test;

namespace {

namespace nn = gluon::nn;

NDArray samples() {
  return pattern_array({2, 3});
}

}  // namespace

TEST_CASE("Building other blocks drops no program", "[gluon][graph][hybrid]") {
  nn::Sequential net;
  net.add(nn::Dense(4, {.activation = "tanh"}), nn::Dense(2));
  net.initialize();
  net.hybridize();
  (void)net(samples());  // shapes become known
  const std::vector<float> first = values(net(samples()));
  for (int i = 0; i < 5; ++i) {
    nn::Sequential other;
    other.add(nn::Dense(3, {.in_units = 3}));
    other.initialize();
    CHECK(values(net(samples())) == first);
    (void)other(samples());
    CHECK(values(net(samples())) == first);
  }
  CHECK(net.hybrid_traces() == 1);
}

TEST_CASE("Building other blocks drops no step", "[gluon][graph][train_step]") {
  nn::Dense net(3, {.in_units = 3});
  net.initialize();
  const L2Loss loss;
  Trainer trainer(net.collect_params(), SGD({.learning_rate = 0.1}));
  gluon::TrainStep step(net, loss, trainer);
  for (int i = 0; i < 5; ++i) {
    const nn::Dense other(3, {.in_units = 3});
    (void)step(samples(), ones({2, 3}));
  }
  CHECK(step.traced() == 1);
}

TEST_CASE("What joins a network that was called is part of it from then on", "[gluon][graph][hybrid]") {
  for (const bool hybrid : {false, true}) {
    nn::Sequential net;
    net.add(nn::Dense(3, {.in_units = 3}));
    net.initialize(gluon::init::Constant(0.5));
    if (hybrid)
      net.hybridize();
    const std::vector<float> one = values(net(samples()));
    net.add(nn::Activation("tanh"));  // no parameter more
    const std::vector<float> two = values(net(samples()));
    CHECK(two != one);
    CHECK(two == values(tanh(array(one, {2, 3}))));
    net.add(nn::Dense(1, {.in_units = 3}));
    net.initialize(gluon::init::Constant(1.0));
    CHECK(net(samples()).shape() == Shape{2, 1});
    net.replace("1", nn::Activation("relu"));
    CHECK(
        values(net(samples()))[0] == Approx(std::max(one[0], 0.0f) + std::max(one[1], 0.0f) + std::max(one[2], 0.0f)));
  }
}

TEST_CASE("Parameters that join a child before its first call are known", "[gluon][graph][hybrid]") {
  // The branch is called in predict mode alone, and grows before.
  class Branching final : public gluon::Block {
   public:
    Branching() : first_(child("first", nn::Dense(3, {.in_units = 3}))), later_(child("later", nn::Sequential())) {}
    nn::Sequential& later() { return *later_; }

   protected:
    NDArray forward(const NDArray& x) const override {
      const NDArray h = first_(x);
      return autograd::is_training() ? h : later_(h);
    }

   private:
    gluon::Child<nn::Dense> first_;
    gluon::Child<nn::Sequential> later_;
  };
  Branching net;
  net.initialize(gluon::init::Constant(0.5));
  net.hybridize();
  NDArray x = samples();
  x.attach_grad();
  {
    const autograd::RecordScope record;
    (void)net(x);
  }
  net.later().add(nn::Dense(2, {.in_units = 3}));
  net.initialize(gluon::init::Constant(0.25));
  NDArray result;
  {
    const autograd::RecordScope record(false);
    result = net(x);
  }
  CHECK(result.shape() == Shape{2, 2});
  result.backward();
  CHECK(values(net.later().child_at(0)->own_parameter("bias").grad()) == std::vector<float>{2, 2});
}

namespace {

// A block that is used and no child: frozen, as a teacher is.
struct Teacher {
  nn::Dense block{3, {.in_units = 3}};

  Teacher() {
    block.initialize(gluon::init::Constant(0.5));
    block.own_parameter("weight").set_grad_req(GradReq::null);
    block.own_parameter("bias").set_grad_req(GradReq::null);
  }
  void change(int how) {
    if (how == 0)
      block.initialize(gluon::init::Constant(2.0), cpu(), true);
    if (how == 1)
      block.own_parameter("weight").set_data(full({3, 3}, -1.0));  // in place: nothing is traced anew
    if (how == 2)
      block.own_parameter("weight").set_grad_req(GradReq::write);
    if (how == 3) {
      nn::Dense other(3, {.in_units = 3});
      other.initialize(gluon::init::Constant(4.0));
      block.share_parameters(other.collect_params());
    }
  }
};

}  // namespace

TEST_CASE("A block that is used and no child is read as it is", "[gluon][graph][hybrid]") {
  for (int how = 0; how < 4; ++how) {
    CAPTURE(how);
    const auto run = [&](bool hybrid) {
      Teacher teacher;
      nn::Sequential net;
      net.add(nn::Lambda([&](const NDArray& x) { return teacher.block(x); }));
      net.initialize();
      if (hybrid)
        net.hybridize();
      Outcome outcome;
      for (int i = 0; i < 4; ++i) {
        if (i == 2)
          teacher.change(how);
        NDArray x = samples(), result;
        x.attach_grad();
        outcome.add(net(x));
        {
          const autograd::RecordScope record;
          result = net(x);
        }
        result.backward();
        outcome.add(x.grad());
        if (how == 2 && i >= 2)
          outcome.add(teacher.block.own_parameter("weight").grad());
      }
      if (hybrid && how == 1)
        CHECK(net.hybrid_traces() == 2);
      return outcome;
    };
    check_alike(run(true), run(false), 1e-6);
  }
}

TEST_CASE("A teacher in the loss of a step is read as it is", "[gluon][graph][train_step]") {
  for (int how = 0; how < 4; ++how) {
    CAPTURE(how);
    const auto run = [&](bool graph) {
      Teacher teacher;
      class Distance final : public gluon::Block {
       public:
        explicit Distance(const nn::Dense& to) : to_(to) {}

       protected:
        Arrays forward_all(std::span<const NDArray> in) const override {
          return {sum(square(in[0] - to_(in[1])), {1})};
        }

       private:
        const nn::Dense& to_;
      };
      const Distance loss(teacher.block);
      nn::Dense net(3, {.in_units = 3});
      net.initialize(gluon::init::Constant(0.125));
      Trainer trainer(net.collect_params(), SGD({.learning_rate = 0.01}));
      gluon::TrainStep step(net, loss, trainer);
      Outcome outcome;
      for (int i = 0; i < 4; ++i) {
        if (i == 2)
          teacher.change(how);
        NDArray losses;
        if (graph) {
          losses = step(samples(), samples()).losses;
        } else {
          {
            const autograd::RecordScope record;
            losses = loss(net(samples()), samples());
          }
          losses.backward();
          trainer.step(2);
        }
        outcome.add(losses.detach());
        outcome.add(net.own_parameter("weight").data());
        if (how == 2 && i >= 2)
          outcome.add(teacher.block.own_parameter("weight").grad());
      }
      if (graph)
        CHECK(step.traced() == (how == 1 ? 1 : 2));
      return outcome;
    };
    check_alike(run(true), run(false), 1e-6);
  }
}
