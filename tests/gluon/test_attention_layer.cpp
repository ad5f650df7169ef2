// MultiHeadAttention: what it computes, graphs for batches of all sizes, files, what it refuses.
#include <vector>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

void fill(gluon::Block& block) {
  std::uint64_t seed = 5;
  for (const auto& [name, parameter] : block.collect_params())
    parameter.set_data(random_array(parameter.shape(), ++seed));
}

NDArray projected(const gluon::Block& block, const std::string& name, const NDArray& x) {
  const ParameterDict parameters = block.collect_params();
  return matmul(x, parameters[name + ".weight"].data().T()) + parameters[name + ".bias"].data();
}

// Head by head, from slices.
NDArray by_hand(
    const gluon::Block& block, const Arrays& in, std::int64_t heads, std::int64_t each, const NDArray& added) {
  const NDArray q = projected(block, "query", in[0]), k = projected(block, "key", in[1]);
  const NDArray v = projected(block, "value", in[2]);
  const std::int64_t width = q.shape()[2] / heads;
  std::vector<NDArray> parts;
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto head = [&](const NDArray& x, std::int64_t i) { return x.slice(2, i * width, (i + 1) * width); };
    const NDArray scores = matmul(head(q, h), head(k, h / each).swapaxes(1, 2)) / std::sqrt(static_cast<double>(width));
    parts.push_back(matmul(softmax(scores + added), head(v, h / each)));
  }
  return projected(block, "out", concat(parts, 2));
}

}  // namespace

TEST_CASE("MultiHeadAttention computes what its projections and heads do one by one", "[gluon][layers][attention]") {
  for (const std::int64_t shared : {0, 2, 1}) {
    CAPTURE(shared);
    nn::MultiHeadAttention layer(12, 4, {.kv_heads = shared});
    layer.initialize();
    const NDArray query = random_array({2, 3, 5}, 1), key = random_array({2, 6, 7}, 2),
                  value = random_array({2, 6, 4}, 3);
    CHECK(layer({query, key, value})[0].shape() == Shape{2, 3, 12});
    fill(layer);
    const std::int64_t each = shared == 0 ? 1 : 4 / shared;
    const NDArray plain = by_hand(layer, {query, key, value}, 4, each, zeros({1}));
    CHECK(differences(layer({query, key, value})[0], plain, {1e-4, 1e-5}) == "");
    const NDArray padding = array({1, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0}, {2, 1, 1, 6});
    const NDArray added = where(padding != 0, 0.0, -1e30 * ones({2, 1, 1, 6})).squeeze(1);
    const NDArray hidden = by_hand(layer, {query, key, value}, 4, each, added);
    CHECK(differences(layer({query, key, value, padding})[0], hidden, {1e-4, 1e-5}) == "");
    CHECK(layer.collect_params()["key.weight"].shape() == Shape{12 / each, 7});
  }
}

TEST_CASE("MultiHeadAttention of one input attends to itself, causally if asked", "[gluon][layers][attention]") {
  nn::MultiHeadAttention layer(8, 2, {.causal = true, .use_bias = false});
  layer.initialize();
  const NDArray x = random_array({2, 5, 8}, 1);
  const NDArray y = layer(x);
  CHECK(values(y) == values(layer({x, x, x})[0]));
  // What comes later changes nothing before.
  const NDArray other = concat({x.slice(1, 0, 3), random_array({2, 2, 8}, 2)}, 1);
  CHECK(values(layer(other).slice(1, 0, 3).copy()) == values(y.slice(1, 0, 3).copy()));
  CHECK(layer.collect_params().names() == "query.weight, key.weight, value.weight, out.weight");
  layer.cast(bfloat16);
  CHECK(layer(x.astype(bfloat16)).dtype() == bfloat16);
  CHECK(layer(zeros({0, 5, 8}).astype(bfloat16)).shape() == Shape{0, 5, 8});
}

TEST_CASE(
    "One trace of attention serves batches of all sizes; other lengths are traced anew", "[gluon][layers][attention]") {
  nn::MultiHeadAttention layer(8, 4, {.causal = true, .kv_heads = 2});
  layer.initialize();
  layer(random_array({2, 5, 8}, 1));
  const auto run = [&](std::int64_t batch, std::int64_t length) {
    NDArray x = random_array({batch, length, 8}, 2), y;
    x.attach_grad();
    {
      const autograd::RecordScope record;
      y = layer(x);
    }
    y.backward();
    return concat({y.detach(), x.grad()});  // the gradient is of three calls: added in another order in a graph
  };
  const Tolerance close{1e-5, 1e-6};
  const auto two = run(2, 5), five = run(5, 5), longer = run(2, 10);
  layer.hybridize();
  CHECK(differences(run(2, 5), two, close) == "");
  CHECK(differences(run(5, 5), five, close) == "");
  const std::size_t traces = layer.hybrid_traces();
  run(7, 5);
  CHECK(traces == 1);
  CHECK(layer.hybrid_traces() == traces);
  CHECK(differences(run(2, 10), longer, close) == "");
  CHECK(layer.hybrid_traces() > traces);
}

TEST_CASE("A length that takes the place of the batch is seen by the trace", "[gluon][layers][attention]") {
  class LengthFirst : public gluon::Block {
   public:
    LengthFirst() : inner_(child("inner", nn::MultiHeadAttention(4, 2, {.causal = true}))) {}

   protected:
    NDArray forward(const NDArray& x) const override { return inner_(x.swapaxes(0, 1)).swapaxes(0, 1); }

   private:
    gluon::Child<nn::MultiHeadAttention> inner_;
  };
  LengthFirst block;
  block.initialize();
  const NDArray x = random_array({3, 2, 4}, 1), longer = random_array({6, 2, 4}, 2);
  const auto want = values(block(x).copy()), want_longer = values(block(longer).copy());
  block.hybridize();
  CHECK(values(block(x)) == want);
  CHECK(values(block(longer)) == want_longer);
  CHECK(values(block(random_array({6, 2, 4}, 2))) == want_longer);
}

TEST_CASE("MultiHeadAttention trains in one graph, and is exported", "[gluon][layers][attention][export]") {
  nn::MultiHeadAttention layer(6, 3, {.dropout = 0.1});
  layer.initialize();
  const NDArray x = random_array({4, 3, 6}, 1), target = random_array({4, 3, 6}, 2);
  L2Loss loss;
  Trainer trainer(layer.collect_params(), Adam({.learning_rate = 0.05}));
  gluon::TrainStep step(layer, loss, trainer);
  const double first = mean(step(x, target).losses).item<double>();
  for (int i = 0; i < 60; ++i)
    step(x, target);
  CHECK(mean(step(x, target).losses).item<double>() < 0.6 * first);
  const TemporaryFolder folder;
  layer.export_to(folder / "net", {x});
  const auto imported = gluon::SymbolBlock::imports(folder / "net.json");
  CHECK(values(imported(x)) == values(layer(x)));
}

TEST_CASE(
    "MultiHeadAttention of half types is on a GPU in graphs what it is by hand, for batches of all sizes",
    "[gluon][layers][attention][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  nn::MultiHeadAttention layer(32, 4, {.causal = true, .kv_heads = 2, .dtype = bfloat16});
  layer.initialize(gluon::init::Xavier(), gpu());
  const auto run = [&](std::int64_t batch, std::int64_t length, bool is_padded) {
    std::vector<NDArray> in(3, random_array({batch, length, 32}, 2, -1, 1, bfloat16).to(gpu()));
    for (NDArray& x : in) {
      x = x.copy();
      x.attach_grad();
    }
    const NDArray padding = (random_array({batch, 1, 1, length}, 3) > -0.5).to(gpu());
    NDArray y;
    {
      const autograd::RecordScope record;
      y = is_padded ? layer({in[0], in[1], in[2], padding})[0] : layer({in[0], in[1], in[2]})[0];
    }
    y.backward();
    return concat({y.detach(), in[0].grad(), in[1].grad(), in[2].grad()}).to(cpu()).astype(float32);
  };
  std::vector<NDArray> by_hand;
  for (const bool is_padded : {false, true}) {
    for (const std::int64_t batch : {2, 5, 7, 0})
      by_hand.push_back(run(batch, 6, is_padded));
    by_hand.push_back(run(2, 11, is_padded));
  }
  layer.hybridize();
  std::size_t at = 0;
  for (const bool is_padded : {false, true}) {
    for (const std::int64_t batch : {2, 5, 7, 0})
      CHECK(differences(run(batch, 6, is_padded), by_hand[at++], {2e-2, 2e-2}) == "");
    CHECK(differences(run(2, 11, is_padded), by_hand[at++], {2e-2, 2e-2}) == "");
  }
  const NDArray x = random_array({4, 6, 32}, 1, -1, 1, bfloat16).to(gpu());
  const NDArray target = random_array({4, 6, 32}, 2, -1, 1, bfloat16).to(gpu());
  L2Loss loss;
  Trainer trainer(layer.collect_params(), Adam({.learning_rate = 0.02}));
  gluon::TrainStep step(layer, loss, trainer);
  const double first = mean(step(x, target).losses.astype(float32)).item<double>();
  for (int i = 0; i < 60; ++i)
    step(x, target);
  CHECK(mean(step(x, target).losses.astype(float32)).item<double>() < 0.8 * first);
}

TEST_CASE("MultiHeadAttention refuses what does not divide or fit, by name", "[gluon][layers][attention]") {
  CHECK_THROWS_WITH(nn::MultiHeadAttention(10, 4), contains("nn::MultiHeadAttention") && contains("10 units"));
  CHECK_THROWS_AS(nn::MultiHeadAttention(8, 0), ValueError);
  CHECK_THROWS_AS(nn::MultiHeadAttention(8, 4, {.kv_heads = 3}), ValueError);
  CHECK_THROWS_AS(nn::MultiHeadAttention(8, 4, {.kv_heads = -1}), ValueError);
  CHECK_THROWS_AS(nn::MultiHeadAttention(8, 4, {.dropout = 2}), ValueError);
  nn::MultiHeadAttention layer(8, 4);
  layer.initialize();
  CHECK_THROWS_AS(layer(ones({3, 8})), ShapeError);
  CHECK_THROWS_AS(layer({ones({2, 3, 8}), ones({2, 3, 8})}), ValueError);
  CHECK_THROWS_AS(layer({ones({2, 3, 8}), ones({2, 1, 3, 2})}), ShapeError);
  CHECK_THROWS_AS(layer.call(Arrays(5, ones({2, 3, 8}))), ValueError);
  CHECK_THROWS_AS(layer({ones({2, 3, 8}), ones({3, 3, 8}), ones({3, 3, 8})}), ShapeError);
  CHECK_THROWS_AS(layer({ones({2, 3, 8}), ones({2, 3, 8}), ones({2, 4, 8})}), ShapeError);
}
