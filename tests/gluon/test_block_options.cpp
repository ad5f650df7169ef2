// What layers say of how they were made, and networks as text.
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;
namespace rnn = gluon::rnn;

namespace {

std::string text_of_block(const gluon::Block& block) {
  std::ostringstream out;
  out << block;
  CHECK(out.str() == to_string(block));
  return out.str();
}

AttributeValue option(const gluon::Block& block, const std::string& name) {
  for (const NamedValue& one : block.options()) {
    if (one.name == name)
      return one.value;
  }
  FAIL("there is no option " << name);
  return {};
}

}  // namespace

TEST_CASE("A network is printed as a tree of layers with their options", "[gluon][summary]") {
  nn::Sequential body, net;
  body.add(nn::Dense(4, {.use_bias = false}), nn::Flatten());
  net.add(
      nn::Conv2D(8, {3, 2}, {.strides = 2, .padding = {1, 0}, .groups = 2, .activation = "relu", .in_channels = 4}),
      nn::BatchNorm({.momentum = 0.5, .scale = false}),
      nn::MaxPool2D(2),
      std::move(body),
      nn::Dropout(0.25));
  CHECK(
      text_of_block(net) ==
      "Sequential(\n"
      "  (0): Conv2D(4 -> 8, kernel_size=(3, 2), strides=(2, 2), padding=(1, 0), groups=2, activation=relu)\n"
      "  (1): BatchNorm(momentum=0.5, scale=false, in_channels=None)\n"
      "  (2): MaxPool2D(pool_size=(2, 2), strides=(2, 2))\n"
      "  (3): Sequential(\n"
      "    (0): Dense(None -> 4, use_bias=false)\n"
      "    (1): Flatten()\n"
      "  )\n"
      "  (4): Dropout(rate=0.25)\n"
      ")");
  net.initialize();
  net(ones({1, 4, 7, 7}));
  CHECK(text_of_block(*net[1]) == "BatchNorm(momentum=0.5, scale=false, in_channels=8)");
  CHECK(text_of_block(*net[3]).find("(0): Dense(16 -> 4, use_bias=false)") != std::string::npos);
}

TEST_CASE("Options are values by name, sizes as they are when asked, after sharing too", "[gluon][summary]") {
  nn::Dense layer(3, {.activation = "tanh", .dtype = float64});
  CHECK(layer.type_name() == "Dense");
  CHECK(option(layer, "units") == AttributeValue(std::int64_t{3}));
  CHECK(option(layer, "in_units") == AttributeValue(std::int64_t{0}));
  CHECK(option(layer, "activation") == AttributeValue(std::string("tanh")));
  CHECK(option(layer, "use_bias") == AttributeValue(true));
  CHECK(option(layer, "dtype") == AttributeValue(float64));
  CHECK(layer.options_text() == "None -> 3, activation=tanh, dtype=float64");
  nn::Dense other(3, {.dtype = float64, .in_units = 5});
  other.initialize();
  layer.share_parameters(other.collect_params());
  const nn::Dense moved = std::move(layer);
  CHECK(moved.options_text() == "5 -> 3, activation=tanh, dtype=float64");
  CHECK(
      option(nn::Conv2D(4, 3, {.padding = {1, 2, 3, 4}}), "padding") ==
      AttributeValue(std::vector<std::int64_t>{1, 2, 3, 4}));
  CHECK(option(nn::GroupNorm({.num_groups = 3, .epsilon = 0.5}), "epsilon") == AttributeValue(0.5));
  CHECK_THROWS_AS(layer.options(), ValueError);  // NOLINT: it was moved from
}

TEST_CASE("Layers of all families say their options", "[gluon][summary]") {
  const auto says = [](const gluon::Block& block, const std::string& wanted) { CHECK(text_of_block(block) == wanted); };
  says(nn::Activation("gelu"), "Activation(activation=gelu)");
  says(
      nn::AvgPool1D(3, {.strides = 1, .count_include_pad = false}),
      "AvgPool1D(pool_size=3, strides=1, count_include_pad=false)");
  says(nn::Conv1D(4, 3, {.dilation = 2}), "Conv1D(None -> 4, kernel_size=3, strides=1, dilation=2)");
  says(
      nn::Conv3DTranspose(4, 2, {.strides = 2, .output_padding = 1, .in_channels = 3}),
      "Conv3DTranspose(3 -> 4, kernel_size=(2, 2, 2), strides=(2, 2, 2), output_padding=(1, 1, 1))");
  says(nn::Embedding(10, 4, {.padding = 0}), "Embedding(10 -> 4, padding=0)");
  says(nn::Embedding(10, 4), "Embedding(10 -> 4)");
  says(nn::LayerNorm({.axis = 1, .center = false}), "LayerNorm(axis=1, center=false, in_channels=None)");
  says(nn::GELU(nn::GELUForm::tanh), "GELU(form=tanh)");
  says(nn::LeakyReLU(0.5), "LeakyReLU(alpha=0.5)");
  says(nn::PixelShuffle3D({1, 2, 3}), "PixelShuffle3D(factor=(1, 2, 3))");
  says(nn::RotaryEmbedding({.interleaved = true}), "RotaryEmbedding(interleaved=true)");
  says(rnn::LSTMCell(3, {.input_size = 2}), "LSTMCell(2 -> 3)");
  says(
      rnn::LSTM(4, {.num_layers = 2, .layout = rnn::Layout::NTC, .bidirectional = true, .projection_size = 2}),
      "LSTM(None -> 4, num_layers=2, layout=NTC, bidirectional=true, projection_size=2)");
  says(rnn::ResidualCell(rnn::GRUCell(2)), "ResidualCell(\n  (cell): GRUCell(None -> 2)\n)");
  says(gluon::loss::HuberLoss({.rho = 2, .weight = 0.5}), "HuberLoss(weight=0.5, rho=2.0)");
  says(gluon::loss::L2Loss(), "L2Loss()");
  says(gluon::loss::TripletLoss({.margin = 2}), "TripletLoss(margin=2.0)");
  CHECK(text_of_block(nn::MultiHeadAttention(4, 2, {.causal = true}))
            .starts_with(
                "MultiHeadAttention(units=4, num_heads=2, causal=true,\n  (query): Dense(None -> 4, flatten=false)\n"));
}

TEST_CASE("A summary shows the options of layers as they are after the call", "[gluon][summary]") {
  nn::Sequential net;
  net.add(nn::Dense(4, {.activation = "relu"}), nn::Dropout(0.5));
  net.initialize();
  const gluon::Summary summary = net.summary(abstract_array({{2, 3}, float32, cpu()}));
  CHECK(summary.layers[1].options == "3 -> 4, activation=relu");
  const std::string text = to_string(summary);
  CHECK(text.find("Dense(3 -> 4, activation=relu)") != std::string::npos);
  CHECK(text.find("Dropout(rate=0.5)") != std::string::npos);
}
