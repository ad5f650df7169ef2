// Rotary embeddings by hand, the positions that they are told, and attention on them with a cache.
#include <cmath>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::gluon;

namespace {

/// (N, H, L, width) turned number by number.
NDArray by_hand(const NDArray& x, const std::vector<double>& positions, const nn::RotaryOptions& options) {
  const Shape shape = x.shape();
  const std::int64_t length = shape[2], width = shape[3], dims = options.dims == 0 ? width : options.dims;
  const std::vector<float> from = values(x);
  std::vector<float> turned = from;
  for (std::int64_t row = 0; row < shape[0] * shape[1] * length; ++row) {
    for (std::int64_t i = 0; i < dims / 2; ++i) {
      const double at = positions[static_cast<std::size_t>(row % length)];
      const double angle = at / std::pow(options.base, 2.0 * static_cast<double>(i) / static_cast<double>(dims));
      const std::int64_t a = row * width + (options.interleaved ? 2 * i : i);
      const std::int64_t b = options.interleaved ? a + 1 : a + dims / 2;
      const double u = from[static_cast<std::size_t>(a)], v = from[static_cast<std::size_t>(b)];
      turned[static_cast<std::size_t>(a)] = static_cast<float>(u * std::cos(angle) - v * std::sin(angle));
      turned[static_cast<std::size_t>(b)] = static_cast<float>(v * std::cos(angle) + u * std::sin(angle));
    }
  }
  return array(turned, shape);
}

const Tolerance k_rotary_close{1e-5, 1e-6};

}  // namespace

TEST_CASE("RotaryEmbedding turns pairs by angles of their positions", "[gluon][layers][rotary]") {
  const NDArray x = random_array({2, 3, 5, 8}, 1);
  for (const bool interleaved : {false, true}) {
    for (const std::int64_t dims : {0, 4, 8}) {
      for (const double base : {10000.0, 7.0}) {
        CAPTURE(interleaved, dims, base);
        const nn::RotaryOptions options{.base = base, .interleaved = interleaved, .dims = dims};
        nn::RotaryEmbedding layer(options);
        CHECK(differences(layer(x), by_hand(x, {0, 1, 2, 3, 4}, options), k_rotary_close) == "");
        const NDArray offset = full({}, 1000, {.dtype = int64});
        const NDArray later = by_hand(x, {1000, 1001, 1002, 1003, 1004}, options);
        CHECK(differences(layer(x, offset), later, k_rotary_close) == "");
        const NDArray places = array<std::int32_t>({3, 0, 0, 7, -2});
        CHECK(differences(layer(x, places), by_hand(x, {3, 0, 0, 7, -2}, options), k_rotary_close) == "");
      }
    }
  }
}

TEST_CASE(
    "RotaryEmbedding takes positions of each sequence, and arrays that lie otherwise", "[gluon][layers][rotary]") {
  nn::RotaryEmbedding layer;
  const NDArray x = random_array({2, 3, 4, 6}, 1);
  const NDArray places = array<std::int32_t>({0, 1, 2, 3, 9, 10, 11, 12}, {2, 4});
  const NDArray y = layer(x, places);
  CHECK(values(y.slice(0, 0, 1).copy()) == values(layer(x.slice(0, 0, 1))));
  CHECK(values(y.slice(0, 1, 2).copy()) == values(layer(x.slice(0, 1, 2), full({}, 9))));
  CHECK(values(layer(x, places.slice(0, 1, 2))) == values(layer(x, full({}, 9))));  // one row for all
  const NDArray three = random_array({2, 4, 6}, 2);
  CHECK(values(layer(three, places)) == values(layer(three.expand_dims(1), places).squeeze(1)));
  // Strided, of stride zero, of no elements.
  const NDArray apart = random_array({2, 4, 3, 6}, 3);
  CHECK(values(layer(apart.swapaxes(1, 2))) == values(layer(apart.swapaxes(1, 2).copy())));
  CHECK(values(layer(ones({1}).broadcast_to({2, 4, 6}))) == values(layer(ones({2, 4, 6}))));
  CHECK(layer(zeros({0, 3, 4, 6})).shape() == Shape{0, 3, 4, 6});
  CHECK(layer(zeros({2, 3, 0, 6})).shape() == Shape{2, 3, 0, 6});
  nn::RotaryEmbedding neighbours({.interleaved = true});
  CHECK(neighbours(zeros({0, 3, 4, 6})).shape() == Shape{0, 3, 4, 6});
  CHECK(layer(x.astype(float64)).dtype() == float64);
  const NDArray half = layer(x.astype(bfloat16));
  CHECK(half.dtype() == bfloat16);
  CHECK(values(half) == values(layer(x.astype(bfloat16).astype(float32)).astype(bfloat16)));
  const NDArray none = layer(full({1, 2, 4}, NAN));
  CHECK(isnan(none).to_vector<bool>() == std::vector<bool>(8, true));
}

TEST_CASE("RotaryEmbedding keeps the shape, of nothing and of eight axes too", "[gluon][layers][rotary]") {
  for (const bool interleaved : {false, true}) {
    CAPTURE(interleaved);
    nn::RotaryEmbedding layer({.interleaved = interleaved});
    for (const Shape& shape : std::vector<Shape>{
             {2, 0, 4}, {2, 0, 3, 4}, {2, 3, 0, 4}, {2, 3, 0}, {2, 3, 4, 0}, {0, 3, 4}, {0, 0, 4}, {0, 0, 0}}) {
      CAPTURE(to_string(shape));
      NDArray x = zeros(shape, {.dtype = bfloat16}), y;
      x.attach_grad();
      {
        const autograd::RecordScope record;
        y = layer(x, zeros({shape[shape.ndim() - 2]}, {.dtype = int32}));
      }
      CHECK(y.shape() == shape);
      CHECK(y.dtype() == bfloat16);
      y.backward();
      CHECK(x.grad().shape() == shape);
    }
    const NDArray wide = random_array({2, 1, 1, 2, 1, 1, 3, 4}, 1);
    CHECK(layer(wide).shape() == wide.shape());
    CHECK(values(layer(wide)) == values(layer(wide.reshape({2, 2, 3, 4}))));
    CHECK_THROWS_AS(layer(ones({1, 4, 6}), ones({3, 4})), ShapeError);
    CHECK_THROWS_WITH(
        layer(ones({2, 2, 4, 6}), ones({3, 4})), contains("(3, 4) are those of 3 sequences, there are 2"));
    CHECK_THROWS_AS(layer(ones({2, 4, 6}), ones({0, 4})), ShapeError);
    CHECK_THROWS_AS(layer(ones({2, 0, 6}), ones({3, 0})), ShapeError);
    CHECK(layer(ones({0, 4, 6}), ones({0, 4})).shape() == Shape{0, 4, 6});
  }
}

TEST_CASE("Products of what is turned depend on distances; gradients turn back", "[gluon][layers][rotary]") {
  for (const bool interleaved : {false, true}) {
    nn::RotaryEmbedding layer({.interleaved = interleaved, .dims = 6});
    const NDArray q = random_array({1, 1, 8}, 1), k = random_array({1, 1, 8}, 2);
    const auto product = [&](double at, double other) {
      return sum(layer(q, full({}, at)) * layer(k, full({}, other))).item<float>();
    };
    CHECK(product(7, 3) == Approx(product(104, 100)).epsilon(1e-4));
    CHECK(product(7, 3) != Approx(product(7, 4)).epsilon(1e-3));
    NDArray x = random_array({2, 3, 5, 8}, 3), y;
    const NDArray head = random_array({2, 3, 5, 8}, 4);
    x.attach_grad();
    {
      const autograd::RecordScope record;
      y = layer(x, full({}, 20));
    }
    y.backward(head);
    const NDArray back = array<float>({-20, -21, -22, -23, -24});
    CHECK(differences(x.grad(), layer(head, back), k_rotary_close) == "");
  }
}

TEST_CASE("One trace of RotaryEmbedding serves all batches and offsets", "[gluon][layers][rotary]") {
  nn::RotaryEmbedding plain({.interleaved = true}), graph({.interleaved = true});
  graph.hybridize();
  for (const std::int64_t batch : {2, 5}) {
    for (const double offset : {0.0, 3.0, 4000.0}) {
      const NDArray x = random_array({batch, 2, 3, 4}, 1), at = full({}, offset);
      CHECK(values(graph(x, at)) == values(plain(x, at)));
    }
  }
  CHECK(graph.hybrid_traces() == 1);
}

TEST_CASE("Attention with rotary embeddings is the same from a cache, step by step", "[gluon][layers][rotary]") {
  for (const bool interleaved : {false, true}) {
    random::seed(2);
    nn::MultiHeadAttention layer(
        16, 4, {.causal = true, .kv_heads = 2, .rotary = nn::RotaryOptions{.interleaved = interleaved}});
    nn::MultiHeadAttention one(16, 4, {.kv_heads = 2, .rotary = nn::RotaryOptions{.interleaved = interleaved}});
    layer.initialize(init::Xavier());
    const NDArray x = random_array({2, 6, 16}, 1);
    const NDArray whole = layer(x);
    one.initialize();
    one(x);
    one.share_parameters(layer.collect_params());
    for (std::int64_t i = 0; i < 6; ++i) {
      const NDArray seen = x.slice(1, 0, i + 1), last = x.slice(1, i, i + 1);
      const NDArray step = one({last, seen, seen, ones({1, 1, 1, 1}), full({}, static_cast<double>(i))})[0];
      CHECK(differences(step, whole.slice(1, i, i + 1), {1e-4, 1e-5}) == "");
    }
    // Where all moves along nothing changes; where it does not, it does.
    CHECK(differences(layer(x, full({}, 50)), whole, {1e-3, 1e-4}) == "");
    CHECK(differences(layer(x, array<float>({0, 1, 2, 5, 9, 9})), whole, {1e-3, 1e-4}) != "");
    nn::MultiHeadAttention blind(16, 4, {.causal = true, .kv_heads = 2});
    blind.initialize();
    blind(x);
    blind.share_parameters(layer.collect_params());
    CHECK(differences(blind(x), whole, {1e-3, 1e-4}) != "");
    CHECK(layer.collect_params().size() == blind.collect_params().size());
    CHECK_THROWS_AS(blind(x, full({}, 50)), ValueError);
    layer.hybridize();
    CHECK(values(layer(x)) == values(whole));
  }
}

TEST_CASE("Encoders turn queries and keys if asked", "[gluon][layers][rotary][transformer]") {
  random::seed(3);
  nn::TransformerEncoder plain(1, 8, 12, 2), turned(1, 8, 12, 2, {.rotary = nn::RotaryOptions{}});
  const NDArray x = random_array({2, 4, 8}, 1),
                swapped = concat({x.slice(1, 1, 2), x.slice(1, 0, 1), x.slice(1, 2, 4)}, 1);
  for (nn::TransformerEncoder* net : {&plain, &turned}) {
    net->initialize(init::Xavier(), cpu(), true);
    // Without positions what comes last sees the same set, in whatever order.
    const bool same = differences((*net)(x).slice(1, 2, 4), (*net)(swapped).slice(1, 2, 4), {1e-4, 1e-5}).empty();
    CHECK(same == (net == &plain));
  }
}

TEST_CASE("RotaryEmbedding refuses what does not fit, by name", "[gluon][layers][rotary]") {
  CHECK_THROWS_AS(nn::RotaryEmbedding({.dims = 3}), ValueError);
  CHECK_THROWS_AS(nn::RotaryEmbedding({.dims = -2}), ValueError);
  CHECK_THROWS_AS(nn::RotaryEmbedding({.base = 0}), ValueError);
  CHECK_THROWS_AS(nn::RotaryEmbedding({.base = INFINITY}), ValueError);
  nn::RotaryEmbedding layer, four({.dims = 4});
  CHECK_THROWS_AS(layer(ones({3, 4})), ShapeError);
  CHECK_THROWS_AS(layer(ones({1, 3, 5})), ShapeError);
  CHECK_THROWS_AS(four(ones({1, 3, 2})), ShapeError);
  CHECK_THROWS_AS(layer(ones({1, 3, 4}).astype(int32)), DTypeError);
  CHECK_THROWS_AS(layer(ones({1, 3, 4}), ones({2})), ShapeError);
  CHECK_THROWS_AS(layer(ones({1, 3, 4}), ones({4})), ShapeError);
  CHECK_THROWS_AS(layer(ones({2, 3, 4}), ones({3, 3})), ShapeError);
  CHECK_THROWS_AS(layer(ones({2, 3, 4}), ones({2, 1, 3})), ShapeError);
  CHECK_THROWS_AS(layer({ones({2, 3, 4}), ones({}), ones({})}), ValueError);
  CHECK_THROWS_AS(nn::MultiHeadAttention(8, 2, {.rotary = nn::RotaryOptions{.dims = 1}}), ValueError);
}
