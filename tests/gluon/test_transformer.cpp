// Layers of transformers from their parts, by hand; models made of them by how many parameters they have.
#include <cmath>
#include <functional>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::gluon;

namespace {

void fill(Block& block) {
  std::uint64_t seed = 5;
  for (const auto& [name, parameter] : block.collect_params())
    parameter.set_data(random_array(parameter.shape(), ++seed, -0.5, 0.5));
}

/// What the parts of a block compute, from its parameters alone.
class ByHand {
 public:
  explicit ByHand(const Block& block) : parameters_(block.collect_params()) {}

  NDArray at(const std::string& name) const { return parameters_[name].data(); }
  NDArray product(const std::string& name, const NDArray& x) const {
    return matmul(x, at(name + ".weight").T()) + at(name + ".bias");
  }
  NDArray norm(const std::string& name, const NDArray& x, double eps = 1e-5) const {
    const NDArray centred = x - mean(x, {-1}, true);
    return centred / sqrt(mean(square(centred), {-1}, true) + eps) * at(name + ".gamma") + at(name + ".beta");
  }
  /// Of two heads; `added` to the scores.
  NDArray attention(const std::string& name, const NDArray& x, const NDArray& memory, const NDArray& added) const {
    const NDArray q = product(name + ".query", x), k = product(name + ".key", memory),
                  v = product(name + ".value", memory);
    const std::int64_t width = q.shape()[2] / 2;
    std::vector<NDArray> heads;
    for (const std::int64_t h : {0, 1}) {
      const auto head = [&](const NDArray& y) { return y.slice(2, h * width, (h + 1) * width); };
      const NDArray scores = matmul(head(q), head(k).swapaxes(1, 2)) / std::sqrt(static_cast<double>(width));
      heads.push_back(matmul(softmax(scores + added), head(v)));
    }
    return product(name + ".out", concat(heads, 2));
  }
  NDArray ffn(const std::string& name, const NDArray& x, const std::function<NDArray(NDArray)>& activation) const {
    return product(name + ".ffn_2", activation(product(name + ".ffn_1", x)));
  }

 private:
  ParameterDict parameters_;
};

const NDArray k_all_seen = zeros({1});

/// Of `length` positions, those behind each hidden.
NDArray causal_scores(std::int64_t length) {
  const NDArray at = arange(0, static_cast<double>(length));
  return where(at.expand_dims(0) > at.expand_dims(1), full({length, length}, -1e30), 0);
}

void check_near_arrays(const NDArray& found, const NDArray& wanted) {
  CHECK(differences(found, wanted, {1e-4, 1e-5}) == "");
}

}  // namespace

TEST_CASE("Encoder layers are attention and products with sums and norms round them", "[gluon][layers][transformer]") {
  const NDArray x = random_array({2, 5, 8}, 1), padding = array({1, 1, 1, 1, 0, 1, 1, 0, 0, 1}, {2, 1, 1, 5});
  const NDArray hidden = where(padding != 0, zeros({2, 1, 1, 5}), -1e30).squeeze(1);
  const auto rectified = [](const NDArray& y) { return relu(y); };
  const auto smooth = [](const NDArray& y) { return gelu(y); };
  nn::TransformerEncoderLayer post(8, 12, 2);
  post.initialize();
  post(x);
  fill(post);
  const ByHand of_post(post);
  const auto behind = [&](const NDArray& added) {
    const NDArray y = of_post.norm("norm_1", x + of_post.attention("attention", x, x, added));
    return of_post.norm("norm_2", y + of_post.ffn("ffn", y, rectified));
  };
  check_near_arrays(post(x), behind(k_all_seen));
  check_near_arrays(post({x, padding})[0], behind(hidden));

  nn::TransformerEncoderLayer pre(
      8, 12, 2, {.activation = "gelu", .pre_norm = true, .causal = true, .layer_norm_eps = 0.1});
  pre.initialize();
  pre(x);
  fill(pre);
  const ByHand of_pre(pre);
  const NDArray normed = of_pre.norm("norm_1", x, 0.1);
  const NDArray y = x + of_pre.attention("attention", normed, normed, causal_scores(5));
  check_near_arrays(pre(x), y + of_pre.ffn("ffn", of_pre.norm("norm_2", y, 0.1), smooth));
  CHECK_THROWS_AS(pre({x, padding, x}), ValueError);
}

TEST_CASE("Decoder layers look at themselves, causally, and at what an encoder gave", "[gluon][layers][transformer]") {
  const NDArray x = random_array({2, 4, 8}, 1), memory = random_array({2, 5, 6}, 2);
  const NDArray padding = array({1, 1, 1, 1, 0, 1, 1, 0, 0, 1}, {2, 1, 1, 5});
  const NDArray hidden = where(padding != 0, zeros({2, 1, 1, 5}), -1e30).squeeze(1);
  const auto rectified = [](const NDArray& y) { return relu(y); };
  for (const bool pre_norm : {false, true}) {
    CAPTURE(pre_norm);
    nn::TransformerDecoderLayer layer(8, 12, 2, {.pre_norm = pre_norm});
    layer.initialize();
    layer({x, memory});
    fill(layer);
    const ByHand parts(layer);
    const auto wrapped = [&](const NDArray& z, const std::string& norm, const std::function<NDArray(NDArray)>& part) {
      return pre_norm ? z + part(parts.norm(norm, z)) : parts.norm(norm, z + part(z));
    };
    const auto by_hand = [&](const NDArray& added) {
      NDArray z = wrapped(
          x, "norm_1", [&](const NDArray& w) { return parts.attention("self_attention", w, w, causal_scores(4)); });
      z = wrapped(z, "norm_2", [&](const NDArray& w) { return parts.attention("attention", w, memory, added); });
      return wrapped(z, "norm_3", [&](const NDArray& w) { return parts.ffn("ffn", w, rectified); });
    };
    check_near_arrays(layer({x, memory})[0], by_hand(k_all_seen));
    check_near_arrays(layer({x, memory, padding})[0], by_hand(hidden));
    CHECK_THROWS_AS(layer(x), ValueError);
  }
}

TEST_CASE("Encoders and decoders are their layers, with a norm behind pre-norm ones", "[gluon][layers][transformer]") {
  const NDArray x = random_array({2, 4, 8}, 1), memory = random_array({2, 5, 8}, 2);
  const NDArray padding = array({1, 1, 1, 0, 0, 1, 1, 0, 0, 1}, {2, 1, 1, 5});
  for (const bool pre_norm : {false, true}) {
    CAPTURE(pre_norm);
    nn::TransformerEncoder encoder(2, 8, 12, 2, {.pre_norm = pre_norm});
    encoder.initialize();
    encoder(memory);
    fill(encoder);
    nn::TransformerDecoder decoder(2, 8, 12, 2, {.pre_norm = pre_norm});
    decoder.initialize();
    decoder({x, memory});
    fill(decoder);
    const auto normed = [&](const Block& block, const NDArray& y) {
      return pre_norm ? ByHand(block).norm("norm", y) : y;
    };
    const auto first = encoder.child_at(0), second = encoder.child_at(1);
    check_near_arrays(encoder(memory), normed(encoder, second(first(memory))));
    check_near_arrays(
        encoder({memory, padding})[0], normed(encoder, second({first({memory, padding})[0], padding})[0]));
    const auto one = decoder.child_at(0), two = decoder.child_at(1);
    check_near_arrays(decoder({x, memory})[0], normed(decoder, two({one({x, memory})[0], memory})[0]));
    check_near_arrays(
        decoder({x, memory, padding})[0], normed(decoder, two({one({x, memory, padding})[0], memory, padding})[0]));
    // As graphs, to the last bit, for batches of other sizes too.
    const auto plain = values(decoder({x, encoder(memory)})[0]);
    encoder.hybridize();
    decoder.hybridize();
    CHECK(values(decoder({x, encoder(memory)})[0]) == plain);
    CHECK(values(decoder({x[{{0, 1}}], encoder(memory[{{0, 1}}])})[0]).size() == 32);
  }
  nn::TransformerEncoder encoder(1, 8, 12, 2);
  encoder.initialize();
  CHECK_THROWS_AS(encoder({x, padding, x}), ValueError);
  CHECK_THROWS_AS(encoder.call({}), ValueError);
  CHECK_THROWS_AS(nn::TransformerEncoder(0, 8, 12, 2), ValueError);
  CHECK_THROWS_AS(nn::TransformerDecoder(0, 8, 12, 2), ValueError);
  CHECK_THROWS_AS(nn::TransformerEncoder(1, 8, 12, 3), ValueError);
  CHECK_THROWS_AS(nn::TransformerEncoder(1, 8, 0, 2), ValueError);
  CHECK_THROWS_AS(nn::TransformerEncoder(1, 8, 12, 2, {.activation = "gulp"}), ValueError);
  CHECK_THROWS_AS(nn::TransformerEncoder(1, 8, 12, 2, {.dropout = 2}), ValueError);
}

TEST_CASE("Dropout stands behind each part of a layer, in training alone", "[gluon][layers][transformer]") {
  const NDArray x = random_array({1, 6, 8}, 1);
  nn::TransformerEncoderLayer layer(8, 12, 2, {.dropout = 1, .pre_norm = true});
  layer.initialize(init::Normal(1));
  CHECK(values(layer(x)) != values(x));
  const autograd::TrainScope training;
  CHECK(values(layer(x)) == values(x));  // all that the parts give is dropped
}

TEST_CASE("Positions are told apart by sines, or by what is learnt", "[gluon][layers][transformer]") {
  const NDArray x = zeros({2, 3, 4});
  const auto found = values(nn::SinusoidalPositions()(x));
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t p = 0; p < 3; ++p) {
      for (std::size_t i = 0; i < 4; ++i) {
        const double angle = static_cast<double>(p) / std::pow(1e4, static_cast<double>(i % 2) * 2 / 4);
        CHECK(found[(n * 3 + p) * 4 + i] == Approx(i < 2 ? std::sin(angle) : std::cos(angle)).margin(1e-6));
      }
    }
  }
  CHECK(nn::SinusoidalPositions()(x.astype(float16)).dtype() == float16);
  CHECK_THROWS_AS(nn::SinusoidalPositions()(zeros({2, 3, 5})), ShapeError);
  CHECK_THROWS_AS(nn::SinusoidalPositions()(zeros({2, 4})), ShapeError);
  nn::LearnedPositions learned(3, 4);
  learned.initialize(init::Normal(1));
  const NDArray weight = learned.own_parameter("weight").data();
  CHECK(values(learned(ones({2, 2, 4}))) == values(ones({2, 2, 4}) + weight.slice(0, 0, 2)));
  CHECK(learned(x).shape() == x.shape());
  CHECK_THROWS_AS(learned(zeros({2, 4, 4})), ShapeError);
  CHECK_THROWS_AS(nn::LearnedPositions(0, 4), ValueError);
}

TEST_CASE("GPT-2 and ViT have as many parameters as published", "[gluon][model_zoo][transformer]") {
  const auto count = [](Block&& net, const ArraySpec& input) {
    net.initialize(init::Zero());
    const Summary found = net.summary(abstract_array(input));
    return std::pair(found.parameters(), found.layers.front().outputs.front());
  };
  const ArraySpec tokens{{2, 16}, int64, cpu()}, images{{2, 3, 224, 224}, float32, cpu()};
  CHECK(count(model_zoo::gpt2("124m"), tokens) == std::pair(std::int64_t{124439808}, Shape{2, 16, 50257}));
  // Of shapes alone: nobody writes the weights of the large ones, so that they take addresses and no memory.
  const auto of_shapes = [&](std::string_view size) {
    Block&& net = model_zoo::gpt2(size);
    net.setattr("grad_req", GradReq::null);
    net.initialize([](const NDArray&) {});
    return net.summary(abstract_array(tokens)).parameters();
  };
  CHECK(of_shapes("355m") == 354823168);
  CHECK(of_shapes("774m") == 774030080);
  CHECK(of_shapes("1558m") == 1557611200);
  CHECK(count(model_zoo::vit_b_16(), images) == std::pair(std::int64_t{86567656}, Shape{2, 1000}));
  CHECK(count(model_zoo::vit_s_16(), images).first == 22050664);
  CHECK_THROWS_AS(model_zoo::gpt2("1m"), ValueError);
  CHECK_THROWS_AS(model_zoo::ViT({.image = 30}), ValueError);
  CHECK_THROWS_AS(model_zoo::GPT({.units = 10, .heads = 3}), ValueError);
}

TEST_CASE("A small GPT learns what follows, and sees nothing that comes later", "[gluon][model_zoo][transformer]") {
  random::seed(2);
  model_zoo::GPT net({.vocabulary = 11, .length = 16, .units = 16, .layers = 2, .heads = 2, .dropout = 0});
  net.initialize(init::Normal(0.1));
  // The next one is 3 more, modulo 11.
  const NDArray all =
      (arange(0, 9, 1, {.dtype = int64}).expand_dims(0) * 3 + arange(0, 11, 1, {.dtype = int64}).expand_dims(1)) % 11;
  const NDArray x = all.slice(1, 0, 8), next = all.slice(1, 1, 9);
  Trainer trainer(net.collect_params(), Adam({.learning_rate = 0.02}));
  const SoftmaxCrossEntropyLoss cost;
  TrainStep step(net, cost, trainer);
  for (int i = 0; i < 60; ++i)
    step(x, next);
  CHECK(mean(cost(net(x), next)).item<double>() < 0.1);
  CHECK(values(argmax(net(x), 2).astype(float32)) == values(next.astype(float32)));
  NDArray changed = x.copy();
  changed.slice(1, 5, 8).assign(zeros({11, 3}, {.dtype = int64}));
  CHECK(values(net(changed).slice(1, 0, 5)) == values(net(x).slice(1, 0, 5)));
  CHECK_THROWS_AS(net(zeros({1, 17}, {.dtype = int64})), ShapeError);
}

TEST_CASE("A small ViT is the same hybridized, for batches of other sizes too", "[gluon][model_zoo][transformer]") {
  random::seed(2);
  model_zoo::ViT net({.image = 8, .patch = 4, .units = 8, .hidden = 16, .layers = 2, .heads = 2, .classes = 3});
  net.initialize(init::Normal(0.3));
  const NDArray x = random_array({3, 3, 8, 8}, 1);
  const auto plain = values(net(x)), two = values(net(x[{{0, 2}}]));
  CHECK(plain.size() == 9);
  net.hybridize();
  CHECK(values(net(x)) == plain);
  CHECK(values(net(x[{{0, 2}}])) == two);
  CHECK_THROWS_AS(net(random_array({3, 3, 12, 12}, 1)), ShapeError);
}
