#pragma once

// Recurrent networks as plain loops in double, a sample at a time, and layers with random parameters.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

namespace sluice::test {

using RecurrentNumbers = std::vector<double>;

/// Of one direction of a layer.
struct RecurrentWeightsOf {
  RecurrentNumbers i2h_weight, h2h_weight, i2h_bias, h2h_bias;
};

inline double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}

// One sample through one step of a layer of that many hidden units; h and c are written.
inline void recurrent_step_of(
    const std::string& kind,
    const RecurrentWeightsOf& w,
    const double* x,
    std::size_t in,
    RecurrentNumbers& h,
    RecurrentNumbers& c) {
  const std::size_t hidden = h.size();
  const RecurrentNumbers before = h;
  const auto from_x = [&](std::size_t row) {
    double sum = w.i2h_bias[row];
    for (std::size_t i = 0; i < in; ++i)
      sum += w.i2h_weight[row * in + i] * x[i];
    return sum;
  };
  const auto from_h = [&](std::size_t row) {
    double sum = w.h2h_bias[row];
    for (std::size_t i = 0; i < hidden; ++i)
      sum += w.h2h_weight[row * hidden + i] * before[i];
    return sum;
  };
  for (std::size_t j = 0; j < hidden; ++j) {
    const auto both = [&](std::size_t gate) { return from_x(gate * hidden + j) + from_h(gate * hidden + j); };
    if (kind == "LSTM") {
      c[j] = sigmoid_of(both(1)) * c[j] + sigmoid_of(both(0)) * std::tanh(both(2));
      h[j] = sigmoid_of(both(3)) * std::tanh(c[j]);
    } else if (kind == "GRU") {
      const double update = sigmoid_of(both(1)), reset = sigmoid_of(both(0));
      const double fresh = std::tanh(from_x(2 * hidden + j) + reset * from_h(2 * hidden + j));
      h[j] = (1 - update) * fresh + update * before[j];
    } else {
      h[j] = kind == "relu" ? std::max(both(0), 0.0) : std::tanh(both(0));
    }
  }
}

/// Of a layer and a direction.
using WeightsAt = std::function<RecurrentWeightsOf(std::size_t layer, std::size_t direction)>;

inline WeightsAt weights_in(const gluon::Block& block) {
  return [parameters = block.collect_params()](std::size_t layer, std::size_t direction) -> RecurrentWeightsOf {
    const std::string prefix = message(direction == 0 ? "l" : "r", layer, "_");
    const auto values_of = [&](const char* name) { return parameters[prefix + name].data().to_vector<double>(); };
    return {values_of("i2h_weight"), values_of("h2h_weight"), values_of("i2h_bias"), values_of("h2h_bias")};
  };
}

struct Looped {
  NDArray y, h, c;
};

/// x (T, N, in); states (layers * directions, N, hidden). Samples have so many steps, or all.
inline Looped looped(
    const std::string& kind,
    const WeightsAt& weights,
    NDArray x,
    const NDArray& h0,
    const NDArray& c0,
    bool both,
    const std::vector<std::int64_t>& lengths = {}) {
  const std::size_t directions = both ? 2 : 1, hidden = static_cast<std::size_t>(h0.shape()[2]);
  const auto samples = static_cast<std::size_t>(x.shape()[1]), all = static_cast<std::size_t>(x.shape()[0]);
  RecurrentNumbers hs = h0.to_vector<double>(), cs = c0.to_vector<double>();
  for (std::size_t i = 0; i < static_cast<std::size_t>(h0.shape()[0]); i += directions) {
    const RecurrentNumbers xs = x.to_vector<double>();
    const std::size_t in = xs.size() / samples / all, out = hidden * directions;
    RecurrentNumbers ys(all * samples * out);
    for (std::size_t d = 0; d < directions; ++d) {
      const RecurrentWeightsOf w = weights(i / directions, d);
      for (std::size_t n = 0; n < samples; ++n) {
        const std::size_t steps = lengths.empty() ? all : static_cast<std::size_t>(lengths[n]);
        const auto place = static_cast<std::ptrdiff_t>(((i + d) * samples + n) * hidden);
        RecurrentNumbers h(hs.begin() + place, hs.begin() + place + static_cast<std::ptrdiff_t>(hidden));
        RecurrentNumbers c(cs.begin() + place, cs.begin() + place + static_cast<std::ptrdiff_t>(hidden));
        for (std::size_t s = 0; s < steps; ++s) {
          const std::size_t t = d == 0 ? s : steps - 1 - s;
          recurrent_step_of(kind, w, &xs[(t * samples + n) * in], in, h, c);
          std::copy(h.begin(), h.end(), ys.begin() + static_cast<std::ptrdiff_t>((t * samples + n) * out + d * hidden));
        }
        std::copy(h.begin(), h.end(), hs.begin() + place);
        std::copy(c.begin(), c.end(), cs.begin() + place);
      }
    }
    x = array(ys, {x.shape()[0], x.shape()[1], static_cast<std::int64_t>(out)});
  }
  return {x, array(hs, h0.shape()), array(cs, c0.shape())};
}

inline std::shared_ptr<gluon::rnn::RecurrentLayer> recurrent_layer(
    const std::string& kind, std::int64_t hidden, gluon::rnn::RecurrentOptions o) {
  if (kind == "LSTM")
    return std::make_shared<gluon::rnn::LSTM>(hidden, o);
  if (kind == "GRU")
    return std::make_shared<gluon::rnn::GRU>(hidden, o);
  return std::make_shared<gluon::rnn::RNN>(
      hidden, o, kind == "relu" ? gluon::rnn::Activation::relu : gluon::rnn::Activation::tanh);
}

inline const std::vector<std::string> k_recurrent_kinds = {"relu", "tanh", "LSTM", "GRU"};

inline void fill_randomly(gluon::Block& block) {
  std::uint64_t seed = 5;
  for (const auto& [name, parameter] : block.collect_params())
    parameter.set_data(random_array(parameter.shape(), ++seed, -0.7, 0.7));
}

inline std::shared_ptr<gluon::rnn::RecurrentLayer> filled_layer(
    const std::string& kind, std::int64_t hidden, gluon::rnn::RecurrentOptions o) {
  auto layer = recurrent_layer(kind, hidden, o);
  layer->initialize();
  fill_randomly(*layer);
  return layer;
}

}  // namespace sluice::test
