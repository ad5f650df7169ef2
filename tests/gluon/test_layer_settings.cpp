// Settings of layers that only show in what they hold or do in training: initialisers, dropout of attention, losses
// that are infinite.
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;
namespace rnn = gluon::rnn;
using gluon::init::Constant;

namespace {

/// After a call of x: each parameter holds the number that its own initialiser writes; others would hold 9.
void check_begins(
    gluon::Block&& layer, const Arrays& inputs, const std::map<std::string, float>& wanted, std::size_t count) {
  INFO(layer);
  layer.initialize(Constant(9));
  layer.call(inputs);
  const ParameterDict parameters = layer.collect_params();
  CHECK(parameters.size() == count);
  for (const auto& [name, parameter] : parameters) {
    INFO(name);
    const auto one = wanted.find(name);
    REQUIRE(one != wanted.end());
    CHECK(
        values(parameter.data()) == std::vector<float>(static_cast<std::size_t>(parameter.data().size()), one->second));
  }
}

template <class Options>
Options with_two() {
  Options options;
  options.weight_initializer = Constant(2);
  options.bias_initializer = Constant(3);
  return options;
}

template <class Options>
Options with_four() {
  Options options;
  options.i2h_weight_initializer = Constant(2);
  options.h2h_weight_initializer = Constant(3);
  options.i2h_bias_initializer = Constant(4);
  options.h2h_bias_initializer = Constant(5);
  return options;
}

const std::map<std::string, float> k_two{{"weight", 2}, {"bias", 3}};
const std::map<std::string, float> k_four{{"i2h_weight", 2}, {"h2h_weight", 3}, {"i2h_bias", 4}, {"h2h_bias", 5}};

}  // namespace

TEST_CASE("Products and convolutions begin as their own initialisers say", "[gluon][layers][init]") {
  const NDArray rows = ones({2, 4, 6}), images = ones({2, 4, 6, 6}), volumes = ones({1, 2, 4, 4, 4});
  check_begins(nn::Dense(3, with_two<nn::DenseOptions>()), {rows}, k_two, 2);
  check_begins(nn::Conv1D(3, 2, with_two<nn::Conv1DOptions>()), {rows}, k_two, 2);
  check_begins(nn::Conv2D(3, 2, with_two<nn::Conv2DOptions>()), {images}, k_two, 2);
  check_begins(nn::Conv3D(3, 2, with_two<nn::Conv3DOptions>()), {volumes}, k_two, 2);
  check_begins(nn::Conv1DTranspose(3, 2, with_two<nn::Conv1DTransposeOptions>()), {rows}, k_two, 2);
  check_begins(nn::Conv2DTranspose(3, 2, with_two<nn::Conv2DTransposeOptions>()), {images}, k_two, 2);
  check_begins(nn::Conv3DTranspose(3, 2, with_two<nn::Conv3DTransposeOptions>()), {volumes}, k_two, 2);
  check_begins(
      nn::Embedding(3, 2, {.weight_initializer = Constant(2)}), {array<std::int32_t>({0, 2})}, {{"weight", 2}}, 1);
  check_begins(nn::PReLU({.alpha_initializer = Constant(2), .in_channels = 4}), {rows}, {{"alpha", 2}}, 1);
  nn::DeformableConvolutionOptions deformable = with_two<nn::DeformableConvolutionOptions>();
  deformable.offset_weight_initializer = Constant(4);
  deformable.offset_bias_initializer = Constant(5);
  check_begins(
      nn::DeformableConvolution(3, 2, deformable),
      {images},
      {{"deformable_conv_weight", 2}, {"deformable_conv_bias", 3}, {"offset_weight", 4}, {"offset_bias", 5}},
      4);
}

TEST_CASE("Norms begin as their own initialisers say", "[gluon][layers][init]") {
  const NDArray x = ones({2, 4, 6});
  const std::map<std::string, float> two{{"gamma", 2}, {"beta", 3}};
  const auto norm = [](auto options) {
    options.gamma_initializer = Constant(2);
    options.beta_initializer = Constant(3);
    return options;
  };
  check_begins(nn::LayerNorm(norm(nn::LayerNormOptions())), {x}, two, 2);
  check_begins(nn::GroupNorm(norm(nn::GroupNormOptions())), {x}, two, 2);
  check_begins(nn::InstanceNorm(norm(nn::InstanceNormOptions())), {x}, two, 2);
  check_begins(nn::RMSNorm({.gamma_initializer = Constant(2)}), {x}, {{"gamma", 2}}, 1);
  nn::BatchNormOptions batch = norm(nn::BatchNormOptions());
  batch.running_mean_initializer = Constant(4);
  batch.running_variance_initializer = Constant(5);
  check_begins(nn::BatchNorm(batch), {x}, {{"gamma", 2}, {"beta", 3}, {"running_mean", 4}, {"running_var", 5}}, 4);
}

TEST_CASE("Recurrent layers and cells begin as their own initialisers say", "[gluon][rnn][init]") {
  const NDArray step = ones({2, 4}), h = ones({2, 3}), x = ones({5, 2, 4});
  check_begins(rnn::RNNCell(3, with_four<rnn::CellOptions>()), {step, h}, k_four, 4);
  check_begins(rnn::LSTMCell(3, with_four<rnn::CellOptions>()), {step, h, h}, k_four, 4);
  check_begins(rnn::GRUCell(3, with_four<rnn::CellOptions>()), {step, h}, k_four, 4);
  std::map<std::string, float> projected = k_four;
  projected["h2r_weight"] = 6;
  rnn::LSTMPCellOptions cell = with_four<rnn::LSTMPCellOptions>();
  cell.h2r_weight_initializer = Constant(6);
  check_begins(rnn::LSTMPCell(3, 2, cell), {step, ones({2, 2}), h}, projected, 5);
  check_begins(
      rnn::Conv1DGRUCell({4, 5}, 3, {1}, {1}, with_four<rnn::ConvCellOptions>()),
      {ones({2, 4, 5}), ones({2, 3, 5})},
      k_four,
      4);
  const auto layers = [](const std::map<std::string, float>& cells, int count) {
    std::map<std::string, float> all;
    for (const auto& [name, value] : cells) {
      for (int i = 0; i < count; ++i) {
        all["l" + std::to_string(i) + "_" + name] = value;
        all["r" + std::to_string(i) + "_" + name] = value;
      }
    }
    return all;
  };
  rnn::RecurrentOptions options = with_four<rnn::RecurrentOptions>();
  options.num_layers = 2;
  options.bidirectional = true;
  check_begins(rnn::RNN(3, options), {x}, layers(k_four, 2), 16);
  check_begins(rnn::LSTM(3, options), {x}, layers(k_four, 2), 16);
  check_begins(rnn::GRU(3, options), {x}, layers(k_four, 2), 16);
  options.projection_size = 2;
  options.h2r_weight_initializer = Constant(6);
  check_begins(rnn::LSTM(3, options), {x}, layers(projected, 2), 20);
}

TEST_CASE("attention_dropout drops weights of attention, in training alone", "[gluon][attention]") {
  // Of one head whose values are ones and whose keys are all alike, the output is the sum of weights.
  const auto outputs = [](double rate, bool training) {
    nn::TransformerEncoderLayer layer(4, 4, 1, {.attention_dropout = rate, .pre_norm = true, .use_bias = false});
    layer.initialize(gluon::init::Zero(), cpu());
    const gluon::Block& attention = *layer.attention();
    const NDArray eye = array<float>({1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, {4, 4});
    (void)layer(ones({1, 2, 4}));
    for (const char* name : {"value", "out"})
      attention.child_named(name)->own_parameter("weight").set_data(eye);
    layer.child_named("norm_1")->own_parameter("beta").set_data(ones({4}));
    const autograd::ModeScope mode(false, training);
    random::seed(5);
    return values(layer(zeros({50, 16, 4})));
  };
  for (const float value : outputs(0.5, false))
    CHECK(value == Approx(1));
  double sum = 0;
  int others = 0;
  const std::vector<float> dropped = outputs(0.5, true);
  for (std::size_t i = 0; i < dropped.size(); i += 4) {
    const double count = dropped[i] * 8;  // each of 16 weights that stays counts 2 / 16
    CHECK(count == Approx(std::round(count)).margin(1e-4));
    sum += dropped[i];
    others += std::abs(dropped[i] - 1) > 0.01 ? 1 : 0;
  }
  CHECK(sum / (50 * 16) == Approx(1).margin(0.05));
  CHECK(others > 400);
  for (const float value : outputs(0, true))
    CHECK(value == Approx(1));
}

TEST_CASE(
    "CTCLoss with zero_infinity costs nothing where labels do not fit, and keeps the other samples", "[gluon][loss]") {
  NDArray x = pattern_array({2, 3, 4});
  const NDArray labels = array<std::int32_t>({0, 0, 1, 2, -1, -1}, {2, 3});  // 0 0 1 needs four steps
  const auto costs = [&](bool zero) {
    x.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = gluon::loss::CTCLoss({.zero_infinity = zero, .weight = 0.5})(x, labels);
    }
    y.backward();
    return values(y);
  };
  const std::vector<float> infinite = costs(false);
  CHECK(infinite[0] == std::numeric_limits<float>::infinity());
  const std::vector<float> other = values(x.grad().slice(0, 1, 2));
  const std::vector<float> finite = costs(true);
  CHECK(finite[0] == 0);
  CHECK(finite[1] == infinite[1]);
  CHECK(values(x.grad().slice(0, 0, 1)) == std::vector<float>(12));
  CHECK(values(x.grad().slice(0, 1, 2)) == other);
  CHECK(gluon::loss::CTCLoss({.zero_infinity = true}).options_text() == "zero_infinity=true");
}
