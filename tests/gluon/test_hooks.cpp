// Hooks of blocks: what they see, when, and how long.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

using Seen = std::vector<std::string>;

/// Dense (3 -> 4, relu), a child of two layers, Dense (4 -> 2).
nn::Sequential network() {
  nn::Sequential inner, net;
  inner.add(nn::Dense(4, {.activation = "tanh"}), nn::Dropout(0.5));
  net.add(nn::Dense(4, {.activation = "relu"}), std::move(inner), nn::Dense(2));
  random::seed(3);
  net.initialize(gluon::init::Xavier());
  return net;
}

/// The call throws, and the message has all of these words.
void says(const std::function<void()>& call, const std::vector<std::string>& words) {
  std::string text;
  try {
    call();
  } catch (const Error& error) {
    text = error.what();
  }
  for (const std::string& word : words) {
    INFO("'" << word << "' in: " << text);
    CHECK(text.find(word) != std::string::npos);
  }
}

gluon::OpHook noting(Seen& seen) {
  return [&seen](std::string_view name, std::string_view op, const NDArray& array) {
    seen.push_back(message(name, ' ', op, ' ', array.shape()));
  };
}

}  // namespace

TEST_CASE("Hooks see what a block is given and gives, in the order in which they came", "[gluon][hooks]") {
  nn::Sequential net = network();
  const NDArray x = pattern_array({2, 3});
  const std::vector<float> wanted = values(net(x));
  Seen seen;
  std::vector<float> given, gave;
  net.register_forward_pre_hook([&](const gluon::Block& block, std::span<const NDArray> inputs) {
    CHECK(&block == &net);
    seen.push_back("before 1");
    given = values(inputs[0]);
  });
  net.register_forward_hook(
      [&](const gluon::Block&, std::span<const NDArray> inputs, std::span<const NDArray> outputs) {
        CHECK(inputs.size() == 1);
        seen.push_back("behind 1");
        gave = values(outputs[0]);
      });
  net.register_forward_pre_hook([&](const gluon::Block&, std::span<const NDArray>) { seen.push_back("before 2"); });
  net.register_forward_hook(
      [&](const gluon::Block&, std::span<const NDArray>, std::span<const NDArray>) { seen.push_back("behind 2"); });
  CHECK(values(net(x)) == wanted);
  CHECK(seen == Seen{"before 1", "before 2", "behind 1", "behind 2"});
  CHECK(given == values(x));
  CHECK(gave == wanted);
  CHECK_THROWS_AS(net.register_forward_hook({}), ValueError);
  CHECK_THROWS_AS(net.register_forward_pre_hook({}), ValueError);
  CHECK_THROWS_AS(net.register_op_hook({}), ValueError);
}

TEST_CASE("A hook goes by its handle, at the end of a scope, or by itself while it runs", "[gluon][hooks]") {
  nn::Sequential net = network();
  const NDArray x = pattern_array({2, 3});
  int calls = 0;
  const auto count = [&](const gluon::Block&, std::span<const NDArray>) { ++calls; };
  gluon::HookHandle handle = net.register_forward_pre_hook(count), copy = handle;
  CHECK(handle.is_attached());
  net(x);
  copy.detach();
  copy.detach();
  CHECK_FALSE(handle.is_attached());
  net(x);
  CHECK(calls == 1);
  {
    const gluon::HookScope scope(net[0]->register_forward_pre_hook(count));
    net(x);
  }
  net(x);
  CHECK(calls == 2);
  gluon::HookHandle once;
  once = net.register_forward_pre_hook([&](const gluon::Block&, std::span<const NDArray>) {
    ++calls;
    once.detach();
  });
  net(x);
  net(x);
  CHECK(calls == 3);
  gluon::HookHandle kept;
  {
    nn::Dense layer(2);
    kept = layer.register_forward_pre_hook(count);
    nn::Dense moved = std::move(layer);
    moved.initialize();
    moved(x);
    CHECK(calls == 4);
    CHECK(kept.is_attached());
  }
  CHECK_FALSE(kept.is_attached());
  kept.detach();
  CHECK_FALSE(gluon::HookHandle().is_attached());
}

TEST_CASE("A hook that another one took off is not called, in the same call either", "[gluon][hooks]") {
  nn::Sequential net = network();
  const NDArray x = pattern_array({2, 3});
  Seen seen;
  gluon::HookHandle second, behind, op, own;
  net.register_forward_pre_hook([&](const gluon::Block&, std::span<const NDArray>) {
    second.detach();
    behind.detach();
  });
  second =
      net.register_forward_pre_hook([&](const gluon::Block&, std::span<const NDArray>) { seen.push_back("second"); });
  behind = net.register_forward_hook(
      [&](const gluon::Block&, std::span<const NDArray>, std::span<const NDArray>) { seen.push_back("behind"); });
  own = net.register_op_hook(
      [&](std::string_view, std::string_view name, const NDArray&) {
        seen.push_back(std::string(name));
        own.detach();
        op.detach();
      },
      true);
  op = net.register_op_hook([&](std::string_view, std::string_view, const NDArray&) { seen.push_back("other"); });
  net(x);
  CHECK(seen == Seen{"dense_relu"});  // its first input
  net(x);
  CHECK(seen.size() == 1);
}

TEST_CASE("A hook's own state stays when others come and go", "[gluon][hooks]") {
  nn::Sequential net = network();
  const NDArray x = pattern_array({2, 3});
  int calls = 0;
  gluon::HookHandle once =
      net.register_forward_pre_hook([&](const gluon::Block&, std::span<const NDArray>) { once.detach(); });
  net.register_forward_hook(
      [&calls, own = 0](const gluon::Block&, std::span<const NDArray>, std::span<const NDArray>) mutable {
        calls = ++own;
      });
  net(x);
  net(x);
  CHECK(calls == 2);
}

TEST_CASE("A hybridized block calls its hooks around its graph, and those inside by hand", "[gluon][hooks]") {
  nn::Sequential net = network();
  const NDArray x = pattern_array({2, 3});
  const std::vector<float> wanted = values(net(x));
  net.hybridize();
  net(x);
  CHECK(net.hybrid_traces() == 1);
  int outer = 0;
  std::vector<float> outputs;
  net.register_forward_hook([&](const gluon::Block&, std::span<const NDArray>, std::span<const NDArray> given) {
    ++outer;
    outputs = values(given[0]);
  });
  const graph::Plan* const plan = net.hybrid_plan();
  CHECK(values(net(x)) == wanted);
  CHECK(values(net(pattern_array({5, 3}, 1))).size() == 10);
  CHECK(outer == 2);
  CHECK(net.hybrid_traces() == 1);
  CHECK(plan != nullptr);

  std::vector<std::vector<float>> inner;
  gluon::HookHandle handle = (*net[1].as<nn::Sequential>())[0]->register_forward_hook(
      [&](const gluon::Block& block, std::span<const NDArray>, std::span<const NDArray> given) {
        CHECK(block.type_name() == "Dense");
        inner.push_back(values(given[0]));
      });
  for (int i = 0; i < 3; ++i)
    CHECK(values(net(x)) == wanted);
  CHECK(inner.size() == 3);
  CHECK(inner[0].size() == 8);
  CHECK(outputs == wanted);
  CHECK(outer == 5);
  handle.detach();
  net(x);
  CHECK(inner.size() == 3);
  CHECK(net.hybrid_traces() == 1);

  // What is traced has no values to look at.
  nn::Sequential fresh = network();
  int traced = 0;
  fresh.register_forward_pre_hook([&](const gluon::Block&, std::span<const NDArray>) { ++traced; });
  fresh[0]->register_forward_pre_hook([&](const gluon::Block&, std::span<const NDArray>) { ++traced; });
  (void)fresh.summary(x);
  const TemporaryFolder folder;
  fresh.export_to(folder / "net", {x});
  CHECK(traced == 0);
  fresh(x);
  CHECK(traced == 2);
}

TEST_CASE("Op hooks hear of the operators that a block and the layers inside it call, by name", "[gluon][hooks]") {
  nn::Sequential net = network();
  const NDArray x = pattern_array({2, 3});
  const std::vector<float> wanted = values(net(x));
  Seen seen, all;
  gluon::HookHandle handle = net.register_op_hook(noting(seen));
  CHECK(values(net(x)) == wanted);
  CHECK(
      seen == Seen{
                  "0.dense_relu_output dense_relu (2, 4)",
                  "1.0.dense_output dense (2, 4)",
                  "1.0.tanh_output tanh (2, 4)",
                  "2.dense_output dense (2, 2)"});
  const Seen by_hand = seen;
  net.hybridize();
  seen.clear();
  CHECK(values(net(x)) == wanted);
  CHECK(seen == by_hand);
  handle.detach();
  net[2]->register_op_hook(noting(all), true);
  net.hybridize(false);
  seen.clear();
  net(x);
  CHECK(seen.empty());
  CHECK(
      all == Seen{
                 "2.dense_input0 dense (2, 4)",
                 "2.dense_input1 dense (2, 4)",
                 "2.dense_input2 dense (2,)",
                 "2.dense_output dense (2, 2)"});
}

TEST_CASE("Op hooks of a layer and of what is around it both hear, a layer that is hybridized too", "[gluon][hooks]") {
  nn::Sequential net = network();
  net[0]->hybridize();
  const NDArray x = pattern_array({2, 3});
  net(x);
  Seen outer, inner;
  net.register_op_hook(noting(outer));
  net[0]->register_op_hook([&](std::string_view name, std::string_view, const NDArray& array) {
    inner.push_back(std::string(name));
    (void)(array + 1).to_vector<float>();  // what a hook calls nobody hears of
  });
  net(x);
  CHECK(inner == Seen{"0.dense_relu_output"});
  CHECK(outer.size() == 4);
}

TEST_CASE("Under hooks gradients and random numbers are what they are without", "[gluon][hooks]") {
  const auto gradients = [](bool hooked, bool hybrid) {
    Engine engine({.seed = 7});
    const EngineScope scope(engine);
    nn::Sequential net = network();
    if (hybrid)
      net.hybridize();
    std::size_t heard = 0;
    if (hooked) {
      net.register_op_hook([&](std::string_view, std::string_view, const NDArray&) { ++heard; }, true);
      net[1]->register_forward_hook(
          [&](const gluon::Block&, std::span<const NDArray>, std::span<const NDArray>) { ++heard; });
    }
    NDArray x = pattern_array({8, 3});
    x.attach_grad();
    NDArray loss;
    random::seed(11);
    {
      const autograd::RecordScope record;
      loss = sum(square(net(x)));
    }
    loss.backward();
    std::vector<float> all = values(x.grad());
    for (const auto& [name, parameter] : net.collect_params()) {
      const std::vector<float> one = values(parameter.grad());
      all.insert(all.end(), one.begin(), one.end());
    }
    CHECK((heard > 0) == hooked);
    return all;
  };
  const std::vector<float> wanted = gradients(false, false);
  CHECK(gradients(true, false) == wanted);
  CHECK(gradients(true, true) == wanted);
}

TEST_CASE("What a hook throws the call throws, naming the layer; the next call is as ever", "[gluon][hooks]") {
  nn::Sequential net = network();
  const NDArray x = pattern_array({2, 3});
  const std::vector<float> wanted = values(net(x));
  gluon::HookHandle handle = net[2]->register_forward_pre_hook(
      [](const gluon::Block&, std::span<const NDArray>) { throw ValueError("no more of this"); });
  says([&] { net(x); }, {"no more of this", "layer 2 (Dense)", "test_hooks.cpp"});
  handle.detach();
  handle = net.register_op_hook(
      [](std::string_view, std::string_view op, const NDArray&) { throw ValueError(message("not ", op)); });
  says([&] { net(x); }, {"not dense", "layer 0 (Dense)"});
  handle.detach();
  CHECK(values(net(x)) == wanted);
}

TEST_CASE("Hooks are detached while other threads call the block", "[gluon][hooks]") {
  nn::Sequential net = network();
  const NDArray x = pattern_array({2, 3});
  const std::vector<float> wanted = values(net(x));
  std::atomic<int> calls{0};
  std::vector<gluon::HookHandle> handles;
  for (int i = 0; i < 50; ++i)
    handles.push_back(net.register_forward_pre_hook([&](const gluon::Block&, std::span<const NDArray>) { ++calls; }));
  std::atomic<bool> right{true};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 50; ++turn)
        right = right && values(net(x)) == wanted;
    });
  }
  for (gluon::HookHandle& handle : handles)
    handle.detach();
  for (std::thread& thread : threads)
    thread.join();
  CHECK(right);
  const int before = calls;
  net(x);
  CHECK(calls == before);
}
