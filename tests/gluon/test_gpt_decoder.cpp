// Texts that go on with keys and values kept, against all of them computed again.
#include <limits>
#include <memory>
#include <vector>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;
using gluon::model_zoo::GPT;
using gluon::model_zoo::GPTDecoder;

namespace {

constexpr std::int64_t k_length = 12, k_vocabulary = 17;

GPT network() {
  random::seed(8);
  GPT net({.vocabulary = k_vocabulary, .length = k_length, .units = 8, .layers = 3, .heads = 2, .dropout = 0.5});
  net.initialize(gluon::init::Normal(0.4));
  return net;
}

/// Of `count` texts; the same whatever they are cut into.
NDArray text(std::int64_t count, std::int64_t length, int start = 0) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count * length; ++i)
    tokens.push_back(static_cast<std::int32_t>((i * i * 7 + 3 * i + start) % k_vocabulary));
  return array(tokens, {count, length});
}

NDArray part(const NDArray& all, std::int64_t begin, std::int64_t end) {
  return all.slice(1, begin, end).contiguous();
}

}  // namespace

TEST_CASE("A decoder gives token by token what the network gives of all of them", "[gluon][attention]") {
  GPT net = network();
  for (const std::int64_t batch : {1, 3}) {
    CAPTURE(batch);
    const NDArray tokens = text(batch, k_length);
    const NDArray wanted = net(tokens);
    GPTDecoder decoder(net, batch);
    for (int turn = 0; turn < 2; ++turn) {
      check_near(values(decoder(part(tokens, 0, 5))), values(part(wanted, 0, 5)), 1e-4);
      for (std::int64_t i = 5; i < k_length - 2; ++i)
        check_near(values(decoder(part(tokens, i, i + 1))), values(part(wanted, i, i + 1)), 1e-4);
      CHECK(decoder.position() == k_length - 2);
      check_near(
          values(decoder(part(tokens, k_length - 2, k_length))), values(part(wanted, k_length - 2, k_length)), 1e-4);
      decoder.reset();
      CHECK(decoder.position() == 0);
    }
    CHECK(decoder.traces() == 3);  // of 5 tokens, of one and of two, whatever their number
  }
}

TEST_CASE("What a decoder saw of another text, of NaN too, reaches the next one in nothing", "[gluon][attention]") {
  GPT net = network();
  const NDArray tokens = text(1, 6);
  GPTDecoder decoder(net);
  const std::vector<float> wanted = values(decoder(tokens));
  decoder.reset();
  decoder(text(1, k_length, 5));
  decoder.reset();
  CHECK(values(decoder(tokens)) == wanted);
  const gluon::Parameter embedding = net.collect_params("wte")["wte.weight"];
  const NDArray good = embedding.data().copy();
  embedding.data().assign(std::numeric_limits<float>::quiet_NaN());
  decoder.reset();
  decoder(text(1, k_length));
  embedding.data().assign(good);
  decoder.reset();
  CHECK(values(decoder(tokens)) == wanted);
}

TEST_CASE(
    "A decoder follows its network: weights that are trained, layers that are replaced, a move", "[gluon][attention]") {
  GPT net = network();
  const NDArray tokens = text(2, 4);
  GPTDecoder decoder(net, 2);
  decoder(tokens);
  decoder.reset();
  for (const auto& [name, parameter] : net.collect_params("body.1")) {
    parameter.data().assign(parameter.data() * 1.5);
  }
  check_near(values(decoder(tokens)), values(net(tokens)), 1e-4);
  decoder.reset();
  net.child_named("body")->child_named("2")->child_named("ffn")->replace(
      "ffn_2", nn::Dense(8, {.flatten = false, .in_units = 32}));
  net.initialize(gluon::init::Normal(0.3));
  GPT moved = std::move(net);
  check_near(values(decoder(tokens)), values(moved(tokens)), 1e-4);
}

TEST_CASE("A decoder predicts and records nothing, whatever its caller does", "[gluon][attention]") {
  GPT net = network();
  const NDArray tokens = text(1, 4);
  GPTDecoder decoder(net);
  const std::vector<float> wanted = values(decoder(tokens));
  decoder.reset();
  const autograd::RecordScope record;
  const NDArray found = decoder(tokens);
  CHECK(values(found) == wanted);
  CHECK_FALSE(autograd::on_tape(found));
}

TEST_CASE("A decoder refuses other batches, too many tokens, and a network without values", "[gluon][attention]") {
  GPT net = network();
  GPTDecoder decoder(net, 2);
  CHECK_THROWS_AS(decoder(text(1, 3)), ShapeError);
  CHECK_THROWS_AS(decoder(text(2, k_length + 1)), ValueError);
  decoder(text(2, k_length - 1));
  CHECK_THROWS_AS(decoder(text(2, 2)), ValueError);
  decoder(text(2, 1));
  CHECK(decoder.position() == k_length);
  CHECK_THROWS_AS(decoder(text(2, 1)), ValueError);
  CHECK_THROWS_AS(GPTDecoder(net, 0), ValueError);
  const GPT bare({.vocabulary = 5, .length = 4, .units = 4, .layers = 1, .heads = 1});
  CHECK_THROWS_AS(GPTDecoder(bare), ValueError);
  auto gone = std::make_unique<GPT>(network());
  GPTDecoder left(*gone);
  gone.reset();
  CHECK_THROWS_AS(left(text(1, 1)), ValueError);
}

TEST_CASE(
    "Attention with keys and values kept is causal attention, with shared heads and rotary positions",
    "[gluon][attention]") {
  for (const bool turns : {false, true}) {
    CAPTURE(turns);
    nn::MultiHeadAttentionOptions options{.causal = true, .kv_heads = 2};
    if (turns)
      options.rotary = nn::RotaryOptions{};
    nn::MultiHeadAttention layer(16, 4, options);
    random::seed(2);
    layer.initialize(gluon::init::Normal(0.5));
    const NDArray x = pattern_array({2, 7, 16});
    const NDArray wanted = layer(x);
    const nn::KeyValueCache cache = layer.make_cache(2, 9);
    CHECK(cache.keys.shape() == Shape{2, 2, 9, 4});
    std::int64_t at = 0;
    for (const std::int64_t steps : {3, 1, 2, 1}) {
      const NDArray position = full({}, at, {.dtype = int64});
      const NDArray y = layer.step(part(x, at, at + steps), position, nn::causal_mask(position, steps, 9), cache);
      check_near(values(y), values(part(wanted, at, at + steps)), 1e-4);
      at += steps;
    }
    const NDArray behind = full({}, 9, {.dtype = int64});
    CHECK_THROWS_AS(
        values(layer.step(part(x, 0, 1), behind, nn::causal_mask(behind, 1, 9), cache)) == values(cache.keys),
        IndexError);
    CHECK_THROWS_AS(cache.keys.wait_to_read(), IndexError);
    CHECK_THROWS_AS(cache.values.wait_to_read(), IndexError);
  }
  CHECK_THROWS_AS(nn::MultiHeadAttention(4, 2).make_cache(0, 3), ValueError);
}

TEST_CASE("Learned positions begin where they are told", "[gluon][attention]") {
  nn::LearnedPositions layer(6, 2);
  layer.initialize(gluon::init::Normal(1));
  const NDArray x = pattern_array({2, 3, 2});
  const NDArray rows = layer.own_parameter("weight").data();
  CHECK(values(layer(x, full({}, 2, {.dtype = int64}))) == values(x + rows.slice(0, 2, 5)));
  CHECK(values(layer(x, full({}, 0, {.dtype = int64}))) == values(layer(x)));
  CHECK_THROWS_AS(values(layer(x, full({}, 4, {.dtype = int64}))), IndexError);
  CHECK_THROWS_AS(layer(x, ones({3}).astype(int64)), ShapeError);
}
