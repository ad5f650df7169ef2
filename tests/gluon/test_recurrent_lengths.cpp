// Recurrent layers over sequences of several lengths against plain loops: states, graphs, files, training.
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/gluon/recurrent_loops.h"
#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
namespace rnn = gluon::rnn;

namespace {

using Lengths = std::vector<std::int64_t>;

NDArray array_of(const Lengths& lengths) {
  return array(lengths, {static_cast<std::int64_t>(lengths.size())}).astype(int32);
}

// x (T, N, C) with numbers that are none beyond the lengths.
NDArray spoilt(const NDArray& x, const Lengths& lengths) {
  return sequence_mask(x, array_of(lengths), std::numeric_limits<double>::quiet_NaN());
}

const Tolerance k_lengths_close{2e-5, 2e-6};

}  // namespace

TEST_CASE("Recurrent layers agree with plain loops over sequences of several lengths", "[gluon][rnn][lengths]") {
  const Lengths lengths{3, 0, 5, 1};
  for (const std::string& kind : k_recurrent_kinds) {
    for (const bool both : {false, true}) {
      for (const rnn::Layout layout : {rnn::Layout::TNC, rnn::Layout::NTC}) {
        CAPTURE(kind, both, layout == rnn::Layout::NTC);
        const auto layer = filled_layer(
            kind,
            4,
            {.num_layers = 2,
             .layout = layout,
             .bidirectional = both,
             .use_sequence_length = true,
             .input_size = 3,
             .dtype = float64});
        const NDArray x = random_array({5, 4, 3}, 1, -1, 1, float64);
        const Shape state{2 * (both ? 2 : 1), 4, 4};
        const NDArray h = random_array(state, 2, -1, 1, float64), c = random_array(state, 3, -1, 1, float64);
        const auto in_layout = [&](const NDArray& steps) {
          return layout == rnn::Layout::NTC ? steps.swapaxes(0, 1) : steps;
        };
        const NDArray given = in_layout(spoilt(x, lengths)), beside = array_of(lengths);
        const Looped plain = looped(kind, weights_in(*layer), x, zeros(state), zeros(state), both, lengths);
        CHECK(differences(in_layout((*layer)({given, beside})[0]), plain.y, {1e-12, 1e-13}) == "");
        const Looped want = looped(kind, weights_in(*layer), x, h, c, both, lengths);
        const Arrays got = kind == "LSTM" ? (*layer)({given, h, c, beside}) : (*layer)({given, h, beside});
        REQUIRE(got.size() == (kind == "LSTM" ? 3 : 2));
        CHECK(differences(in_layout(got[0]), want.y, {1e-12, 1e-13}) == "");
        CHECK(differences(got[1], want.h, {1e-12, 1e-13}) == "");
        if (kind == "LSTM")
          CHECK(differences(got[2], want.c, {1e-12, 1e-13}) == "");
      }
    }
  }
}

TEST_CASE(
    "Layers of several lengths are in graphs what they are by hand, and one trace serves all lengths",
    "[gluon][rnn][lengths]") {
  for (const std::string& kind : k_recurrent_kinds) {
    for (const rnn::Layout layout : {rnn::Layout::TNC, rnn::Layout::NTC}) {
      CAPTURE(kind, layout == rnn::Layout::NTC);
      const auto layer = filled_layer(
          kind,
          3,
          {.num_layers = 2, .layout = layout, .bidirectional = true, .use_sequence_length = true, .input_size = 2});
      const auto run = [&](std::int64_t steps, const Lengths& lengths) {
        NDArray x = spoilt(random_array({steps, static_cast<std::int64_t>(lengths.size()), 2}, 2), lengths), y;
        if (layout == rnn::Layout::NTC)
          x = x.swapaxes(0, 1).copy();
        x.attach_grad();
        {
          const autograd::RecordScope record;
          y = (*layer)({x, array_of(lengths)})[0];
        }
        y.backward();
        return std::pair(y.detach(), x.grad());
      };
      const std::vector<std::pair<std::int64_t, Lengths>> all{
          {4, {4, 2, 0}}, {4, {1, 3, 4}}, {4, {4, 1, 2, 3, 0}}, {7, {7, 5}}};
      std::vector<std::pair<NDArray, NDArray>> want;
      for (const auto& [steps, lengths] : all)
        want.push_back(run(steps, lengths));
      layer->hybridize();
      for (std::size_t i = 0; i < all.size(); ++i) {
        CAPTURE(i);
        const auto [y, dx] = run(all[i].first, all[i].second);
        CHECK(differences(y, want[i].first, k_lengths_close) == "");
        CHECK(differences(dx, want[i].second, k_lengths_close) == "");
      }
    }
  }
}

TEST_CASE("Layers of several lengths train, and are exported", "[gluon][rnn][lengths][export]") {
  rnn::LSTM layer(3, {.num_layers = 2, .bidirectional = true, .use_sequence_length = true, .input_size = 2});
  layer.initialize();
  fill_randomly(layer);
  const Lengths lengths{3, 1, 5};
  const NDArray x = spoilt(random_array({5, 3, 2}, 1), lengths), beside = array_of(lengths);
  const TemporaryFolder folder;
  layer.export_to(folder / "net", {x, beside});
  const auto imported = gluon::SymbolBlock::imports(folder / "net.json");
  CHECK(values(imported({x, beside})[0]) == values(layer({x, beside})[0]));
  const NDArray others = array_of({5, 2, 0});
  const NDArray y = random_array({5, 3, 2}, 1);
  CHECK(values(imported({y, others})[0]) == values(layer({y, others})[0]));
  Trainer trainer(layer.collect_params(), Adam({.learning_rate = 0.05}));
  const NDArray target = sequence_mask(random_array({5, 3, 6}, 2, -0.5, 0.5), beside);
  double first = 0, last = 0;
  for (int i = 0; i < 60; ++i) {
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = mean(square(layer({x, beside})[0] - target));
    }
    loss.backward();
    trainer.step(1);
    last = loss.item<double>();
    first = i == 0 ? last : first;
  }
  CHECK(last < first / 2);
}

TEST_CASE(
    "Layers of several lengths give on a GPU what they give on a CPU, exported there too",
    "[gluon][rnn][lengths][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Lengths lengths{3, 0, 5, 1};
  for (const std::string& kind : k_recurrent_kinds) {
    CAPTURE(kind);
    const auto layer =
        filled_layer(kind, 4, {.num_layers = 2, .bidirectional = true, .use_sequence_length = true, .input_size = 3});
    const NDArray x = spoilt(random_array({5, 4, 3}, 1), lengths), beside = array_of(lengths);
    const NDArray want = (*layer)({x, beside})[0];
    const TemporaryFolder folder;
    layer->export_to(folder / "net", {x, beside});
    const auto imported = gluon::SymbolBlock::imports(folder / "net.json", {}, {}, gpu());
    CHECK(differences(imported({x.to(gpu()), beside.to(gpu())})[0].to(cpu()), want, {1e-4, 1e-5}) == "");
    layer->to(gpu());
    for (const bool hybrid : {false, true}) {
      if (hybrid)
        layer->hybridize();
      CHECK(differences((*layer)({x.to(gpu()), beside.to(gpu())})[0].to(cpu()), want, {1e-4, 1e-5}) == "");
    }
  }
}

TEST_CASE("Layers of several lengths refuse what does not fit, by name and values", "[gluon][rnn][lengths]") {
  rnn::LSTM layer(4, {.use_sequence_length = true, .input_size = 3});
  layer.initialize();
  const NDArray x = ones({5, 2, 3}), state = ones({1, 2, 4}), lengths = array_of({5, 2});
  CHECK(layer({x, lengths}).size() == 1);
  CHECK(layer({x, state, state, lengths}).size() == 3);
  CHECK_THROWS_WITH(layer(x), contains("rnn::LSTM") && contains("lengths"));
  CHECK_THROWS_AS(layer({x, state, lengths}), ValueError);
  CHECK_THROWS_AS(layer({x, state, state}), ValueError);
  CHECK_THROWS_WITH(layer({x, array_of({5})}), contains("rnn::LSTM") && contains("(1,)") && contains("(2,)"));
  CHECK_THROWS_AS(layer({x, lengths.reshape({2, 1})}), ShapeError);
  CHECK_THROWS_WITH(layer({x, ones({2})}), contains("rnn::LSTM") && contains("float32"));
  CHECK_THROWS_AS(values(layer({x, array_of({5, 6})})[0]), IndexError);
  CHECK_THROWS_AS(values(layer({x, array_of({-1, 5})})[0]), IndexError);
  rnn::GRU turned(4, {.layout = rnn::Layout::NTC, .use_sequence_length = true});
  turned.initialize();
  CHECK(turned({ones({2, 5, 3}), lengths})[0].shape() == Shape{2, 5, 4});
  CHECK_THROWS_AS(turned({ones({5, 2, 3}), lengths}), ShapeError);
}
