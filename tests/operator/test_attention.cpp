// Scaled dot product attention against plain loops in double: masks, groups of heads, queries without a key.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();

// `mask` of the shape of the scores: what is added, -inf where a key does not count.
NDArray reference(const NDArray& q, const NDArray& k, const NDArray& v, const std::vector<double>& mask, double scale) {
  const Shape &qs = q.shape(), &ks = k.shape();
  const std::int64_t heads = qs[1], length = qs[2], width = qs[3], keys = ks[2], of_values = v.shape()[3];
  const std::int64_t each = heads / ks[1];
  const auto qv = q.to_vector<double>(), kv = k.to_vector<double>(), vv = v.to_vector<double>();
  std::vector<double> y;
  for (std::int64_t row = 0; row < qs[0] * heads * length; ++row) {
    const std::int64_t head = row / length, at = head / heads * ks[1] + head % heads / each;
    std::vector<double> score, out(static_cast<std::size_t>(of_values));
    double most = -k_inf, total = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < width; ++i)
        sum +=
            qv[static_cast<std::size_t>(row * width + i)] * kv[static_cast<std::size_t>((at * keys + j) * width + i)];
      score.push_back(sum * scale + mask[static_cast<std::size_t>(row * keys + j)]);
      most = std::max(most, score.back());
    }
    for (double& each_score : score) {
      each_score = most == -k_inf ? 0 : std::exp(each_score - most);
      total += each_score;
    }
    for (std::int64_t j = 0; j < keys && total > 0; ++j)
      for (std::int64_t i = 0; i < of_values; ++i)
        out[static_cast<std::size_t>(i)] +=
            score[static_cast<std::size_t>(j)] / total * vv[static_cast<std::size_t>((at * keys + j) * of_values + i)];
    y.insert(y.end(), out.begin(), out.end());
  }
  return array(y, {qs[0], heads, length, of_values});
}

struct Case {
  Shape q, k, v;
  bool causal;
};

const std::vector<Case> k_cases = {
    {{2, 3, 4, 5}, {2, 3, 6, 5}, {2, 3, 6, 2}, false},
    {{2, 3, 4, 5}, {2, 3, 6, 5}, {2, 3, 6, 2}, true},
    {{2, 4, 5, 3}, {2, 2, 3, 3}, {2, 2, 3, 3}, true},
    {{1, 6, 1, 4}, {1, 1, 7, 4}, {1, 1, 7, 4}, false},
    {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, true},
};

std::vector<double> mask_of(const Case& c, const NDArray& mask) {
  const Shape scores{c.q[0], c.q[1], c.q[2], c.k[2]};
  std::vector<double> added = mask.broadcast_to(scores).copy().to_vector<double>();
  for (std::size_t i = 0; i < added.size() && c.causal; ++i) {
    const auto place = static_cast<std::int64_t>(i);
    if (place % c.k[2] > place / c.k[2] % c.q[2])
      added[i] = -k_inf;
  }
  return added;
}

Tolerance tolerance_for(DType dtype) {
  const Tolerance own = sum_tolerance(dtype);
  return {2 * own.relative, 2 * own.absolute};
}

}  // namespace

TEST_CASE("Attention agrees with plain loops for every type, with groups of heads and causal", "[attention]") {
  for (const Case& c : k_cases) {
    for (const DType dtype : k_heavy_dtypes) {
      for (const bool own_scale : {false, true}) {
        CAPTURE(to_string(c.q), to_string(c.k), c.causal, name_of(dtype), own_scale);
        const NDArray q = random_array(c.q, 1, -1, 1, dtype), k = random_array(c.k, 2, -1, 1, dtype);
        const NDArray v = random_array(c.v, 3, -1, 1, dtype);
        AttentionOptions how{.causal = c.causal};
        if (own_scale)
          how.scale = 1.5;
        const double scale = own_scale ? 1.5 : 1 / std::sqrt(static_cast<double>(c.q[3]));
        const NDArray y = scaled_dot_product_attention(q, k, v, how);
        CHECK(y.dtype() == dtype);
        CHECK(differences(y, reference(q, k, v, mask_of(c, zeros({1})), scale), tolerance_for(dtype)) == "");
      }
    }
  }
}

TEST_CASE("Attention takes masks of bools and of numbers that are added, broadcast from any axes", "[attention]") {
  for (const Case& c : k_cases) {
    for (const Shape& shape : {Shape{c.q[2], c.k[2]}, Shape{c.q[0], 1, 1, c.k[2]}, Shape{c.q[1], 1, 1}, Shape{}}) {
      CAPTURE(to_string(c.q), c.causal, to_string(shape));
      const NDArray q = random_array(c.q, 1), k = random_array(c.k, 2), v = random_array(c.v, 3);
      const NDArray numbers = random_array(shape, 4, -2, 2), counts = numbers > -1.0;
      const double scale = 1 / std::sqrt(static_cast<double>(c.q[3]));
      const NDArray added = scaled_dot_product_attention(q, k, v, {.mask = numbers, .causal = c.causal});
      CHECK(differences(added, reference(q, k, v, mask_of(c, numbers), scale)) == "");
      const NDArray hidden = where(counts, 0.0, -k_inf * ones(shape));
      const NDArray want = reference(q, k, v, mask_of(c, hidden), scale);
      for (const DType dtype : {bool_, uint8, int64}) {
        const NDArray mask = counts.astype(dtype);
        CHECK(differences(scaled_dot_product_attention(q, k, v, {.mask = mask, .causal = c.causal}), want) == "");
      }
      CHECK(differences(scaled_dot_product_attention(q, k, v, {.mask = hidden, .causal = c.causal}), want) == "");
    }
  }
}

TEST_CASE("The gradients of attention agree with finite differences, that of the mask too", "[attention]") {
  for (const Case& c : k_cases) {
    CAPTURE(to_string(c.q), to_string(c.k), c.causal);
    const std::vector<NDArray> inputs{
        random_array(c.q, 1, -1, 1, float64),
        random_array(c.k, 2, -1, 1, float64),
        random_array(c.v, 3, -1, 1, float64),
        random_array({c.q[2], c.k[2]}, 4, -1, 1, float64)};
    const auto f = [&](const auto& in) {
      return scaled_dot_product_attention(in[0], in[1], in[2], {.mask = in[3], .causal = c.causal});
    };
    CHECK(gradient_differences(f, inputs) == "");
  }
}

TEST_CASE("A query that no key counts for gives 0, and no NaN in any gradient", "[attention]") {
  for (const DType dtype : k_heavy_dtypes) {
    for (const bool added : {false, true}) {
      CAPTURE(name_of(dtype), added);
      std::vector<NDArray> in;
      for (const std::uint64_t seed : {1, 2, 3}) {
        in.push_back(random_array({1, 2, 3, 4}, seed, -1, 1, dtype));
        in.back().attach_grad();
      }
      const NDArray counts = array({1, 0, 1, 0, 0, 0, 1, 1, 1}, {3, 3}).astype(bool_);
      NDArray mask = added ? where(counts, zeros({3, 3}), -k_inf).astype(dtype) : counts, y;
      if (added)
        mask.attach_grad();
      {
        const autograd::RecordScope record;
        y = scaled_dot_product_attention(in[0], in[1], in[2], {.mask = mask});
      }
      y.backward();
      CHECK(all(y.slice(2, 1, 2) == 0).item<bool>());
      CHECK(!any(y.slice(2, 0, 1) == 0).item<bool>());
      if (added)
        in.push_back(mask);
      for (const NDArray& input : in)
        CHECK(all(isfinite(input.grad())).item<bool>());
      CHECK(all(in[0].grad().slice(2, 1, 2) == 0).item<bool>());
      CHECK(any(in[0].grad().slice(2, 0, 1) != 0).item<bool>());
    }
  }
  const NDArray q = ones({2, 4, 3, 4}), none = zeros({2, 2, 0, 4});
  CHECK(differences(scaled_dot_product_attention(q, none, none), zeros({2, 4, 3, 4})) == "");
  CHECK(
      scaled_dot_product_attention(zeros({0, 4, 3, 4}), zeros({0, 2, 5, 4}), zeros({0, 2, 5, 6})).shape() ==
      Shape{0, 4, 3, 6});
  CHECK(
      scaled_dot_product_attention(zeros({2, 4, 0, 4}), zeros({2, 2, 5, 4}), zeros({2, 2, 5, 6})).shape() ==
      Shape{2, 4, 0, 6});
}

TEST_CASE("Attention drops weights in training alone, and keeps large scores of half types finite", "[attention]") {
  const NDArray q = random_array({1, 2, 8, 4}, 1), v = ones({1, 2, 8, 4});
  const AttentionOptions how{.dropout = 0.5};
  CHECK(differences(scaled_dot_product_attention(q, q, v, how), v) == "");
  const autograd::TrainScope training;
  CHECK(differences(scaled_dot_product_attention(q, q, v, how), v) != "");
  CHECK(differences(scaled_dot_product_attention(q, q, v, {.dropout = 1}), zeros(v.shape())) == "");
  const NDArray large = full({1, 1, 2, 64}, 40, {.dtype = float16});  // products of 1e5 before the scale
  const NDArray y = scaled_dot_product_attention(large, large, large);
  CHECK(differences(y, large) == "");
}

// Scores near 290, where a step of bfloat16 is 2: rounded scores miss these bounds tenfold.
TEST_CASE("Attention of half types rounds its result alone, not scores and weights", "[attention]") {
  const Shape shape{1, 2, 16, 64};
  for (const DType dtype : {bfloat16, float16}) {
    for (const bool masked : {false, true}) {
      CAPTURE(name_of(dtype), masked);
      const NDArray q = random_array(shape, 1, 4, 8, dtype), k = random_array(shape, 2, 4, 8, dtype);
      const NDArray v = random_array(shape, 3, -1, 1, dtype);
      const NDArray mask = random_array({16, 16}, 4, -1, 1, dtype);
      const NDArray y = scaled_dot_product_attention(q, k, v, {.mask = masked ? mask : NDArray()});
      const NDArray added = (masked ? mask : zeros({1})).broadcast_to({1, 2, 16, 16}).copy();
      CHECK(y.dtype() == dtype);
      const double step = dtype == bfloat16 ? 1.0 / 256 : 1.0 / 2048;
      CHECK(differences(y, reference(q, k, v, added.to_vector<double>(), 0.125), {step, step / 16}) == "");
    }
  }
}

TEST_CASE("Attention is in graphs what it is by hand", "[attention]") {
  const NDArray q = random_array({2, 3, 8}, 1), mask = random_array({2, 1, 1, 3}, 2);
  const auto f = [](const auto& in) {
    const NDArray heads = split_heads(in[0], 4), shared = split_heads(in[0].slice(2, 0, 4), 2);
    return join_heads(scaled_dot_product_attention(heads, shared, shared, {.mask = in[1], .causal = true}));
  };
  CHECK(traced_differences(f, {q, mask}) == "");
  CHECK(differences(join_heads(split_heads(q, 4)), q) == "");
  CHECK(split_heads(zeros({0, 3, 8}), 2).shape() == Shape{0, 2, 3, 4});
}

TEST_CASE("Attention refuses what does not fit, by name and values", "[attention]") {
  const NDArray q = ones({2, 4, 3, 5}), k = ones({2, 2, 6, 5}), v = ones({2, 2, 6, 7});
  const auto attend = [](const NDArray& a, const NDArray& b, const NDArray& c, const AttentionOptions& how = {}) {
    return scaled_dot_product_attention(a, b, c, how);
  };
  CHECK(attend(q, k, v).shape() == Shape{2, 4, 3, 7});
  CHECK_THROWS_WITH(
      attend(q, ones({2, 3, 6, 5}), ones({2, 3, 6, 7})),
      contains("scaled_dot_product_attention") && contains("4 heads") && contains("(2, 3, 6, 5)"));
  CHECK_THROWS_AS(attend(q, k, ones({2, 4, 6, 7})), ShapeError);
  CHECK_THROWS_AS(attend(q, k, ones({2, 2, 5, 7})), ShapeError);
  CHECK_THROWS_AS(attend(q, ones({2, 2, 6, 4}), v), ShapeError);
  CHECK_THROWS_AS(attend(ones({1, 4, 3, 5}), k, v), ShapeError);
  CHECK_THROWS_AS(attend(q[0], k, v), ShapeError);
  CHECK_THROWS_AS(attend(q, zeros({2, 0, 6, 5}), zeros({2, 0, 6, 7})), ShapeError);
  CHECK_THROWS_AS(attend(q, k, v, {.mask = ones({4, 6})}), ShapeError);
  CHECK_THROWS_AS(attend(q, k, v, {.mask = ones({1, 2, 4, 3, 6})}), ShapeError);
  CHECK_THROWS_AS(attend(ones({2, 4, 1, 5}), k, v, {.mask = ones({3, 6})}), ShapeError);
  CHECK_THROWS_AS(attend(q, k.astype(float64), v), DTypeError);
  CHECK_THROWS_AS(attend(q.astype(int32), k.astype(int32), v.astype(int32)), DTypeError);
  CHECK_THROWS_AS(attend(q, k, v, {.dropout = 1.5}), ValueError);
  CHECK_THROWS_AS(attend(q, k, v, {.scale = k_inf}), ValueError);
  CHECK_THROWS_AS(attend(q, NDArray(), v), ValueError);
  CHECK_THROWS_AS(split_heads(ones({2, 3, 7}), 2), ShapeError);
  CHECK_THROWS_AS(split_heads(ones({2, 3, 8}), 0), ShapeError);
  CHECK_THROWS_WITH(join_heads(ones({2, 3, 8})), contains("join_heads") && contains("(2, 3, 8)"));
}
