// Exported networks: what is imported computes what was exported, and trains as it did.
#include <memory>
#include <thread>

#include "tests/engine/expect.h"
#include "tests/gluon/exported.h"

using namespace sluice;
using namespace sluice::test;
using gluon::SymbolBlock;

namespace {

SymbolBlock exported(const gluon::Block& net, const Arrays& inputs, Device device = cpu()) {
  const TemporaryFolder folder;
  net.export_to(folder / "net", inputs);
  return SymbolBlock::imports(folder / "net.json", {}, {}, device);
}

std::shared_ptr<gluon::Block> made(const ExportCase& one, const Arrays& inputs, Device device) {
  auto net = one.make();
  net->initialize(gluon::init::Xavier(), device);
  const autograd::TrainScope train;  // running statistics move
  (void)net->call(inputs);
  return net;
}

void check_same(Device from, Device to) {
  for (const ExportCase& one : export_cases()) {
    CAPTURE(one.name);
    const std::int64_t batch = one.inputs[0][0];
    const auto net = made(one, examples(one, batch, from), from);
    const SymbolBlock same = exported(*net, examples(one, batch, from), to);
    net->to(to);
    CHECK(same.inputs()[0].batch == one.batch);
    for (const std::int64_t n : {batch, std::int64_t{1}, std::int64_t{5}, batch}) {
      if (!one.batch && n != batch)
        continue;
      CAPTURE(n);
      const Arrays inputs = examples(one, n, to, 3);
      CHECK(bytes_of(same.call(inputs)) == bytes_of(net->call(inputs)));
    }
    const ParameterDict old = net->collect_params(), now = same.collect_params();
    for (const auto& [name, parameter] : old) {
      REQUIRE(now.contains(name));
      CHECK(now[name].grad_req() == parameter.grad_req());
      CHECK(bytes_of({now[name].data()}) == bytes_of({parameter.data()}));
    }
  }
}

// Gradients of the sum of all outputs, and of the inputs.
std::vector<std::string> gradients(const gluon::Block& net, const Arrays& given) {
  Arrays inputs;
  for (const NDArray& one : given) {
    NDArray variable = one.copy();
    if (is_floating(variable.dtype()))
      variable.attach_grad();
    inputs.push_back(variable);
  }
  NDArray total;
  {
    const autograd::RecordScope record(false);
    for (const NDArray& output : net.call(inputs))
      total = total.defined() ? total + sum(square(output)) : sum(square(output));
  }
  total.backward();
  Arrays found;
  for (const NDArray& input : inputs) {
    if (is_floating(input.dtype()))
      found.push_back(input.grad());
  }
  for (const auto& [name, parameter] : net.collect_params()) {
    if (parameter.grad_req() != GradReq::null)
      found.push_back(parameter.grad());
  }
  return bytes_of(found);
}

void check_gradients(Device device) {
  for (const ExportCase& one : export_cases()) {
    CAPTURE(one.name);
    if (!one.has_gradient)
      continue;
    const Arrays inputs = examples(one, one.inputs[0][0], device);
    const auto net = made(one, inputs, device);
    const SymbolBlock same = exported(*net, inputs, device);
    CHECK(gradients(same, inputs) == gradients(*net, inputs));
  }
}

}  // namespace

TEST_CASE("what is imported gives what was exported, to the last bit, for any batch", "[gluon][export]") {
  check_same(cpu(), cpu());
}

TEST_CASE("what a GPU exports and imports gives the same there", "[gluon][export][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_same(gpu(0), gpu(0));
}

TEST_CASE("a network is exported on one device and imported on another", "[gluon][export][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_same(cpu(), gpu(0));
  check_same(gpu(0), cpu());
}

TEST_CASE("gradients of what is imported are those of the original in predict mode", "[gluon][export]") {
  check_gradients(cpu());
}

TEST_CASE("gradients of what is imported are those of the original on a GPU", "[gluon][export][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_gradients(gpu(0));
}

TEST_CASE("a network that is imported trains as the original, by hand and as a step", "[gluon][export]") {
  const auto train = [](int how) {
    Engine engine({.seed = 7});
    const EngineScope scope(engine);
    gluon::nn::Sequential net = sample_network("tf");
    net.initialize(gluon::init::Xavier());
    const NDArray first = synthetic_batch(8, 14, 0, cpu()).first;
    (void)net(first);
    const SymbolBlock same = exported(net, {first});
    const gluon::Block& block = how == 0 ? static_cast<const gluon::Block&>(net) : same;
    const SoftmaxCrossEntropyLoss loss;
    gluon::Trainer trainer(block.collect_params(), Adam());
    gluon::TrainStep whole(block, loss, trainer);
    for (int step = 0; step < 6; ++step) {
      const auto [x, y] = synthetic_batch(step == 4 ? 5 : 8, 14, step, cpu());
      if (how == 2) {
        whole(x, y);
        continue;
      }
      NDArray losses;
      {
        const autograd::RecordScope record;
        losses = loss(block(x), y);
      }
      losses.backward();
      trainer.step(x.shape()[0]);
    }
    Arrays weights;
    for (const auto& [name, parameter] : block.collect_params())
      weights.push_back(parameter.data());
    CHECK(weights.size() == 6);
    return bytes_of(weights);
  };
  const auto wanted = train(0);
  CHECK(train(1) == wanted);
  CHECK(train(2) == wanted);
}

TEST_CASE("an imported network saves, loads, shares and is a child of others", "[gluon][export]") {
  const TemporaryFolder folder;
  gluon::nn::Sequential net = sample_network("mlp");
  net.initialize(gluon::init::Xavier());
  const NDArray x = pattern_array({3, 20});
  (void)net(x);
  net.export_to(folder / "net", {x});
  SymbolBlock one = SymbolBlock::imports(folder / "net.json");
  const auto before = values(one(x));
  one.save_parameters(folder / "same.npz");
  one.collect_params()["0.weight"].set_data(zeros({256, 20}));
  CHECK(values(one(x)) != before);
  one.load_parameters(folder / "same.npz");
  CHECK(values(one(x)) == before);
  net.load_parameters(folder / "same.npz");
  net.collect_params()["1.bias"].set_data(full({10}, 3.0f));
  one.share_parameters(net.collect_params("bias"));
  CHECK(values(one(x)) == values(net(x)));
  SymbolBlock moved = std::move(one);
  CHECK(values(moved(x)) == values(net(x)));
  const auto again = exported(moved, {x});
  CHECK(values(again(x)) == values(net(x)));
  gluon::nn::Sequential outer;
  outer.add(std::move(moved), gluon::nn::Activation("relu"));
  CHECK(values(outer(x)) == values(relu(net(x))));
  CHECK(outer.collect_params().contains("0.0.weight"));
  CHECK_THROWS_AS(outer.cast(float16), UnsupportedError);
}

TEST_CASE("inputs of an imported network have names, in any order, and notes come along", "[gluon][export]") {
  const TemporaryFolder folder;
  TwoArms net;
  net.initialize();
  const NDArray x = pattern_array({3, 5}), y = pattern_array({3, 4});
  net.export_to(folder / "net", {x, y}, {.inputs = {"left", "right"}, .notes = {{"classes", "a, b"}}});
  const auto swapped = SymbolBlock::imports(folder / "net.json", {"right", "left"}, folder / "net.npz");
  CHECK(bytes_of(swapped({y, x})) == bytes_of(net({x, y})));
  CHECK(swapped.inputs()[0].name == "right");
  CHECK(swapped.inputs()[0].shape == Shape{3, 4});
  REQUIRE(swapped.outputs().size() == 3);
  CHECK(swapped.outputs()[1].name == "output1");
  CHECK(swapped.notes().at("classes") == "a, b");
  CHECK(swapped.collect_params().names() == "scale, body.weight, body.bias, constant.0");
  const auto refuses = [&](const std::vector<std::string>& names) {
    return text_of_error([&] { (void)SymbolBlock::imports(folder / "net.json", names); });
  };
  CHECK(refuses({"left"}).find("1 inputs are named of 2") != std::string::npos);
  CHECK(refuses({"left", "left"}).find("'left', or it is named twice") != std::string::npos);
  CHECK(refuses({"left", "data"}).find("no input 'data'") != std::string::npos);
  CHECK_THROWS_AS(swapped({x, y}), ShapeError);
  CHECK_THROWS_AS(swapped({y, pattern_array({4, 5})}), ShapeError);
  CHECK_THROWS_AS(swapped({y, x.astype(float64)}), DTypeError);
  CHECK_THROWS_AS(swapped(x), ValueError);
}

TEST_CASE("an imported network moves to a GPU, with what it makes there itself", "[gluon][export][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  FixedRows rows;
  const NDArray x = pattern_array({3, 5});
  SymbolBlock same = exported(rows, {x});
  CHECK(bytes_of({same(x.to(gpu(0)))}) == bytes_of({rows(x)}));
  SymbolBlock net = exported(
      *made(export_cases()[0], examples(export_cases()[0], 3, cpu()), cpu()), examples(export_cases()[0], 3, cpu()));
  const NDArray images = examples(export_cases()[0], 3, cpu())[0];
  const auto wanted = values(net(images));
  net.to(gpu(0));
  check_near(values(net(images.to(gpu(0)))), wanted, 1e-4);
  net.to(cpu());
  CHECK(values(net(images)) == wanted);
}

TEST_CASE("many threads call one imported network with batches of many sizes", "[gluon][export]") {
  const ExportCase one = export_cases()[2];
  const auto net = made(one, examples(one, 2, cpu()), cpu());
  const SymbolBlock same = exported(*net, examples(one, 2, cpu()));
  std::vector<std::vector<std::string>> wanted;
  for (std::int64_t n = 1; n <= 20; ++n)  // more than are kept
    wanted.push_back(bytes_of(net->call(examples(one, n, cpu()))));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 60; ++i) {
        const std::int64_t n = (i * 7 + thread * 5) % 20;
        wrong += bytes_of(same.call(examples(one, n + 1, cpu()))) != wanted[static_cast<std::size_t>(n)];
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("errors of an imported network name the file, the layer and the caller's line", "[gluon][export]") {
  class Picks : public gluon::Block {
   protected:
    NDArray forward(const NDArray& x) const override { return take(x, argmax(x, 1) + 1000, 0, IndexMode::raise); }
  };
  const Picks net;
  const NDArray x = pattern_array({3, 5});
  (void)x;
  gluon::nn::Sequential outer;
  const SymbolBlock same = exported(net, {x});
  const std::string text = text_of_error([&] { same(x).wait_to_read(); });
  CAPTURE(text);
  CHECK(text.find("net.json: ") != std::string::npos);
  CHECK(text.find("inside the call at") != std::string::npos);
  CHECK(text.find("test_symbol_block.cpp:") != std::string::npos);
}

TEST_CASE("what cannot be exported says why", "[gluon][export]") {
  const TemporaryFolder folder;
  const NDArray x = pattern_array({3, 5});
  class Counts : public gluon::Block {
   public:
    NDArray calls = zeros({1});

   protected:
    NDArray forward(const NDArray& a) const override {
      NDArray counted = calls;
      counted += 1.0;
      return a * counted;
    }
  };
  CHECK_THROWS_AS(Counts().export_to(folder / "net", {x}), UnsupportedError);
  const gluon::nn::Lambda looks([](const NDArray& a) { return a * sum(a).item<double>(); });
  CHECK_THROWS_AS(looks.export_to(folder / "net", {x}), ValueError);
  gluon::nn::Dense dense(3);
  CHECK_THROWS_AS(dense.export_to(folder / "net", {x}), ValueError);  // not initialised
  dense.initialize();
  CHECK_THROWS_AS(dense.export_to(folder / "net", {x}, {.inputs = {"a", "b"}}), ValueError);
  CHECK_THROWS_AS(dense.export_to(folder / "none" / "net", {x}), FileError);
  CHECK_THROWS_AS(dense.export_to(folder / "net", {NDArray()}), ValueError);
  CHECK(std::filesystem::is_empty(folder.path()));
  dense.export_to(folder / "net", {x});
  CHECK(std::filesystem::exists(folder / "net.npz"));
}
