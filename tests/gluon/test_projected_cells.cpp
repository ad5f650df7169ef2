// LSTM of projected outputs and clipped cells, as layer and cell, against loops.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/gluon/reference.h"

using namespace sluice;
using namespace sluice::test;
namespace rnn = gluon::rnn;

namespace {

using Numbers = std::vector<double>;

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Weights of one layer and direction, in the order in which they are declared.
struct Weights {
  const Table &i2h, &h2h, &i2h_bias, &h2h_bias;
  const Table* h2r;
};

struct Bounds {
  double low = -1e300, high = 1e300;
};

/// One step of one sample: h and c afterwards.
void step(const Numbers& x, Numbers& h, Numbers& c, const Weights& w, const Bounds& bounds) {
  const std::int64_t hidden = w.i2h.shape[0] / 4;
  Numbers gates;
  for (std::int64_t row = 0; row < 4 * hidden; ++row) {
    double sum = w.i2h_bias.at({row}) + w.h2h_bias.at({row});
    for (std::size_t i = 0; i < x.size(); ++i)
      sum += w.i2h.at({row, static_cast<std::int64_t>(i)}) * x[i];
    for (std::size_t i = 0; i < h.size(); ++i)
      sum += w.h2h.at({row, static_cast<std::int64_t>(i)}) * h[i];
    gates.push_back(sum);
  }
  Numbers wide;
  for (std::size_t unit = 0; unit < c.size(); ++unit) {
    const auto n = c.size();
    c[unit] = logistic(gates[n + unit]) * c[unit] + logistic(gates[unit]) * std::tanh(gates[2 * n + unit]);
    c[unit] = std::clamp(c[unit], bounds.low, bounds.high);
    wide.push_back(logistic(gates[3 * n + unit]) * std::tanh(c[unit]));
  }
  if (w.h2r == nullptr) {
    h = wide;
    return;
  }
  for (std::size_t i = 0; i < h.size(); ++i) {
    h[i] = 0;
    for (std::size_t unit = 0; unit < wide.size(); ++unit)
      h[i] += w.h2r->at({static_cast<std::int64_t>(i), static_cast<std::int64_t>(unit)}) * wide[unit];
  }
}

struct Layers {
  std::int64_t layers, directions, projection, hidden;
  bool projected = true;
  Bounds bounds = {};
};

/// All of x (T, N, C) by `how`, states zeros, of sequences as long as `lengths` say: y, h, c.
Numbers all_steps(const Tables& given, const Layers& how, const std::vector<std::int64_t>& lengths = {}) {
  const std::int64_t steps = given[0].shape[0], samples = given[0].shape[1];
  const std::size_t first = lengths.empty() ? 1 : 2, each = how.projected ? 5 : 4;
  Table y = given[0];
  Numbers ends_h, ends_c;
  for (std::int64_t layer = 0; layer < how.layers; ++layer) {
    Table next{{steps, samples, how.directions * how.projection}};
    next.values.resize(static_cast<std::size_t>(next.shape.size()));
    for (std::int64_t direction = 0; direction < how.directions; ++direction) {
      const std::size_t at = first + each * static_cast<std::size_t>(layer * how.directions + direction);
      const Weights w{given[at], given[at + 1], given[at + 2], given[at + 3], how.projected ? &given[at + 4] : nullptr};
      for (std::int64_t n = 0; n < samples; ++n) {
        Numbers h(static_cast<std::size_t>(how.projection)), c(static_cast<std::size_t>(how.hidden));
        const std::int64_t length = lengths.empty() ? steps : lengths[static_cast<std::size_t>(n)];
        for (std::int64_t i = 0; i < length; ++i) {
          const std::int64_t t = direction == 0 ? i : length - 1 - i;
          Numbers x;
          for (std::int64_t channel = 0; channel < y.shape[2]; ++channel)
            x.push_back(y.at({t, n, channel}));
          step(x, h, c, w, how.bounds);
          for (std::int64_t unit = 0; unit < how.projection; ++unit)
            next.at({t, n, direction * how.projection + unit}) = h[static_cast<std::size_t>(unit)];
        }
        ends_h.insert(ends_h.end(), h.begin(), h.end());
        ends_c.insert(ends_c.end(), c.begin(), c.end());
      }
    }
    y = next;
  }
  Numbers all = y.values;
  all.insert(all.end(), ends_h.begin(), ends_h.end());
  all.insert(all.end(), ends_c.begin(), ends_c.end());
  return all;
}

/// x and zeros as states, so that a call gives states too.
Arrays with_states(const rnn::LSTM& layer, const NDArray& x, std::int64_t samples) {
  Arrays given{x};
  for (const NDArray& state : layer.begin_state(samples))
    given.push_back(state.astype(float64));
  return given;
}

}  // namespace

TEST_CASE("An LSTM projects its outputs, in two layers and directions", "[gluon][rnn]") {
  rnn::LSTM layer(4, {.num_layers = 2, .bidirectional = true, .dtype = float64, .projection_size = 3});
  layer.initialize();
  const NDArray x = numbers({3, 2, 2});
  const Arrays first = layer.call(with_states(layer, x, 2));
  CHECK(first[0].shape() == Shape{3, 2, 6});
  CHECK(first[1].shape() == Shape{4, 2, 3});
  CHECK(first[2].shape() == Shape{4, 2, 4});
  CHECK(layer.own_parameter("l1_i2h_weight").shape() == Shape{16, 6});
  CHECK(layer.own_parameter("r0_h2r_weight").shape() == Shape{3, 4});
  fill_parameters(layer);
  const auto loop = [](const Tables& given) { return all_steps(given, {2, 2, 3, 4}); };
  const auto by_hand = [&](const Arrays& inputs) { return layer.call(with_states(layer, inputs[0], 2)); };
  check_against(by_hand, layer.collect_params(), {x}, loop);
  layer.hybridize();
  check_against(by_hand, layer.collect_params(), {x}, loop);
  layer.hybridize(false);
  check_block(layer, {x}, [&](const Tables& given) {
    Numbers all = loop(given);
    all.resize(3 * 2 * 6);
    return all;
  });
}

TEST_CASE("An LSTM projects to as many units as it has cells", "[gluon][rnn]") {
  rnn::LSTM layer(3, {.dtype = float64, .projection_size = 3});
  layer.initialize();
  const NDArray x = numbers({3, 2, 2});
  layer.call(with_states(layer, x, 2));
  fill_parameters(layer);
  check_against(
      [&](const Arrays& inputs) { return layer.call(with_states(layer, inputs[0], 2)); },
      layer.collect_params(),
      {x},
      [](const Tables& given) {
        return all_steps(given, {1, 1, 3, 3});
      });
}

TEST_CASE("An LSTM of sequences of several lengths projects, its other direction from their own ends", "[gluon][rnn]") {
  rnn::LSTM layer(
      3,
      {.layout = rnn::Layout::NTC,
       .bidirectional = true,
       .use_sequence_length = true,
       .dtype = float64,
       .projection_size = 2});
  layer.initialize();
  const NDArray x = numbers({3, 4, 2}), lengths = array<std::int32_t>({4, 1, 0});
  layer({x, lengths});
  fill_parameters(layer);
  const auto loop = [](const Tables& given) {
    Tables turned = given;
    turned[0].shape = {4, 3, 2};
    for_each_place({4, 3, 2}, [&](const std::vector<std::int64_t>& at) {
      turned[0].at(at) = given[0].at({at[1], at[0], at[2]});
    });
    const Table y{{4, 3, 4}, all_steps(turned, {1, 2, 2, 3}, {4, 1, 0})};
    Numbers all;
    for_each_place({3, 4, 4}, [&](const std::vector<std::int64_t>& at) { all.push_back(y.at({at[1], at[0], at[2]})); });
    return all;
  };
  check_block(layer, {x, lengths}, loop);
}

TEST_CASE("Cells of an LSTM are clipped after each step, with and without a projection", "[gluon][rnn]") {
  for (const std::int64_t projection : {0, 2}) {
    CAPTURE(projection);
    rnn::LSTM layer(
        3, {.dtype = float64, .projection_size = projection, .state_clip_min = -0.11, .state_clip_max = 0.07});
    layer.initialize();
    const NDArray x = numbers({4, 2, 2});
    layer(x);
    fill_parameters(layer);
    const Layers how{1, 1, projection == 0 ? 3 : projection, 3, projection != 0, {-0.11, 0.07}};
    check_block(layer, {x}, [&](const Tables& given) {
      Numbers all = all_steps(given, how);
      all.resize(static_cast<std::size_t>(4 * 2 * how.projection));
      return all;
    });
    const Arrays ends = layer.call(with_states(layer, x, 2));
    CHECK(max(ends[2]).item<double>() == 0.07);
    CHECK(min(ends[2]).item<double>() == -0.11);
  }
}

TEST_CASE("With state_clip_nan a NaN does not stay in a cell", "[gluon][rnn]") {
  for (const bool stops : {false, true}) {
    rnn::LSTM layer(2, {.state_clip_min = -0.5, .state_clip_max = 0.5, .state_clip_nan = stops});
    layer.initialize();
    const NDArray x = full({2, 1, 3}, std::nan(""));
    const Arrays ends = layer.call(Arrays{x, zeros({1, 1, 2}), zeros({1, 1, 2})});
    CHECK(isnan(ends[2]).to_vector<bool>() == std::vector<bool>(2, !stops));
  }
}

TEST_CASE("An LSTMPCell is a step of a projected LSTM", "[gluon][rnn]") {
  rnn::LSTMPCell cell(4, 3, {.dtype = float64});
  cell.initialize();
  CHECK(cell.begin_state(2)[0].shape() == Shape{2, 3});
  CHECK(cell.begin_state(2)[1].shape() == Shape{2, 4});
  const Arrays given{numbers({2, 5}), numbers({2, 3}, 5), numbers({2, 4}, 9)};
  cell.call(given);
  fill_parameters(cell);
  CHECK(cell.collect_params().names() == "i2h_weight, h2h_weight, h2r_weight, i2h_bias, h2h_bias");
  check_block(cell, given, [](const Tables& all) {
    Numbers outputs, hs, cs;
    for (std::int64_t n = 0; n < 2; ++n) {
      const auto row = [&](const Table& table) {
        const auto begin = table.values.begin() + static_cast<std::ptrdiff_t>(n * table.shape[1]);
        return Numbers(begin, begin + static_cast<std::ptrdiff_t>(table.shape[1]));
      };
      Numbers h = row(all[1]), c = row(all[2]);
      step(row(all[0]), h, c, {all[3], all[4], all[6], all[7], &all[5]}, {});
      hs.insert(hs.end(), h.begin(), h.end());
      cs.insert(cs.end(), c.begin(), c.end());
    }
    outputs = hs;
    outputs.insert(outputs.end(), hs.begin(), hs.end());
    outputs.insert(outputs.end(), cs.begin(), cs.end());
    return outputs;
  });
  // Unrolled it is the layer.
  rnn::LSTM layer(4, {.dtype = float64, .projection_size = 3});
  layer.initialize();
  const NDArray x = numbers({6, 2, 5}, 2);
  layer(x);
  for (const char* name : {"i2h_weight", "h2h_weight", "h2r_weight", "i2h_bias", "h2h_bias"})
    layer.own_parameter(std::string("l0_") + name).set_data(cell.own_parameter(name).data());
  check_all_near(joined({cell.unroll(6, x, {}, rnn::Layout::TNC).outputs}), joined({layer(x)}), 1e-12);
}

TEST_CASE("A projected LSTM drops out between its layers, and in front of none", "[gluon][rnn]") {
  for (const bool of_two : {false, true}) {
    CAPTURE(of_two);
    rnn::LSTM layer(3, {.num_layers = of_two ? 2 : 1, .dropout = 1, .dtype = float64, .projection_size = 2});
    layer.initialize();
    const NDArray x = numbers({2, 2, 2}), other = x * 2.0;
    layer(x);
    fill_parameters(layer);
    CHECK(layer(x).to_vector<double>() != layer(other).to_vector<double>());
    const autograd::ModeScope training(false, true);
    CHECK((layer(x).to_vector<double>() == layer(other).to_vector<double>()) == of_two);  // nothing comes through
  }
}

TEST_CASE("Options that are an LSTM's alone, and sizes and bounds out of order, are refused", "[gluon][rnn]") {
  CHECK_THROWS_AS(rnn::GRU(4, {.projection_size = 2}), ValueError);
  CHECK_THROWS_AS(rnn::RNN(4, {.state_clip_min = 0, .state_clip_max = 1}), ValueError);
  CHECK_THROWS_AS(rnn::LSTM(4, {.projection_size = 5}), ValueError);
  CHECK_THROWS_AS(rnn::LSTM(4, {.projection_size = -1}), ValueError);
  CHECK_THROWS_AS(rnn::GRU(4, {.state_clip_nan = true}), ValueError);
  CHECK_THROWS_AS(rnn::LSTM(4, {.state_clip_min = 0}), ValueError);
  CHECK_THROWS_AS(rnn::LSTM(4, {.state_clip_min = 1, .state_clip_max = 0}), ValueError);
  CHECK_THROWS_AS(rnn::LSTMPCell(4, 5), ValueError);
  CHECK_THROWS_AS(rnn::LSTMPCell(0, 0), ValueError);
  rnn::LSTMPCell cell(4, 2);
  cell.initialize();
  CHECK_THROWS_AS(cell.call(Arrays{ones({2, 3}), ones({2, 4}), ones({2, 4})}), ShapeError);
  CHECK_THROWS_AS(cell.call(Arrays{ones({2, 3}), ones({2, 2})}), ValueError);
}
