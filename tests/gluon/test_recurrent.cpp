// Recurrent layers and cells against plain loops in double: gates, directions, layers, states, graphs, files.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/gluon/recurrent_loops.h"
#include "tests/gluon/support.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;
namespace rnn = gluon::rnn;
using Numbers = RecurrentNumbers;

namespace {

Looped reference(
    const std::string& kind,
    const gluon::Block& block,
    const NDArray& x,
    const NDArray& h0,
    const NDArray& c0,
    bool both) {
  return looped(kind, weights_in(block), x, h0, c0, both);
}

const Tolerance k_close{2e-5, 2e-6};

}  // namespace

TEST_CASE("Recurrent layers agree with plain loops: layers, directions, layouts, states", "[gluon][rnn]") {
  for (const std::string& kind : k_recurrent_kinds) {
    for (const bool both : {false, true}) {
      for (const std::int64_t layers : {1, 3}) {
        CAPTURE(kind, both, layers);
        const auto layer =
            filled_layer(kind, 4, {.num_layers = layers, .bidirectional = both, .input_size = 3, .dtype = float64});
        const NDArray x = random_array({5, 2, 3}, 1, -1, 1, float64);
        const Shape state{layers * (both ? 2 : 1), 2, 4};
        const NDArray h = random_array(state, 2, -1, 1, float64), c = random_array(state, 3, -1, 1, float64);
        const Looped plain = reference(kind, *layer, x, zeros(state), zeros(state), both);
        CHECK(differences((*layer)(x), plain.y, {1e-12, 1e-13}) == "");
        const Looped want = reference(kind, *layer, x, h, c, both);
        const Arrays got = kind == "LSTM" ? (*layer)({x, h, c}) : (*layer)({x, h});
        REQUIRE(got.size() == (kind == "LSTM" ? 3 : 2));
        CHECK(differences(got[0], want.y, {1e-12, 1e-13}) == "");
        CHECK(differences(got[1], want.h, {1e-12, 1e-13}) == "");
        if (kind == "LSTM")
          CHECK(differences(got[2], want.c, {1e-12, 1e-13}) == "");
        const auto turned = recurrent_layer(
            kind, 4, {.num_layers = layers, .layout = rnn::Layout::NTC, .bidirectional = both, .dtype = float64});
        turned->initialize();
        turned->share_parameters(layer->collect_params());
        CHECK(differences((*turned)(x.swapaxes(0, 1)).swapaxes(0, 1), plain.y, {1e-12, 1e-13}) == "");
      }
    }
  }
}

TEST_CASE("Recurrent layers name their parameters as Gluon does, and find their input size", "[gluon][rnn]") {
  rnn::GRU layer(4, {.num_layers = 2, .bidirectional = true});
  layer.initialize();
  layer(random_array({2, 3, 5}, 1));
  const ParameterDict parameters = layer.collect_params();
  CHECK(
      parameters.names() ==
      "l0_i2h_weight, l0_h2h_weight, l0_i2h_bias, l0_h2h_bias, r0_i2h_weight, r0_h2h_weight, r0_i2h_bias, r0_h2h_bias, "
      "l1_i2h_weight, l1_h2h_weight, l1_i2h_bias, l1_h2h_bias, r1_i2h_weight, r1_h2h_weight, r1_i2h_bias, r1_h2h_bias");
  CHECK(parameters["r0_i2h_weight"].shape() == Shape{12, 5});
  CHECK(parameters["l1_i2h_weight"].shape() == Shape{12, 8});
  CHECK(parameters["l1_h2h_weight"].shape() == Shape{12, 4});
  CHECK(layer.begin_state(7).size() == 1);
  CHECK(layer.begin_state(7)[0].shape() == Shape{4, 7, 4});
  CHECK(rnn::LSTM(3).begin_state(2).size() == 2);
  layer.cast(float16);
  CHECK(layer(random_array({2, 3, 5}, 1, -1, 1, float16)).dtype() == float16);
  CHECK(layer(random_array({2, 0, 5}, 1, -1, 1, float16)).shape() == Shape{2, 0, 8});
}

TEST_CASE("The gradients of recurrent layers agree with finite differences", "[gluon][rnn]") {
  for (const std::string& kind : k_recurrent_kinds) {
    CAPTURE(kind);
    const auto layer =
        filled_layer(kind, 2, {.num_layers = 2, .bidirectional = true, .input_size = 3, .dtype = float64});
    const std::size_t states = layer->begin_state(1).size();
    std::vector<NDArray> inputs{random_array({3, 2, 3}, 1, -1, 1, float64)};
    for (std::size_t i = 0; i < states; ++i)
      inputs.push_back(random_array({4, 2, 2}, 2 + i, -1, 1, float64));
    const auto f = [&](const std::vector<NDArray>& v) {
      const Arrays all = layer->begin_state(1).size() == 2 ? (*layer)({v[0], v[1], v[2]}) : (*layer)({v[0], v[1]});
      std::vector<NDArray> parts;
      for (const NDArray& one : all)
        parts.push_back(one.reshape({-1}));
      return concat(parts);
    };
    CHECK(gradient_differences(f, inputs) == "");
    // Those of a weight, which every step uses.
    const Parameter weight = layer->collect_params()["r0_h2h_weight"];
    const NDArray before = weight.data().copy();
    layer->zero_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = f(inputs);
    }
    y.backward();
    const Numbers got = weight.grad().to_vector<double>(), at = before.to_vector<double>();
    for (std::size_t i = 0; i < at.size(); ++i) {
      const auto value = [&](double moved) {
        Numbers changed = at;
        changed[i] += moved;
        weight.set_data(array(changed, before.shape()));
        return sum(f(inputs)).item<double>();
      };
      CHECK(got[i] == Approx((value(1e-6) - value(-1e-6)) / 2e-6).epsilon(1e-5).margin(1e-7));
    }
  }
}

TEST_CASE(
    "Recurrent layers are in graphs what they are by hand, for batches and lengths of other sizes", "[gluon][rnn]") {
  for (const std::string& kind : k_recurrent_kinds) {
    for (const rnn::Layout layout : {rnn::Layout::TNC, rnn::Layout::NTC}) {
      CAPTURE(kind, layout == rnn::Layout::NTC);
      const auto layer = filled_layer(kind, 3, {.num_layers = 2, .layout = layout, .input_size = 2});
      const auto run = [&](const Shape& shape) {
        NDArray x = random_array(shape, 2), y;
        x.attach_grad();
        {
          const autograd::RecordScope record;
          y = (*layer)(x);
        }
        y.backward();
        return std::pair(y.detach(), x.grad());
      };
      const std::vector<Shape> shapes{{2, 3, 2}, {5, 3, 2}, {7, 3, 2}, {2, 40, 2}, {40, 2, 2}};
      std::vector<std::pair<NDArray, NDArray>> want;
      for (const Shape& shape : shapes)
        want.push_back(run(shape));
      layer->hybridize();
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        CAPTURE(to_string(shapes[i]));
        const auto [y, dx] = run(shapes[i]);
        CHECK(differences(y, want[i].first, k_close) == "");
        CHECK(differences(dx, want[i].second, k_close) == "");
      }
    }
  }
}

TEST_CASE("Cells unroll to what layers are, and step by step", "[gluon][rnn]") {
  const auto check = [](const rnn::RecurrentCell& cell, gluon::Block& layer) {
    const NDArray x = random_array({2, 5, 3}, 1);
    layer.initialize();
    layer(x);
    for (const char* name : {"i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"})
      layer.collect_params()[message("l0_", name)].set_data(cell.collect_params()[name].data());
    const NDArray want = layer(x);
    CHECK(differences(cell.unroll(5, x).outputs, want, k_close) == "");
    const rnn::Unrolled turned = cell.unroll(5, x.swapaxes(0, 1), cell.begin_state(2), rnn::Layout::TNC);
    CHECK(differences(turned.outputs.swapaxes(0, 1), want, k_close) == "");
    Arrays states = cell.begin_state(2);
    for (std::int64_t t = 0; t < 5; ++t) {
      std::vector<NDArray> inputs{x.slice(1, t, t + 1).squeeze(1)};
      inputs.insert(inputs.end(), states.begin(), states.end());
      const Arrays after = cell.call(inputs);
      CHECK(differences(after[0], want.slice(1, t, t + 1).squeeze(1), k_close) == "");
      states.assign(after.begin() + 1, after.end());
    }
    for (std::size_t i = 0; i < states.size(); ++i)
      CHECK(differences(turned.states[i], states[i], k_close) == "");
  };
  const rnn::RecurrentOptions how{.layout = rnn::Layout::NTC};
  rnn::RNNCell plain(4, {.input_size = 3});
  rnn::LSTMCell lstm(4, {.input_size = 3});
  rnn::GRUCell gru(4, {.input_size = 3});
  for (rnn::RecurrentCell* const cell : std::initializer_list<rnn::RecurrentCell*>{&plain, &lstm, &gru}) {
    cell->initialize();
    fill_randomly(*cell);
  }
  rnn::RNN plain_layer(4, how, rnn::Activation::tanh);
  rnn::LSTM lstm_layer(4, how);
  rnn::GRU gru_layer(4, how);
  check(plain, plain_layer);
  check(lstm, lstm_layer);
  check(gru, gru_layer);
}

TEST_CASE(
    "Recurrent layers drop what goes between layers in training alone, train, and are exported",
    "[gluon][rnn][export]") {
  rnn::LSTM layer(3, {.num_layers = 2, .layout = rnn::Layout::NTC, .dropout = 1});
  layer.initialize();
  const NDArray x = random_array({4, 6, 2}, 1), target = random_array({4, 6, 3}, 2, -0.5, 0.5);
  const NDArray y = layer(x);
  {
    const autograd::TrainScope training;
    CHECK(differences(layer(x), y) != "");
    CHECK(differences(layer(x), layer(2 * x)) == "");  // nothing comes through
  }
  rnn::LSTM small(3, {.layout = rnn::Layout::NTC});
  small.initialize();
  L2Loss loss;
  Trainer trainer(small.collect_params(), Adam({.learning_rate = 0.05}));
  gluon::TrainStep step_of(small, loss, trainer);
  const double first = mean(step_of(x, target).losses).item<double>();
  for (int i = 0; i < 60; ++i)
    step_of(x, target);
  CHECK(mean(step_of(x, target).losses).item<double>() < 0.7 * first);
  const TemporaryFolder folder;
  small.export_to(folder / "net", {x});
  const auto imported = gluon::SymbolBlock::imports(folder / "net.json");
  CHECK(values(imported(x)) == values(small(x)));
  CHECK(values(imported(x.slice(0, 0, 3))) == values(small(x.slice(0, 0, 3))));
}

TEST_CASE("Recurrent layers train on a GPU as on a CPU, dropout and all, as graphs and by hand", "[gluon][rnn][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const char* const kind : {"LSTM", "GRU"}) {
    for (const double rate : {0.0, 0.5}) {
      std::vector<NDArray> losses;
      for (const Device device : {cpu(), gpu()}) {
        const auto layer =
            filled_layer(kind, 4, {.num_layers = 2, .dropout = rate, .bidirectional = true, .input_size = 3});
        layer->to(device);
        L2Loss loss;
        Trainer trainer(layer->collect_params(), Adam({.learning_rate = 0.05}));
        gluon::TrainStep step_of(*layer, loss, trainer);
        random::seed(11);
        const NDArray x = random_array({5, 3, 3}, 1).to(device),
                      target = random_array({5, 3, 8}, 2, -0.5, 0.5).to(device);
        for (int i = 0; i < 6; ++i)
          losses.push_back(mean(step_of(x, target).losses).to(cpu()));
      }
      for (std::size_t i = 0; i < 6; ++i) {
        CAPTURE(kind, rate, i);
        CHECK(differences(losses[i + 6], losses[i], {1e-3, 1e-4}) == "");
      }
    }
  }
}

TEST_CASE("A recurrent layer is one call of rnn in a graph, in training with dropout one a layer", "[gluon][rnn]") {
  rnn::LSTM layer(3, {.num_layers = 3, .dropout = 0.5, .bidirectional = true, .input_size = 2});
  layer.initialize();
  const auto calls = [&] {
    graph::Tracer tracer;
    const NDArray x = tracer.input({{4, 2, 2}, float32, cpu()});
    const graph::Graph made = tracer.trace([&] { return Arrays{layer(x)}; });
    return std::count_if(made.nodes.begin(), made.nodes.end(), [](const graph::Node& node) {
      return node.op->name == std::string("rnn");
    });
  };
  CHECK(calls() == 1);
  const autograd::TrainScope training;
  CHECK(calls() == 3);
}

TEST_CASE("Recurrent layers and cells refuse what does not fit, by name and values", "[gluon][rnn]") {
  CHECK_THROWS_WITH(rnn::LSTM(0), contains("rnn::LSTM") && contains("hidden_size 0"));
  CHECK_THROWS_AS(rnn::GRU(2, {.num_layers = 0}), ValueError);
  CHECK_THROWS_AS(rnn::GRU(2, {.num_layers = -1}), ValueError);
  CHECK_THROWS_AS(rnn::RNN(2, {.dropout = 1.5}), ValueError);
  CHECK_THROWS_AS(rnn::RNN(2, {.input_size = -1}), ValueError);
  CHECK_THROWS_AS(rnn::LSTMCell(0), ValueError);
  CHECK_THROWS_AS(rnn::LSTM(std::int64_t{1} << 62), ValueError);  // 4 gates of it would be none
  CHECK_THROWS_AS(rnn::LSTMCell(std::int64_t{1} << 62), ValueError);
  rnn::LSTM layer(4, {.input_size = 3});
  layer.initialize();
  const NDArray x = ones({5, 2, 3}), state = ones({1, 2, 4});
  CHECK(layer({x, state, state}).size() == 3);
  CHECK_THROWS_AS(layer({x, state}), ValueError);
  CHECK_THROWS_WITH(layer({x, state, ones({1, 3, 4})}), contains("(1, 2, 4)") && contains("(1, 3, 4)"));
  CHECK_THROWS_AS(layer(ones({5, 3})), ShapeError);
  CHECK_THROWS_AS(layer(ones({0, 2, 3})), ShapeError);
  CHECK_THROWS_AS(layer(ones({5, 2, 4})), ShapeError);
  CHECK_THROWS_AS(layer(x.astype(float64)), DTypeError);
  rnn::GRUCell cell(4);
  cell.initialize();
  CHECK_THROWS_AS(cell.call(std::vector<NDArray>{ones({2, 3})}), ValueError);
  CHECK_THROWS_AS(cell.call(std::vector<NDArray>{ones({2, 3}), ones({3, 4})}), ShapeError);
  CHECK_THROWS_AS(cell.call(std::vector<NDArray>{ones({3}), ones({2, 4})}), ShapeError);
  CHECK_THROWS_AS(cell.unroll(4, ones({2, 5, 3})), ShapeError);
  CHECK_THROWS_AS(cell.unroll(0, ones({2, 0, 3})), ShapeError);
  CHECK_THROWS_AS(cell.unroll(5, ones({2, 5, 3}), {ones({2, 4}), ones({2, 4})}), ValueError);
  CHECK_THROWS_WITH(cell.unroll(5, NDArray()), contains("rnn::GRUCell"));
  CHECK(cell.unroll(5, ones({2, 5, 3})).outputs.shape() == Shape{2, 5, 4});
}
