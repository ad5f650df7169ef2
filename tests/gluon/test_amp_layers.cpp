// Layers of several kinds under amp::autocast(), by hand and traced.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/operator/autocast.h>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;

namespace {

namespace nn = gluon::nn;
namespace rnn = gluon::rnn;

struct Layer {
  std::string name;
  std::function<std::unique_ptr<gluon::Block>()> make;
  Shape shape;
};

template <class L>
Layer layer(const char* name, const Shape& shape, const std::function<L()>& make) {
  return {name, [make] { return std::make_unique<L>(make()); }, shape};
}

std::vector<Layer> layers() {
  return {
      layer<rnn::RNN>("RNN", {4, 3, 5}, [] { return rnn::RNN(6); }),
      layer<rnn::LSTM>("LSTM", {4, 3, 5}, [] { return rnn::LSTM(6, {.num_layers = 2, .bidirectional = true}); }),
      layer<rnn::GRU>("GRU", {4, 3, 5}, [] { return rnn::GRU(6); }),
      layer<rnn::GRU>("long GRU", {40, 2, 3}, [] { return rnn::GRU(4); }),
      layer<rnn::RNN>("long RNN", {40, 2, 3}, [] { return rnn::RNN(4); }),
      layer<nn::Conv1D>("Conv1D", {2, 3, 8}, [] { return nn::Conv1D(4, 3); }),
      layer<nn::GroupNorm>("GroupNorm", {2, 4, 6}, [] { return nn::GroupNorm({.num_groups = 2}); }),
      layer<nn::Dense>("Dense", {4, 5}, [] { return nn::Dense(6, {.activation = "sigmoid"}); })};
}

std::vector<float> floats_of(const NDArray& array) {
  return values(array.astype(float32));
}

/// Outputs and gradients of all parameters.
std::vector<std::vector<float>> run(const Layer& layer, std::optional<DType> low, bool hybrid, bool low_input) {
  Engine::current().seed(4);
  const std::unique_ptr<gluon::Block> net = layer.make();
  net->initialize(gluon::init::Xavier());
  NDArray x = pattern_array(layer.shape);
  (void)(*net)(x);
  if (hybrid)
    net->hybridize();
  if (low_input)
    x = x.astype(*low);
  NDArray y, loss;
  {
    const amp::AutocastScope cast(low);
    const autograd::RecordScope record;
    y = (*net)(x);
    loss = sum(y * 0.5);
  }
  CHECK(loss.dtype() == float32);
  loss.backward();
  std::vector<std::vector<float>> all{floats_of(y)};
  for (const auto& [name, parameter] : net->collect_params()) {
    CHECK(parameter.grad().dtype() == float32);
    all.push_back(values(parameter.grad()));
  }
  return all;
}

}  // namespace

TEST_CASE("Layers under autocast are near float32, take either type, and are the same traced", "[gluon][amp]") {
  for (const Layer& one : layers()) {
    const auto wide = run(one, std::nullopt, false, false);
    for (const DType low : {bfloat16, float16}) {
      CAPTURE(one.name, low);
      const auto narrow = run(one, low, false, false);
      CHECK((run(one, low, true, false) == narrow));
      const auto of_low = run(one, low, false, true);
      REQUIRE(narrow.size() == wide.size());
      for (std::size_t i = 0; i < wide.size(); ++i) {
        double largest = 1e-3, apart = 0, of_low_apart = 0;
        for (std::size_t k = 0; k < wide[i].size(); ++k) {
          largest = std::max(largest, std::abs(static_cast<double>(wide[i][k])));
          apart = std::max(apart, std::abs(static_cast<double>(narrow[i][k]) - wide[i][k]));
          of_low_apart = std::max(of_low_apart, std::abs(static_cast<double>(of_low[i][k]) - wide[i][k]));
        }
        CHECK(apart < (low == bfloat16 ? 0.15 : 0.02) * largest);
        CHECK(of_low_apart < (low == bfloat16 ? 0.15 : 0.02) * largest);
      }
    }
  }
}

TEST_CASE("Layers without autocast still refuse inputs of another type", "[gluon][amp]") {
  nn::Dense dense(3);
  rnn::LSTM lstm(3);
  rnn::GRUCell cell(3);
  dense.initialize();
  lstm.initialize();
  cell.initialize();
  const NDArray half = zeros({2, 4}, {.dtype = float16});
  (void)dense(zeros({2, 4}));
  (void)lstm(zeros({2, 2, 4}));
  CHECK_THROWS_AS(dense(half), DTypeError);
  CHECK_THROWS_AS(lstm(half.expand_dims(0)), DTypeError);
  CHECK_THROWS_AS(cell.unroll(2, half.expand_dims(0).broadcast_to({2, 2, 4})), DTypeError);
  const auto cast = amp::autocast(bfloat16);
  CHECK(dense(half).dtype() == bfloat16);
  CHECK_THROWS_AS(dense(zeros({2, 4}, {.dtype = int32})), DTypeError);
  const auto off = amp::autocast(bfloat16, false);
  CHECK_THROWS_AS(dense(half), DTypeError);
}
