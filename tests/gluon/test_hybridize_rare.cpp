// Blocks as graphs where arrays meet in ways that a graph does not see: shared, captured, written, of several calls.
#include <functional>
#include <thread>
#include <vector>

#include "tests/gluon/networks.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

namespace nn = gluon::nn;
using Trail = std::vector<std::vector<float>>;

}  // namespace

namespace {

/// A block of one parameter that computes what it is told.
class Told : public gluon::Block {
 public:
  using Program = std::function<Arrays(std::span<const NDArray>, const NDArray&)>;
  explicit Told(Program program)
      : program_(std::move(program)), w_(parameter("w", {.shape = {3}, .init = gluon::init::Constant(0.5)})) {}

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override { return program_(inputs, w_.data()); }

 private:
  Program program_;
  gluon::Parameter& w_;
};

NDArray some(float first) {
  return array<float>({first, 0.4f - first, 0.3f * first});
}

// What `use` gives with the block as it is and as a graph.
template <class Use>
void check_told(const Told::Program& program, const Use& use) {
  const auto run = [&](bool hybrid) {
    Told block(program);
    block.initialize();
    if (hybrid)
      block.hybridize();
    Trail trail = use(block);
    trail.push_back(values(block.own_parameter("w").grad()));
    return trail;
  };
  const Trail hybrid = run(true), by_hand = run(false);
  REQUIRE(hybrid.size() == by_hand.size());
  for (std::size_t i = 0; i < hybrid.size(); ++i) {
    for (std::size_t at = 0; at < hybrid[i].size(); ++at)
      CHECK(hybrid[i][at] == Approx(by_hand[i][at]).epsilon(1e-5));
  }
}

Arrays cell(std::span<const NDArray> in, const NDArray& w) {
  const NDArray next = tanh(in[0] * w + in[1] * w);
  return {next * 2.0, next};
}

}  // namespace

TEST_CASE("A hybridized cell that is unrolled gives each gradient once", "[gluon][graph][hybrid]") {
  check_told(cell, [](const Told& block) {
    NDArray x = some(0.3f);
    x.attach_grad();
    NDArray out, state = zeros({3});
    {
      const autograd::RecordScope record;
      for (int i = 0; i < 3; ++i) {
        const Arrays made = block({x, state});
        out = made[0];
        state = made[1];
      }
    }
    out.backward();
    return Trail{values(out), values(x.grad())};
  });
}

TEST_CASE("Second gradients where inputs of a hybridized block come from each other", "[gluon][graph][hybrid]") {
  check_told(cell, [](const Told& block) {
    NDArray x = some(0.7f);
    x.attach_grad();
    const autograd::RecordScope record;
    const NDArray more = square(x) * block.own_parameter("w").data();
    const NDArray heads[] = {block({more, x * 3.0})[0]}, variables[] = {x};
    const NDArray first = autograd::grad(heads, variables, {}, {.create_graph = true})[0];
    square(first).backward();
    return Trail{values(first), values(x.grad())};
  });
}

TEST_CASE(
    "Gradients of gradients end where a hybridized forward takes an array off the tape", "[gluon][graph][hybrid]") {
  const auto detached_input = [](std::span<const NDArray> in, const NDArray& w) {
    return Arrays{sin(in[0].detach()) * in[0] * in[0] * w};
  };
  const auto detached_product = [](std::span<const NDArray> in, const NDArray& w) {
    const NDArray product = in[0] * w;
    return Arrays{exp(product.detach()) * square(product), product.detach()};
  };
  const auto paused = [](std::span<const NDArray> in, const NDArray& w) {
    NDArray factor;
    {
      const autograd::PauseScope pause;
      factor = cos(in[0] * w);
    }
    return Arrays{factor * square(in[0]) * w};
  };
  const auto detached_parameter = [](std::span<const NDArray> in, const NDArray& w) {
    return Arrays{tanh(w.detach() * in[0]) * w * w};
  };
  using Forward = Arrays (*)(std::span<const NDArray>, const NDArray&);
  const Forward all[] = {detached_input, detached_product, paused, detached_parameter};
  for (const Forward forward : all) {
    check_told(forward, [](const Told& block) {
      NDArray x = some(0.7f);
      x.attach_grad();
      const NDArray w = block.own_parameter("w").data();
      const autograd::RecordScope record;
      const NDArray heads[] = {block({x})[0]}, variables[] = {x, w};
      const auto first = autograd::grad(heads, variables, {}, {.create_graph = true});
      const NDArray second_heads[] = {square(first[0]) + first[1]};
      const auto second = autograd::grad(second_heads, variables, {}, {.create_graph = true});
      const NDArray third_heads[] = {second[0]};
      const auto third = autograd::grad(third_heads, variables);
      return Trail{
          values(heads[0]),
          values(first[0]),
          values(first[1]),
          values(second[0]),
          values(second[1]),
          values(third[0]),
          values(third[1])};
    });
  }
}

TEST_CASE(
    "One of two results of a hybridized block is differentiated where it writes in place", "[gluon][graph][hybrid]") {
  const auto adds_parameter = [](std::span<const NDArray> in, const NDArray& w) {
    NDArray sum = in[0] * 1.5;
    sum += w;
    return Arrays{sum * w, w * w};
  };
  const auto adds_detached = [](std::span<const NDArray> in, const NDArray& w) {
    NDArray sum = zeros(in[0].shape());
    sum += (w * in[0]).detach();
    NDArray first = sum * w;
    sum = sum + (w * w).detach();
    return Arrays{first + w, sum + w * w};
  };
  using Forward = Arrays (*)(std::span<const NDArray>, const NDArray&);
  const Forward all[] = {adds_parameter, adds_detached};
  for (const Forward forward : all) {
    for (const int head : {0, 1}) {
      check_told(forward, [&](const Told& block) {
        const NDArray w = block.own_parameter("w").data();
        const autograd::RecordScope record;
        const NDArray heads[] = {block({some(0.7f)})[static_cast<std::size_t>(head)]}, variables[] = {w};
        return Trail{values(heads[0]), values(autograd::grad(heads, variables)[0])};
      });
    }
  }
}

TEST_CASE(
    "Hybridized: two calls of batch norm before one backward, weights that layers share", "[gluon][graph][hybrid]") {
  const auto run = [](bool hybrid) {
    Engine engine({.workers = 2, .seed = 5});
    const EngineScope scope(engine);
    nn::Sequential net, twins;
    net.add(nn::Dense(4), nn::BatchNorm());
    net.initialize(gluon::init::Xavier());
    nn::Dense first(5, {.in_units = 5}), second(5, {.in_units = 5});
    second.share_parameters(first.collect_params());
    twins.add(std::move(first), std::move(second));
    twins.initialize(gluon::init::Xavier());
    const NDArray x = sluice::random::normal(0, 1, {6, 5});
    net(x);
    if (hybrid) {
      net.hybridize();
      twins.hybridize();
    }
    {
      const autograd::RecordScope record;
      (net(x) + net(x * 2.0)).backward();
      twins(x).backward();
    }
    Trail trail;
    for (const auto& params : {net.collect_params(), twins.collect_params()}) {
      for (const auto& [path, parameter] : params)
        trail.push_back(values(parameter.grad_req() == GradReq::null ? parameter.data() : parameter.grad()));
    }
    return trail;
  };
  const Trail hybrid = run(true), by_hand = run(false);
  REQUIRE(hybrid.size() == by_hand.size());
  for (std::size_t i = 0; i < hybrid.size(); ++i) {
    for (std::size_t at = 0; at < hybrid[i].size(); ++at)
      CHECK(hybrid[i][at] == Approx(by_hand[i][at]).epsilon(1e-5).margin(1e-6));
  }
}

TEST_CASE("Hybridized: gradients of arrays that forward captures, inputs that it writes", "[gluon][graph][hybrid]") {
  for (const bool computed : {false, true}) {
    NDArray captured = some(0.2f);
    captured.attach_grad();
    const auto use = [&](const Told& block) {
      NDArray x = some(0.9f), other = some(0.1f);
      captured.zero_grad();
      NDArray loss;
      {
        const autograd::RecordScope record;
        loss = block({x})[0] + (computed ? square(captured) : captured);
      }
      loss.backward();
      block({other});
      return Trail{values(loss), values(captured.grad())};
    };
    check_told(
        [&](auto in, const NDArray& w) { return Arrays{in[0] * w * (computed ? square(captured) : captured)}; }, use);
  }
  check_told(
      [](auto in, const NDArray& w) {
        NDArray written = in[0];
        written += 1.0;
        return Arrays{written * w};
      },
      [](const Told& block) {
        NDArray x = some(0.9f);
        Trail trail{values(block({x})[0])};
        trail.push_back(values(x));
        const autograd::RecordScope record;
        block({some(0.5f)})[0].backward();
        return trail;
      });
}

TEST_CASE("What a hybridized forward takes off the tape comes out off it", "[gluon][graph][hybrid]") {
  const auto hands_through = [](std::span<const NDArray> in, const NDArray& w) {
    return Arrays{in[0].detach(), w.detach(), in[0] * w, w};
  };
  check_told(hands_through, [](const Told& block) {
    CHECK_FALSE(autograd::on_tape(block({some(0.2f)})[1]));
    NDArray x = some(0.7f);
    x.attach_grad();
    {
      const autograd::RecordScope record;
      const Arrays out = block({x});
      CHECK_FALSE(autograd::on_tape(out[0]));
      CHECK_FALSE(autograd::on_tape(out[1]));
      (out[0] * 2.0 + out[1] * 3.0 + out[2] * out[3]).backward();
    }
    return Trail{values(x.grad())};
  });
}

TEST_CASE("Arrays that a hybridized forward brings along get their gradients", "[gluon][graph][hybrid]") {
  const bool frozen = GENERATE(true, false), late = GENERATE(true, false);
  const auto run = [&](bool hybrid) {
    NDArray brought = some(0.3f);
    Told block([&](auto in, const NDArray& w) { return Arrays{in[0] * brought + w}; });
    block.initialize();
    if (frozen)
      block.own_parameter("w").set_grad_req(GradReq::null);
    if (hybrid)
      block.hybridize();
    const auto step = [&] {
      const autograd::RecordScope record;
      return block({some(0.7f)})[0];
    };
    if (late)
      step();
    brought.attach_grad();
    step().backward();
    return values(brought.grad());
  };
  CHECK(run(true) == run(false));
  CHECK(run(true) == values(some(0.7f)));
}

TEST_CASE("A parameter that is written before backward is noticed through its views", "[gluon][graph][hybrid]") {
  const bool hybrid = GENERATE(true, false);
  Told block([](auto in, const NDArray& w) { return Arrays{in[0] * w.reshape({3, 1}).transpose()}; });
  block.initialize();
  if (hybrid)
    block.hybridize();
  NDArray x = ones({2, 3});
  x.attach_grad();
  const auto step = [&] {
    const autograd::RecordScope record;
    return block({x})[0];
  };
  step().backward();
  CHECK(values(x.grad()) == std::vector<float>(6, 0.5f));
  const NDArray y = step();
  block.own_parameter("w").set_data(some(0.1f));
  CHECK_THROWS_AS(y.backward(), AutogradError);
}

TEST_CASE("A hybridized forward that writes what its gradients need is refused", "[gluon][graph][hybrid]") {
  Told block([](auto in, const NDArray& w) {
    const NDArray t = in[0] * w, squares = square(t);
    NDArray same = t.detach();
    same += 1.0;
    return Arrays{squares};
  });
  block.initialize();
  block.hybridize();
  const autograd::RecordScope record;
  CHECK_THROWS_AS(block({some(0.5f)})[0].backward(), AutogradError);  // as by hand
}

TEST_CASE("A hybridized block is called under one engine and then another", "[gluon][graph][hybrid]") {
  nn::Activation relu("relu");
  relu.hybridize();
  for (int i = 0; i < 3; ++i) {
    Engine engine({.workers = 1});
    const EngineScope scope(engine);
    CHECK(relu(array<float>({-1, 2})).to_vector<float>() == std::vector<float>{0, 2});
  }
  CHECK(relu.hybrid_traces() == 3);
}

TEST_CASE("Tasks of a serial engine call a hybridized block while it is called", "[gluon][graph][hybrid]") {
  Engine engine({.cpu_policy = CpuMode::serial});
  const EngineScope scope(engine);
  Told block([](auto in, const NDArray& w) {
    copy_into(in[0] * 2.0, w.detach());
    return Arrays{in[0] + w};
  });
  block.initialize();
  block.hybridize();
  const NDArray x = some(0.5f);
  std::thread other([&] {
    const EngineScope here(engine);
    for (int i = 0; i < 2000; ++i)
      engine.push({.name = "call"}, [&](Queue) { block({x}); });
  });
  for (int i = 0; i < 2000; ++i)
    block({x});
  other.join();
  engine.wait_all();
  CHECK(values(block({x})[0]) == values(x * 3.0));
}
