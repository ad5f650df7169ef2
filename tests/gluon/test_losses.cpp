// The losses of elements, each beside its formula in double, with every option away from its default; those of pairs.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::gluon::loss;

namespace {

/// What labels a loss takes.
enum class Labels { any, signs, bits, shares, counts };

struct LossCase {
  std::string name;
  std::shared_ptr<gluon::Block> loss;
  std::function<double(double, double)> formula;  // of a prediction and a label
  Labels labels = Labels::any;
  double low = -3, high = 3;  // of predictions
};

double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}
double huber(double x, double rho) {
  return std::abs(x) < rho ? x * x / (2 * rho) : std::abs(x) - rho / 2;
}
double cross_entropy(double p, double y) {
  return -(y * std::log(p) + (1 - y) * std::log(1 - p));
}
double focal(double x, double y, double alpha, double gamma) {
  const double p = y == 1 ? sigmoid_of(x) : 1 - sigmoid_of(x);
  return (alpha < 0 ? 1 : y == 1 ? alpha : 1 - alpha) * std::pow(1 - p, gamma) * -std::log(p);
}
double poisson(double x, double y, bool full) {
  const double value = std::exp(x) - y * x;
  return value + (full && y > 1 ? y * std::log(y) - y + 0.5 * std::log(2 * M_PI * y) : 0);
}

template <class L, class... Options>
std::shared_ptr<gluon::Block> made(Options... options) {
  return std::make_shared<L>(options...);
}

std::vector<LossCase> cases_of_numbers() {
  return {
      {"L2", made<L2Loss>(), [](double p, double y) { return (p - y) * (p - y) / 2; }},
      {"L1", made<L1Loss>(), [](double p, double y) { return std::abs(p - y); }},
      {"L1, weight", made<L1Loss>(L1Options{3}), [](double p, double y) { return 3 * std::abs(p - y); }},
      {"Huber", made<HuberLoss>(), [](double p, double y) { return huber(p - y, 1); }},
      {"Huber, rho", made<HuberLoss>(HuberOptions{0.3, 2}), [](double p, double y) { return 2 * huber(p - y, 0.3); }},
      {"BCE",
       made<SigmoidBCELoss>(),
       [](double p, double y) { return cross_entropy(sigmoid_of(p), y); },
       Labels::shares},
      {"BCE of probabilities",
       made<SigmoidBCELoss>(SigmoidBinaryCrossEntropyOptions{true, 0.5}),
       [](double p, double y) { return cross_entropy(p, y) / 2; },
       Labels::shares,
       0.05,
       0.95},
      {"KL", made<KLDivLoss>(), [](double p, double y) { return y * (std::log(y) - p); }, Labels::shares},
      {"KL, weight",
       made<KLDivLoss>(KLDivOptions{true, -1, 4}),
       [](double p, double y) { return 4 * y * (std::log(y) - p); },
       Labels::shares},
  };
}

std::vector<LossCase> cases_of_classes() {
  using P = PoissonNLLOptions;
  return {
      {"hinge", made<HingeLoss>(), [](double p, double y) { return std::max(0.0, 1 - p * y); }, Labels::signs},
      {"hinge, margin",
       made<HingeLoss>(HingeOptions{0.5, 2}),
       [](double p, double y) { return 2 * std::max(0.0, 0.5 - p * y); },
       Labels::signs},
      {"squared hinge",
       made<SquaredHingeLoss>(HingeOptions{2, 3}),
       [](double p, double y) { return 3 * std::pow(std::max(0.0, 2 - p * y), 2); },
       Labels::signs},
      {"logistic",
       made<LogisticLoss>(),
       [](double p, double y) { return std::log1p(std::exp(-p * y)); },
       Labels::signs},
      {"logistic, binary",
       made<LogisticLoss>(LogisticOptions{LabelFormat::binary, 2}),
       [](double p, double y) { return 2 * std::log1p(std::exp(-p * (2 * y - 1))); },
       Labels::bits},
      {"Poisson", made<PoissonNLLLoss>(), [](double p, double y) { return poisson(p, y, false); }, Labels::counts},
      {"Poisson, full",
       made<PoissonNLLLoss>(P{.compute_full = true, .weight = 2}),
       [](double p, double y) { return 2 * poisson(p, y, true); },
       Labels::counts},
      {"Poisson of rates",
       made<PoissonNLLLoss>(P{.from_logits = false, .epsilon = 0.1}),
       [](double p, double y) { return p - y * std::log(p + 0.1); },
       Labels::counts,
       0.1,
       4},
      {"focal", made<FocalLoss>(), [](double p, double y) { return focal(p, y, 0.25, 2); }, Labels::bits},
      {"focal, options",
       made<FocalLoss>(FocalOptions{-1, 0.5, 3}),
       [](double p, double y) { return 3 * focal(p, y, -1, 0.5); },
       Labels::bits},
      {"focal without focus",
       made<FocalLoss>(FocalOptions{0.9, 0, 1}),
       [](double p, double y) { return focal(p, y, 0.9, 0); },
       Labels::bits},
  };
}

std::vector<LossCase> all_cases() {
  std::vector<LossCase> all = cases_of_numbers(), more = cases_of_classes();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

NDArray draw_labels(Labels of, const Shape& shape, std::uint64_t seed) {
  switch (of) {
    case Labels::signs:
      return where(random_array(shape, seed, -1, 1, float64) > 0, ones(shape, {.dtype = float64}), -1);
    case Labels::bits:
      return (random_array(shape, seed, -1, 1, float64) > 0).astype(float64);
    case Labels::shares:
      return random_array(shape, seed, 0.05, 0.95, float64);
    case Labels::counts:
      return floor(random_array(shape, seed, 0, 5, float64));
    case Labels::any:
      break;
  }
  return random_array(shape, seed, -3, 3, float64);
}

/// What an element of so many has of its sample's loss.
double share_of(const LossCase& each, std::size_t width) {
  return each.name.starts_with("KL") ? 1 : 1 / static_cast<double>(width);
}

/// The means of formula times weight over all but the first axis; divergences are sums.
std::vector<double> by_formula(
    const LossCase& each, const NDArray& predictions, const NDArray& labels, const std::vector<double>& weights = {}) {
  const auto p = predictions.to_vector<double>(), y = labels.to_vector<double>();
  const auto n = static_cast<std::size_t>(predictions.shape()[0]), width = p.size() / n;
  const double share = share_of(each, width);
  std::vector<double> means(n);
  for (std::size_t i = 0; i < p.size(); ++i)
    means[i / width] += each.formula(p[i], y[i]) * (weights.empty() ? 1 : weights[i]) * share;
  return means;
}

void check_close(const NDArray& found, const std::vector<double>& wanted, double tolerance = 1e-9) {
  const auto values = found.to_vector<double>();
  REQUIRE(values.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(i);
    CHECK(values[i] == Approx(wanted[i]).epsilon(tolerance).margin(tolerance));
  }
}

}  // namespace

TEST_CASE("Losses of elements give what their formulas give, and so do their gradients", "[gluon][loss]") {
  for (const LossCase& each : all_cases()) {
    CAPTURE(each.name);
    NDArray x = random_array({3, 5, 2}, 7, each.low, each.high, float64);
    const NDArray labels = draw_labels(each.labels, {3, 5, 2}, 11);
    x.attach_grad();
    NDArray found;
    {
      const autograd::RecordScope record;
      found = (*each.loss)(x, labels);
    }
    check_close(found, by_formula(each, x, labels));
    found.backward();
    const auto p = x.to_vector<double>(), y = labels.to_vector<double>();
    std::vector<double> slopes;
    for (std::size_t i = 0; i < p.size(); ++i)
      slopes.push_back(share_of(each, 10) * (each.formula(p[i] + 1e-6, y[i]) - each.formula(p[i] - 1e-6, y[i])) / 2e-6);
    check_close(x.grad(), slopes, 1e-6);
    // The same labels in another shape, and of samples with one element each.
    check_close((*each.loss)(x, labels.reshape({3, 10})), by_formula(each, x, labels));
    const NDArray flat = x.detach().reshape({-1});
    check_close((*each.loss)(flat, labels.reshape({-1})), by_formula(each, flat, labels.reshape({-1})));
    CHECK((*each.loss)(x[{{0, 0}}], labels[{{0, 0}}]).shape() == Shape{0});
    CHECK_THROWS_AS((*each.loss)(x, labels[0]), ShapeError);
  }
}

TEST_CASE("Weights of samples, of elements, and of the first axes alone", "[gluon][loss]") {
  const NDArray whole = random_array({3, 5, 2}, 3, 0, 2, float64);
  for (const LossCase& each : all_cases()) {
    CAPTURE(each.name);
    const NDArray x = random_array({3, 5, 2}, 7, each.low, each.high, float64),
                  labels = draw_labels(each.labels, {3, 5, 2}, 11);
    const auto check = [&](const NDArray& weights, const NDArray& as_whole) {
      check_close(
          (*each.loss)({x, labels, weights})[0],
          by_formula(each, x, labels, as_whole.broadcast_to({3, 5, 2}).contiguous().to_vector<double>()));
    };
    const NDArray first = whole.slice(1, 0, 1).slice(2, 0, 1);  // (3, 1, 1)
    check(whole, whole);
    check(first, first);
    check(first.reshape({3}), first);
    check(first.reshape({3, 1}), first);
    check(first.reshape({3, 1, 1, 1}), first);
    check(whole.slice(2, 0, 1).reshape({3, 5}), whole.slice(2, 0, 1));
    check(first.astype(float32), first.astype(float32).astype(float64));
    for (const Shape& wrong : {Shape{5}, Shape{2}, Shape{1}, Shape{}, Shape{3, 2}, Shape{3, 5, 2, 2}, Shape{1, 5, 2}}) {
      CAPTURE(wrong);
      CHECK_THROWS_AS((*each.loss)({x, labels, zeros(wrong, {.dtype = float64})}), ShapeError);
    }
    CHECK_THROWS_AS((*each.loss)({x}), ValueError);
  }
}

namespace {

/// What a loss gives for batches of several sizes, with and without weights, and its gradients.
std::vector<std::vector<double>> all_of(const LossCase& each) {
  std::vector<std::vector<double>> found;
  for (const std::int64_t n : {4, 3, 1}) {
    NDArray x = random_array({n, 6}, 5, each.low, each.high);
    const NDArray y = draw_labels(each.labels, {n, 6}, 9).astype(float32), w = random_array({n}, 6, 0, 1);
    x.attach_grad();
    for (const bool weighted : {false, true}) {
      NDArray losses;
      {
        const autograd::RecordScope record;
        losses = weighted ? (*each.loss)({x, y, w})[0] : (*each.loss)(x, y);
      }
      losses.backward();
      found.push_back(losses.to_vector<double>());
      found.push_back(x.grad().to_vector<double>());
    }
  }
  return found;
}

}  // namespace

TEST_CASE("Losses of batches of any size are hybridized what they are without", "[gluon][loss][hybrid]") {
  for (const LossCase& each : all_cases()) {
    CAPTURE(each.name);
    const auto plain = all_of(each);
    each.loss->hybridize();
    CHECK(all_of(each) == plain);
  }
}

TEST_CASE("Losses of half numbers are near those of float64", "[gluon][loss]") {
  for (const LossCase& each : all_cases()) {
    for (const DType dtype : {float16, bfloat16}) {
      CAPTURE(each.name, dtype);
      const NDArray x = random_array({4, 6}, 5, each.low, each.high, dtype),
                    y = draw_labels(each.labels, {4, 6}, 9).astype(dtype);
      const NDArray found = (*each.loss)(x, y);
      CHECK(found.dtype() == dtype);
      check_close(
          found.astype(float64),
          by_formula(each, x.astype(float64), y.astype(float64)),
          dtype == float16 ? 1e-2 : 6e-2);
    }
  }
}

TEST_CASE("Losses stay finite where probabilities and logits are extreme", "[gluon][loss]") {
  for (const DType dtype : {float32, float64, float16}) {
    CAPTURE(dtype);
    const auto check = [&](const gluon::Block& loss, std::vector<double> predictions, double limit) {
      NDArray x = array(predictions, {4}).astype(dtype);
      x.attach_grad();
      NDArray losses;
      {
        const autograd::RecordScope record;
        losses = loss(x, array<double>({0, 1, 0, 1}).astype(dtype));
      }
      losses.backward();
      const auto values = losses.to_vector<double>(), slopes = x.grad().to_vector<double>();
      for (std::size_t i = 0; i < 4; ++i) {
        CAPTURE(i);
        CHECK((values[i] >= 0 && values[i] <= limit));
        CHECK(std::abs(slopes[i]) <= 1);
      }
    };
    for (const double far : {60., 1000., 60000.}) {
      check(SigmoidBCELoss(), {far, far, -far, -far}, far);
      check(LogisticLoss({.label_format = LabelFormat::binary}), {far, far, -far, -far}, far);
      check(FocalLoss({.gamma = 0.5}), {far, far, -far, -far}, far);
    }
    // Probabilities of 0 and 1, right and wrong: no gradient comes from beyond the limit.
    check(SigmoidBCELoss({.from_sigmoid = true}), {0, 1, 1, 0}, 28);
    // NaN stays.
    CHECK(std::isnan(SigmoidBCELoss()(full({1}, NAN, {.dtype = dtype}), zeros({1}, {.dtype = dtype})).item<double>()));
  }
  // A probability of 0 in the labels of KLDivLoss, and a count of 0.
  CHECK(KLDivLoss()(full({1, 2}, -2.), array<float>({0, 1}, {1, 2})).item<double>() == Approx(2));
  CHECK(PoissonNLLLoss({.compute_full = true})(zeros({1}), zeros({1})).item<double>() == Approx(1));
  // A rate of 0, of a type in which the smallest eps is 0 itself.
  const NDArray none = zeros({1}, {.dtype = float16}), one = ones({1}, {.dtype = float16});
  CHECK(PoissonNLLLoss({.from_logits = false})(none, none).item<double>() == 0);
  CHECK(PoissonNLLLoss({.from_logits = false})(none, one).item<double>() == Approx(14 * std::log(2)).epsilon(1e-3));
}

TEST_CASE(
    "Logits of 0, where an output layer of zeros begins, have the gradient of their neighbours", "[gluon][loss]") {
  const auto slopes = [](const gluon::Block& loss, const Arrays& labels, DType dtype) {
    NDArray x = zeros({3}, {.dtype = dtype});
    x.attach_grad();
    std::vector<NDArray> inputs{x};
    inputs.insert(inputs.end(), labels.begin(), labels.end());
    NDArray losses;
    {
      const autograd::RecordScope record;
      losses = loss.call(inputs)[0];
    }
    losses.backward();
    return x.grad();
  };
  for (const DType dtype : {float32, float64, float16}) {
    const NDArray y = array<double>({0, 1, 0.5}).astype(dtype), w = ones({3}, {.dtype = dtype});
    check_close(slopes(SigmoidBCELoss(), {y}, dtype), {0.5, -0.5, 0});
    check_close(slopes(SigmoidBCELoss(), {y, w, w + 1}, dtype), {0.5, -1, -0.25});
    check_close(slopes(LogisticLoss({.label_format = LabelFormat::binary}), {y}, dtype), {0.5, -0.5, 0});
    check_close(slopes(LogisticLoss(), {y * 2 - 1}, dtype), {0.5, -0.5, 0});
  }
}

TEST_CASE("Positive terms of the binary cross entropy have weights of their own", "[gluon][loss]") {
  const NDArray x = random_array({3, 4}, 1, -3, 3, float64), y = random_array({3, 4}, 2, 0, 1, float64);
  const NDArray w = random_array({3}, 3, 0, 1, float64), positive = random_array({4}, 4, 0.5, 3, float64);
  const auto p = x.to_vector<double>(), label = y.to_vector<double>(), weight = w.to_vector<double>(),
             factor = positive.to_vector<double>();
  std::vector<double> wanted(3);
  for (std::size_t i = 0; i < 12; ++i) {
    const double q = sigmoid_of(p[i]);
    wanted[i / 4] -= weight[i / 4] * (factor[i % 4] * label[i] * std::log(q) + (1 - label[i]) * std::log(1 - q)) / 4;
  }
  check_close(SigmoidBCELoss()({x, y, w, positive})[0], wanted);
  check_close(SigmoidBCELoss({.from_sigmoid = true})({sigmoid(x), y, w, positive})[0], wanted);
  for (double& value : wanted)
    value *= 3;
  check_close(SigmoidBCELoss({.weight = 3})({x, y, w, positive})[0], wanted);
  CHECK_THROWS_AS(SigmoidBCELoss()({x, y, w, positive, w}), ValueError);
  CHECK_THROWS_AS(SigmoidBCELoss()({x, y, w, zeros({3}, {.dtype = float64})}), ShapeError);
}

TEST_CASE("Options of losses that make no sense are refused", "[gluon][loss]") {
  CHECK_THROWS_AS(HuberLoss({.rho = 0}), ValueError);
  CHECK_THROWS_AS(HuberLoss({.rho = -1}), ValueError);
  CHECK_THROWS_AS(HuberLoss({.rho = INFINITY}), ValueError);
  CHECK_THROWS_AS(FocalLoss({.alpha = 1.5}), ValueError);
  CHECK_THROWS_AS(FocalLoss({.gamma = -1}), ValueError);
  CHECK_THROWS_AS(FocalLoss({.gamma = NAN}), ValueError);
  CHECK_THROWS_AS(SDMLLoss({.smoothing_parameter = -0.1}), ValueError);
  CHECK_THROWS_AS(SDMLLoss({.smoothing_parameter = NAN}), ValueError);
}
