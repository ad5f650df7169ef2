// Blocks as graphs: nothing changes but the speed.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/gluon/networks.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

namespace nn = gluon::nn;

nn::Sequential network(const std::string& name) {
  if (name != "norm" && name != "row norms")
    return sample_network(name);
  nn::Sequential net;
  if (name == "row norms") {
    net.add(nn::Conv2D(8, 3), nn::GroupNorm({.num_groups = 2}), nn::Activation("relu"), nn::InstanceNorm());
    net.add(nn::Dense(16), nn::LayerNorm(), nn::Activation("relu"), nn::RMSNorm(), nn::Dense(10));
    return net;
  }
  net.add(nn::Conv2D(8, 3), nn::BatchNorm(), nn::Activation("relu"), nn::MaxPool2D(2), nn::Dropout(0.3), nn::Dense(10));
  return net;
}

using Trail = std::vector<std::vector<float>>;

// Training and prediction in turns; everything that can be seen of it.
Trail run(const std::string& name, Device device, bool hybrid, std::size_t* traces = nullptr) {
  Engine engine({.workers = 2, .seed = 11});
  const EngineScope scope(engine);
  nn::Sequential net = network(name);
  net.initialize(gluon::init::Xavier(), device);
  if (hybrid)
    net.hybridize();
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::Adam());
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  Trail trail;
  for (int i = 0; i < 8; ++i) {
    auto [x, y] = synthetic_batch(i % 3 == 2 ? 5 : 8, 12, i, device);
    x.attach_grad();
    NDArray losses;
    {
      const autograd::RecordScope record;
      losses = loss(net(x), y);
    }
    losses.backward();
    trail.push_back(values(losses));
    trail.push_back(values(x.grad()));
    for (const auto& [path, parameter] : net.collect_params()) {
      if (parameter.grad_req() != GradReq::null)
        trail.push_back(values(parameter.grad()));
    }
    trainer.step(x.shape()[0]);
    trail.push_back(values(net(x)));
  }
  for (const auto& [path, parameter] : net.collect_params())
    trail.push_back(values(parameter.data()));
  if (traces != nullptr)
    *traces = net.hybrid_traces();
  return trail;
}

void check_same(const char* name, Device device) {
  CAPTURE(name);
  std::size_t traces = 0;
  CHECK(run(name, device, true, &traces) == run(name, device, false));
  CHECK(traces == 2);  // training and prediction, both batch sizes each; the first call of all ran by hand
}

}  // namespace

TEST_CASE("A hybridized network trains and predicts as without, to the last bit", "[gluon][graph][hybrid]") {
  for (const char* name : {"mlp", "torch", "tf", "norm", "row norms"})
    check_same(name, cpu());
}

TEST_CASE("A hybridized network on a GPU trains and predicts as without", "[gluon][graph][hybrid][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const char* name : {"mlp", "torch", "tf", "norm", "row norms"})
    check_same(name, gpu(0));
}

namespace {

/// Two arrays in; out: one that both make, one of the first alone, the second as it is, and a number of no gradient.
class Mixed : public gluon::Block {
 public:
  Mixed()
      : scale_(parameter("scale", {.shape = {3}, .init = gluon::init::Constant(0.5)})),
        unused_(parameter("unused", {.shape = {2}, .init = gluon::init::One()})) {}

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override {
    require_inputs(inputs, 2);
    const NDArray &x = inputs[0], &y = inputs[1];
    const NDArray sums = tanh(x * scale_.data() + y);
    return {square(sums) * y, exp(x), y, argmax(sums, 0)};
  }

 private:
  gluon::Parameter &scale_, &unused_;
};

struct MixedCall {
  Mixed block;
  NDArray x = array<float>({0.1f, -0.4f, 0.7f, 1.1f, 0.3f, -0.2f}, {2, 3});
  NDArray y = array<float>({0.5f, 0.2f, -0.6f, 0.9f, -1.2f, 0.4f}, {2, 3});

  explicit MixedCall(bool hybrid) {
    block.initialize();
    if (hybrid)
      block.hybridize();
    x.attach_grad();
    y.attach_grad(GradReq::add);
  }
};

// Gradients of a gradient: of x, y and the parameter.
Trail second_gradients(bool hybrid) {
  MixedCall call(hybrid);
  Trail trail;
  for (int i = 0; i < 3; ++i) {
    const autograd::RecordScope record;
    const Arrays made = call.block({call.x, call.y});
    const NDArray heads[] = {made[0], made[1], made[2]};
    const NDArray scale = call.block.own_parameter("scale").data();
    const NDArray variables[] = {call.x, call.y, scale};
    const auto first = autograd::grad(heads, variables, {}, {.create_graph = true});
    const NDArray sum = sluice::sum(square(first[0])) + sluice::sum(first[1] * first[0]) + sluice::sum(first[2]);
    for (const NDArray& gradient : first)
      trail.push_back(values(gradient));
    const NDArray second_heads[] = {sum};
    for (const NDArray& gradient : autograd::grad(second_heads, variables, {}, {.create_graph = true}))
      trail.push_back(values(gradient));
  }
  return trail;
}

}  // namespace

TEST_CASE("Gradients of gradients go through a hybridized block", "[gluon][graph][hybrid]") {
  CHECK(second_gradients(true) == second_gradients(false));
}

TEST_CASE("Gradients of gradients use the numbers that a hybridized block drew", "[gluon][graph][hybrid]") {
  const auto run = [](bool hybrid) {
    Engine engine({.workers = 2, .seed = 3});
    const EngineScope scope(engine);
    nn::Sequential net;
    net.add(nn::Dense(16, {.activation = "tanh"}), nn::Dropout(0.5), nn::Dense(1));
    net.initialize(gluon::init::Xavier());
    NDArray x = sluice::random::normal(0, 1, {4, 5});
    net(x);
    if (hybrid)
      net.hybridize();
    x.attach_grad();
    const autograd::RecordScope record;
    const NDArray heads[] = {net(x)}, variables[] = {x};
    const auto first = autograd::grad(heads, variables, {}, {.create_graph = true});
    const NDArray again[] = {square(first[0])};
    return Trail{values(heads[0]), values(first[0]), values(autograd::grad(again, variables)[0])};
  };
  CHECK(run(true) == run(false));
}

// Gradients that one array gets from several calls are added in another order than by hand.
TEST_CASE("Several outputs of a hybridized block, added gradients, parameters nobody uses", "[gluon][graph][hybrid]") {
  const auto run = [](bool hybrid) {
    MixedCall call(hybrid);
    Trail trail;
    for (const bool both : {true, false}) {
      Arrays made, more;
      NDArray sum;
      {
        const autograd::RecordScope record;
        made = call.block({call.x, call.y});
        more = call.block({call.y, call.x});  // a second node
        sum = both ? made[0] * 2.0 + more[1] + made[2] : made[1] + more[2];
      }
      sum.backward();
      for (const NDArray& output : made)
        trail.push_back(values(output.astype(float32)));
      trail.push_back(values(call.x.grad()));
      trail.push_back(values(call.y.grad()));
      trail.push_back(values(call.block.own_parameter("scale").grad()));
      CHECK_FALSE(call.block.own_parameter("unused").grad_is_fresh());
      CHECK(call.y.requires_grad());
    }
    return trail;
  };
  const Trail hybrid = run(true), by_hand = run(false);
  REQUIRE(hybrid.size() == by_hand.size());
  for (std::size_t i = 0; i < hybrid.size(); ++i) {
    for (std::size_t at = 0; at < hybrid[i].size(); ++at)
      CHECK(hybrid[i][at] == Approx(by_hand[i][at]).epsilon(1e-6));
  }
}

TEST_CASE("A hybridized block says when its gradients cannot be had", "[gluon][graph][hybrid]") {
  MixedCall call(true);
  const auto record = [&] {
    const autograd::RecordScope recording;
    return call.block({call.x, call.y})[0];
  };
  record();
  const NDArray once = record();
  once.backward();
  CHECK_THROWS_AS(once.backward(), AutogradError);
  const NDArray kept = record();
  kept.backward({}, {.retain_graph = true});
  CHECK_NOTHROW(kept.backward());
  const NDArray stale = record();
  call.block.own_parameter("scale").set_data(full({3}, 2.0f));
  CHECK_THROWS_AS(stale.backward(), AutogradError);
  const NDArray changed = record();
  NDArray x = call.x.detach();
  x += 1.0;
  CHECK_THROWS_AS(changed.backward(), AutogradError);
  CHECK_NOTHROW(record().backward());
}

TEST_CASE("A hybridized network follows what changes in it", "[gluon][graph][hybrid]") {
  const auto run = [](bool hybrid) {
    Engine engine({.workers = 2, .seed = 5});
    const EngineScope scope(engine);
    nn::Sequential net;
    net.add(nn::Dense(6, {.activation = "relu"}), nn::Dense(3));
    net.initialize(gluon::init::Xavier());
    const NDArray x = sluice::random::normal(0, 1, {4, 5});
    net(x);
    if (hybrid)
      net.hybridize();
    Trail trail;
    const auto look = [&] {
      {
        const autograd::RecordScope record;
        net(x).backward();
      }
      trail.push_back(values(net(x)));
      for (const auto& [path, parameter] : net.collect_params()) {
        if (parameter.grad_req() != GradReq::null)
          trail.push_back(values(parameter.grad()));
      }
    };
    look();
    net.collect_params()["0.weight"].set_data(full({6, 5}, 0.25f));
    look();
    net.collect_params()["0.weight"].set_grad_req(GradReq::null);
    look();
    net.replace("1", nn::Activation("tanh"));
    look();
    net.cast(float64);
    trail.push_back(net(x.astype(float64)).astype(float32).to_vector<float>());
    net.hybridize(false);
    CHECK(net.hybrid_traces() == 0);
    return trail;
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("Looking at a value in a hybridized forward is an error that names the line", "[gluon][graph][hybrid]") {
  nn::Lambda block([](const NDArray& x) { return sum(x).item<float>() > 0 ? x : -x; });
  block.hybridize();
  const NDArray x = full({2}, 1.0f);
  try {
    block(x);
    FAIL("nothing was thrown");
  } catch (const ValueError& error) {
    CHECK_THAT(error.what(), sluice::test::contains("test_hybridize.cpp"));
  }
  block.hybridize(false);
  CHECK(block(x).to_vector<float>() == std::vector<float>{1, 1});
}

namespace {

// Each thread sees what it asked for, and draws nothing of another's.
void call_from_threads(Device device) {
  nn::Sequential net;
  net.add(nn::Dense(8, {.activation = "relu"}), nn::Dense(4));
  net.initialize(gluon::init::Xavier(), device);
  const auto batch = [&](int t) {
    return full({t % 2 == 0 ? 3 : 4, 5}, 0.1f * static_cast<float>(t), {.device = device});
  };
  net(batch(0));
  Trail wanted;
  for (int t = 0; t < 6; ++t)
    wanted.push_back(values(net(batch(t))));
  net.hybridize();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        if (i % 5 == 4) {
          const autograd::RecordScope record;
          wrong += values(net(batch(t))) != wanted[static_cast<std::size_t>(t)];
        } else {
          wrong += values(net(batch(t))) != wanted[static_cast<std::size_t>(t)];
        }
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("Many threads call one hybridized network", "[gluon][graph][hybrid][concurrent]") {
  call_from_threads(cpu());
}
TEST_CASE("Many threads call one hybridized network on a GPU", "[gluon][graph][hybrid][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  call_from_threads(gpu(0));
}
