// Losses that compare samples, beside plain loops.
#include <algorithm>
#include <cmath>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::gluon::loss;

namespace {

constexpr std::int64_t k_samples = 4, k_width = 6;

NDArray draw(std::uint64_t seed, const Shape& shape = {k_samples, k_width}) {
  return random_array(shape, seed, -1, 1, float64);
}

/// f(i) of each sample, times its weight.
template <class F>
void check_samples(const NDArray& found, F f, const NDArray& weights = {}) {
  REQUIRE(found.shape() == Shape{k_samples});
  const auto values = found.to_vector<double>();
  const auto weight = weights.defined() ? weights.to_vector<double>() : std::vector<double>(k_samples, 1);
  for (std::size_t i = 0; i < k_samples; ++i) {
    CAPTURE(i);
    CHECK(values[i] == Approx(weight[i] * f(static_cast<std::int64_t>(i))).margin(1e-12));
  }
}

double distance(const NDArray& a, std::int64_t i, const NDArray& b, std::int64_t j) {
  return sum(square(a[i] - b[j])).item<double>();
}

}  // namespace

TEST_CASE("TripletLoss is the margin that the nearer one lacks", "[gluon][loss]") {
  const NDArray anchor = draw(1), positive = draw(2), negative = draw(3), weights = draw(4, {k_samples});
  const auto by_hand = [&](double margin, double weight) {
    return [&, margin, weight](std::int64_t i) {
      return weight * std::max(0., distance(anchor, i, positive, i) - distance(anchor, i, negative, i) + margin);
    };
  };
  check_samples(TripletLoss()({anchor, positive, negative})[0], by_hand(1, 1));
  const TripletLoss other({.margin = 3, .weight = 0.5});
  check_samples(other({anchor, positive, negative})[0], by_hand(3, 0.5));
  check_samples(other({anchor, positive, negative, weights})[0], by_hand(3, 0.5), weights);
  check_samples(other({anchor, positive, negative, weights.reshape({-1, 1})})[0], by_hand(3, 0.5), weights);
  check_samples(
      other({anchor.reshape({k_samples, 2, 3}), positive.reshape({k_samples, 3, 2}), negative})[0], by_hand(3, 0.5));
  CHECK_THROWS_AS(TripletLoss()({anchor, positive}), ValueError);
  CHECK_THROWS_AS(TripletLoss()({anchor, positive, negative, weights, weights}), ValueError);
  CHECK_THROWS_AS(TripletLoss()({anchor, positive, negative[0]}), ShapeError);
  CHECK_THROWS_AS(TripletLoss()({anchor, positive, negative, draw(4, {k_width})}), ShapeError);
}

TEST_CASE("CosineEmbeddingLoss draws pairs together or apart", "[gluon][loss]") {
  const NDArray a = draw(1), b = draw(2), labels = array<double>({1, -1, 1, -1}), weights = draw(4, {k_samples});
  const auto by_hand = [&](double margin, double weight) {
    return [&, margin, weight](std::int64_t i) {
      const double cosine = sum(a[i] * b[i]).item<double>() /
                            std::sqrt(sum(square(a[i])).item<double>() * sum(square(b[i])).item<double>());
      return weight * (i % 2 == 0 ? 1 - cosine : std::max(0., cosine - margin));
    };
  };
  check_samples(CosineEmbeddingLoss()({a, b, labels})[0], by_hand(0, 1));
  // All labels but 1 are alike.
  check_samples(CosineEmbeddingLoss()({a, b, array<double>({1, 0, 1, 0.5})})[0], by_hand(0, 1));
  const CosineEmbeddingLoss other({.margin = -0.5, .weight = 2});
  check_samples(other({a, b, labels})[0], by_hand(-0.5, 2));
  check_samples(other({a, b, labels.astype(int32), weights})[0], by_hand(-0.5, 2), weights);
  CHECK_THROWS_AS(other({a, b[0], labels}), ShapeError);
  CHECK_THROWS_AS(other({a, b, labels[{{0, 3}}]}), ShapeError);
  CHECK_THROWS_AS(other({a, b}), ValueError);
  // Vectors of zeros have a cosine of 0, and a gradient.
  for (const DType dtype : {float32, float64, float16}) {
    NDArray zero = zeros({2, 3}, {.dtype = dtype});
    zero.attach_grad();
    NDArray losses;
    {
      const autograd::RecordScope record;
      losses = CosineEmbeddingLoss()({zero, zeros({2, 3}, {.dtype = dtype}), array<double>({1, -1}).astype(dtype)})[0];
    }
    losses.backward();
    CHECK(losses.to_vector<double>() == std::vector<double>{1, 0});
    CHECK(zero.grad().to_vector<double>() == std::vector<double>(6, 0.));
  }
}

TEST_CASE("SDMLLoss takes each row's own for right among all of the batch", "[gluon][loss]") {
  const NDArray a = draw(1), b = draw(2), weights = draw(4, {k_samples});
  const auto by_hand = [&](double smoothing, double weight) {
    return [&, smoothing, weight](std::int64_t i) {
      double total = 0, value = 0;
      for (std::int64_t j = 0; j < k_samples; ++j)
        total += std::exp(-distance(a, i, b, j));
      for (std::int64_t j = 0; j < k_samples; ++j) {
        const double right = i == j ? 1 - smoothing : smoothing / (k_samples - 1);
        const double log_right = right == 0 ? 0 : std::log(right);
        value += right * (log_right + distance(a, i, b, j) + std::log(total));
      }
      return weight * value;
    };
  };
  check_samples(SDMLLoss()({a, b})[0], by_hand(0.3, 1));
  check_samples(SDMLLoss({.smoothing_parameter = 0, .weight = 3})({a, b})[0], by_hand(0, 3));
  check_samples(SDMLLoss({.smoothing_parameter = 1})({a, b, weights})[0], by_hand(1, 1), weights);
  CHECK_THROWS_AS(SDMLLoss()({a, draw(2, {3, k_width})}), ShapeError);
  CHECK_THROWS_AS(SDMLLoss()({draw(1, {1, 3}), draw(2, {1, 3})}), ShapeError);
  CHECK_THROWS_AS(SDMLLoss()({draw(1, {3}), draw(2, {3})}), ShapeError);
}

TEST_CASE(
    "Losses of pairs have the gradients of their formulas, twice too, and are the same hybridized", "[gluon][loss]") {
  const auto check = [](gluon::Block& loss, const Arrays& inputs, std::size_t differentiable) {
    const auto f = [&](const std::vector<NDArray>& moved) {
      std::vector<NDArray> all(inputs.begin(), inputs.end());
      std::copy(moved.begin(), moved.end(), all.begin());
      return loss.call(all)[0];
    };
    const std::vector<NDArray> moved(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(differentiable));
    CHECK(gradient_differences(f, moved) == "");
    const auto plain = f(moved).to_vector<double>();
    loss.hybridize();
    CHECK(f(moved).to_vector<double>() == plain);
    CHECK(f(moved).to_vector<double>() == plain);
  };
  TripletLoss triplet({.margin = 2});
  check(triplet, {draw(1), draw(2), draw(3)}, 3);
  CosineEmbeddingLoss cosine({.margin = -0.9});
  check(cosine, {draw(1), draw(2), array<double>({1, -1, 1, -1})}, 2);
  SDMLLoss sdml;
  check(sdml, {draw(1), draw(2)}, 2);
}
