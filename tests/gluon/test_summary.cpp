// Summaries of networks, against counts by hand.
#include <sstream>
#include <string>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/gluon/networks.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

NDArray like(const Shape& shape, DType dtype = float32) {
  return abstract_array({shape, dtype, cpu()});
}

struct Row {
  std::string path, type;
  Shape output;
  std::int64_t parameters, flops;
};

void check_rows(const gluon::Summary& summary, const std::vector<Row>& rows) {
  REQUIRE(summary.layers.size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    INFO("layer " << rows[i].path);
    const gluon::LayerSummary& layer = summary.layers[i];
    CHECK(layer.path == rows[i].path);
    CHECK(layer.type == rows[i].type);
    REQUIRE(layer.outputs.size() == 1);
    CHECK(layer.outputs[0] == rows[i].output);
    CHECK(layer.parameters == rows[i].parameters);
    CHECK(layer.flops == rows[i].flops);
  }
}

// Operators of its own between those of a layer that it calls twice.
class Twice : public gluon::Block {
 public:
  explicit Twice(std::int64_t units)
      : body_(child("body", nn::Dense(units, {.activation = "relu"}))),
        scale_(parameter("scale", {.shape = {1}, .init = gluon::init::One()})) {}

 protected:
  NDArray forward(const NDArray& x) const override {
    const NDArray once = body_(x) * scale_.data();
    return tanh(body_(once)) + once;
  }

 private:
  gluon::Child<nn::Dense> body_;
  gluon::Parameter& scale_;
};

class LooksAtValues : public gluon::Block {
 protected:
  NDArray forward(const NDArray& x) const override { return sum(x).item<float>() > 0 ? x : -x; }
};

}  // namespace

TEST_CASE("The summary of the sample mlp is what one counts by hand", "[summary]") {
  nn::Sequential net = sample_network("mlp");
  net.initialize(gluon::init::Xavier());
  const gluon::Summary summary = net.summary(like({32, 1, 28, 28}));
  const std::int64_t first = 2 * 32 * 784 * 256 + 2 * 32 * 256, second = 2 * 32 * 256 * 10 + 32 * 10;
  check_rows(
      summary,
      {{"", "Sequential", {32, 10}, 0, 0},
       {"0", "Dense", {32, 256}, 785 * 256, first},
       {"1", "Dense", {32, 10}, 257 * 10, second}});
  CHECK(summary.flops == first + second);
  CHECK(summary.trained_parameters == 785 * 256 + 257 * 10);
  CHECK(summary.other_parameters == 0);
  CHECK(summary.parameter_bytes == 4 * summary.parameters());
  CHECK(summary.result_bytes == 4 * 32 * (256 + 10));
}

TEST_CASE("The summaries of the sample networks of PyTorch and TensorFlow are what one counts by hand", "[summary]") {
  const std::int64_t n = 8, conv0 = n * 32 * 26 * 26;
  nn::Sequential torch = sample_network("torch");
  torch.initialize(gluon::init::Xavier());
  const std::int64_t conv1 = n * 64 * 24 * 24, pool = n * 64 * 12 * 12;
  check_rows(
      torch.summary(like({n, 1, 28, 28})),
      {{"", "Sequential", {n, 10}, 0, 0},
       {"0", "Conv2D", {n, 32, 26, 26}, 32 * 9 + 32, conv0 * (2 * 9 + 2)},
       {"1", "Conv2D", {n, 64, 24, 24}, 64 * 32 * 9 + 64, conv1 * (2 * 32 * 9 + 2)},
       {"2", "MaxPool2D", {n, 64, 12, 12}, 0, pool * 4},
       {"3", "Dropout", {n, 64, 12, 12}, 0, 0},
       {"4", "Dense", {n, 128}, 9217 * 128, n * 128 * (2 * 9216 + 2)},
       {"5", "Dropout", {n, 128}, 0, 0},
       {"6", "Dense", {n, 10}, 129 * 10, n * 10 * (2 * 128 + 1)}});
  nn::Sequential tf = sample_network("tf");
  tf.initialize(gluon::init::Xavier());
  check_rows(
      tf.summary(like({n, 1, 28, 28})),
      {{"", "Sequential", {n, 10}, 0, 0},
       {"0", "Conv2D", {n, 32, 26, 26}, 32 * 9 + 32, conv0 * (2 * 9 + 2)},
       {"1", "MaxPool2D", {n, 32, 13, 13}, 0, n * 32 * 13 * 13 * 4},
       {"2", "Dense", {n, 64}, 5409 * 64, n * 64 * (2 * 5408 + 2)},
       {"3", "Dense", {n, 10}, 65 * 10, n * 10 * (2 * 64 + 1)}});
}

TEST_CASE(
    "A summary computes nothing; parameters that wait for their shape get what a forward gives them", "[summary]") {
  const auto initial = [](bool summed_up) {
    Engine engine({.seed = 11});
    const EngineScope scope(engine);
    nn::Sequential net = sample_network("tf");
    net.initialize(gluon::init::Xavier());
    if (summed_up)
      (void)net.summary(like({2, 1, 28, 28}));
    else
      (void)net(zeros({2, 1, 28, 28}));
    std::vector<float> all;
    for (const auto& [name, parameter] : net.collect_params()) {
      const std::vector<float> one = values(parameter.data());
      all.insert(all.end(), one.begin(), one.end());
    }
    engine.wait_all();
    const auto before = engine.counters().pushed;
    const gluon::Summary again = net.summary(like({7, 1, 28, 28}));
    CHECK(engine.counters().pushed == before);
    CHECK(again.layers[0].outputs[0] == Shape{7, 10});
    return all;
  };
  CHECK(initial(true) == initial(false));
}

TEST_CASE("Blocks in blocks have rows in the order of the calls, each with what is its own", "[summary]") {
  nn::Sequential net;
  net.add(Twice(6), nn::BatchNorm(), nn::Lambda([](const NDArray& x) { return x.reshape({2, 3, 2}); }));
  net.initialize(gluon::init::Xavier());
  net.hybridize();
  const autograd::RecordScope recorded;
  const gluon::Summary summary = net.summary(like({2, 6}));
  const std::int64_t body = 2 * 6 * (2 * 6 + 2);
  check_rows(
      summary,
      {{"", "Sequential", {2, 3, 2}, 0, 0},
       {"0", "Twice", {2, 6}, 1, 3 * 12},
       {"0.body", "Dense", {2, 6}, 42, body},
       {"0.body", "Dense", {2, 6}, 42, body},
       {"1", "BatchNorm", {2, 6}, 4 * 6, 2 * 12},
       {"2", "Lambda", {2, 3, 2}, 0, 0}});
  std::vector<std::size_t> depths;
  std::vector<bool> shared;
  for (const gluon::LayerSummary& layer : summary.layers) {
    depths.push_back(layer.depth);
    shared.push_back(layer.is_shared);
  }
  CHECK(depths == std::vector<std::size_t>{0, 1, 2, 2, 1, 1});
  CHECK(shared == std::vector<bool>{false, false, false, true, false, false});
  CHECK(summary.trained_parameters == 1 + 42 + 2 * 6);
  CHECK(summary.other_parameters == 2 * 6);
  CHECK(net.hybrid_traces() == 0);
  CHECK((autograd::is_recording() && autograd::is_training()));
}

TEST_CASE("What trains and how wide it is shows in the totals", "[summary]") {
  nn::Sequential net;
  net.add(nn::Dense(3, {.in_units = 2}), nn::Dense(4, {.use_bias = false, .in_units = 3}));
  net.initialize(gluon::init::Xavier());
  net[1]->cast(float64);
  net.collect_params()["0.weight"].set_grad_req(GradReq::null);
  net[0]->cast(float64);
  const gluon::Summary summary = net.summary(like({5, 2}, float64));
  CHECK(summary.trained_parameters == 3 + 12);
  CHECK(summary.other_parameters == 6);
  CHECK(summary.parameter_bytes == 8 * 21);
}

TEST_CASE("The summary as text is a table", "[summary]") {
  nn::Sequential net;
  net.add(nn::Dense(1000, {.activation = "relu"}), nn::Flatten(), nn::Dense(10));
  net.initialize(gluon::init::Xavier());
  const gluon::Summary summary = net.summary(like({4, 3000}));
  std::ostringstream out;
  out << summary;
  CHECK(out.str() == to_string(summary));
  CHECK(
      out.str() ==
      "layer      type                                  output     parameters       FLOPs\n"
      "----------------------------------------------------------------------------------\n"
      "(network)  Sequential                            (4, 10)\n"
      "  0        Dense(3000 -> 1000, activation=relu)  (4, 1000)   3,001,000  24,008,000\n"
      "  1        Flatten                               (4, 1000)\n"
      "  2        Dense(1000 -> 10)                     (4, 10)        10,010      80,040\n"
      "\n"
      "parameters: 3,011,010 (3,011,010 trained, 0 not), 11.4 MiB\n"
      "FLOPs of a forward: 24,088,040\n"
      "results of a forward: 15.7 KiB as a graph, 15.7 KiB without sharing memory\n");
}

TEST_CASE("A network that has no summary says why, with the user's line", "[summary]") {
  nn::Sequential net;
  net.add(nn::Dense(3));
  const auto says = [](auto&& act, const std::vector<std::string>& words) {
    const std::string text = text_of_error(act);
    INFO(text);
    for (const std::string& word : words)
      CHECK(text.find(word) != std::string::npos);
  };
  says([&] { net.summary(like({2, 2})); }, {"initialize", "layer 0 (Dense)", "test_summary.cpp"});
  net.initialize(gluon::init::Xavier());
  CHECK_THROWS_AS(net.summary(NDArray()), ValueError);
  says([&] { net.summary(NDArray()); }, {"an example is an undefined NDArray", "in summary", "test_summary.cpp"});
  CHECK_THROWS_AS(LooksAtValues().summary(like({2})), ValueError);
  says([&] { LooksAtValues().summary(like({2})); }, {"in LooksAtValues", "test_summary.cpp"});
  (void)net.summary(like({2, 2}));
  says([&] { net.summary(like({2, 5})); }, {"layer 0 (Dense)"});
  CHECK(values(net(full({1, 2}, 0.0f))) == std::vector<float>{0, 0, 0});  // nothing is left of the failed ones
}
