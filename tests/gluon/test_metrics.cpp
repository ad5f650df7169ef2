// Metrics over two batches, beside plain loops over all that these hold.
#include <cmath>
#include <functional>
#include <memory>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::gluon::metric;

namespace {

constexpr std::int64_t k_classes = 3;

/// Two batches, of 5 samples and of 2.
struct Batches {
  std::vector<NDArray> labels, predictions;

  void update(Metric& metric) const {
    for (std::size_t i = 0; i < labels.size(); ++i)
      metric.update(labels[i], predictions[i]);
  }
  std::vector<double> all(bool of_labels) const {
    std::vector<double> found;
    for (const NDArray& each : of_labels ? labels : predictions) {
      const auto values = each.to_vector<double>();
      found.insert(found.end(), values.begin(), values.end());
    }
    return found;
  }
};

Batches numbers(const Shape& rest = {4}) {
  Batches made;
  for (const std::int64_t n : {5, 2}) {
    Shape shape{n};
    for (int axis = 0; axis < rest.ndim(); ++axis)
      shape.push_back(rest[axis]);
    made.labels.push_back(random_array(shape, 10 + static_cast<std::uint64_t>(n)));
    made.predictions.push_back(random_array(shape, 20 + static_cast<std::uint64_t>(n)));
  }
  return made;
}

/// Labels of three classes, and their probabilities.
Batches classes() {
  Batches made;
  for (const std::int64_t n : {5, 2}) {
    made.labels.push_back(random_array({n}, 3 + static_cast<std::uint64_t>(n), -0.4, 2.4, int32));
    made.predictions.push_back(softmax(random_array({n, k_classes}, 7 + static_cast<std::uint64_t>(n), -2, 2)));
  }
  return made;
}

double largest_class(const std::vector<double>& p, std::size_t sample) {
  std::size_t best = 0;
  for (std::size_t c = 1; c < k_classes; ++c) {
    if (p[sample * k_classes + c] > p[sample * k_classes + best])
      best = c;
  }
  return static_cast<double>(best);
}

void check_metric(Metric&& metric, const Batches& batches, double wanted, const std::string& name) {
  CAPTURE(name);
  CHECK(std::isnan(metric.get().second));
  for (int turn = 0; turn < 2; ++turn) {
    batches.update(metric);
    CHECK(metric.get().first == name);
    CHECK(metric.name() == name);
    CHECK(metric.get().second == Approx(wanted).margin(1e-9));
    CHECK(metric.get_all() == std::vector<Figure>{metric.get()});
    metric.reset();
    CHECK(metric.count() == 0);
    CHECK(std::isnan(metric.get().second));
  }
}

}  // namespace

TEST_CASE("Metrics of errors are means over all elements of all batches", "[gluon][metric]") {
  const Batches batches = numbers();
  const auto y = batches.all(true), p = batches.all(false);
  double absolute = 0, squares = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    absolute += std::abs(y[i] - p[i]) / static_cast<double>(y.size());
    squares += (y[i] - p[i]) * (y[i] - p[i]) / static_cast<double>(y.size());
  }
  check_metric(MAE(), batches, absolute, "mae");
  check_metric(MAE("error"), batches, absolute, "error");
  check_metric(MSE(), batches, squares, "mse");
  check_metric(RMSE(), batches, std::sqrt(squares), "rmse");
  MAE count;
  batches.update(count);
  CHECK(count.count() == 28);
  CHECK_THROWS_AS(count.update(zeros({3}), zeros({4})), ShapeError);
  CHECK(count.count() == 28);
  CHECK(count.get().second == Approx(absolute));
  // Half numbers add up beyond what they can count to.
  MAE many;
  for (int i = 0; i < 3; ++i)
    many.update(zeros({4096}, {.dtype = float16}), full({4096}, 0.5, {.dtype = float16}));
  CHECK(many.get().second == 0.5);
}

TEST_CASE("Metrics of distances are means over samples", "[gluon][metric]") {
  const Batches batches = numbers({2, 3});
  const auto y = batches.all(true), p = batches.all(false);
  double euclidean = 0, manhattan = 0, cosine = 0;
  const std::size_t samples = y.size() / 3;
  for (std::size_t i = 0; i < samples; ++i) {
    double squares = 0, sizes = 0, product = 0, of_y = 0, of_p = 0;
    for (std::size_t j = 3 * i; j < 3 * i + 3; ++j) {
      squares += (y[j] - p[j]) * (y[j] - p[j]);
      sizes += std::abs(y[j] - p[j]);
      product += y[j] * p[j];
      of_y += y[j] * y[j];
      of_p += p[j] * p[j];
    }
    euclidean += std::sqrt(squares) / static_cast<double>(samples);
    manhattan += sizes / static_cast<double>(samples);
    cosine += product / std::sqrt(of_y * of_p) / static_cast<double>(samples);
  }
  check_metric(MeanPairwiseDistance(), batches, euclidean, "mpd");
  check_metric(MeanPairwiseDistance({.p = 1, .name = "far"}), batches, manhattan, "far");
  check_metric(MeanCosineSimilarity(), batches, cosine, "cos_sim");
  CHECK_THROWS_AS(MeanPairwiseDistance({.p = 0}), ValueError);
  MeanCosineSimilarity nothing;
  nothing.update(zeros({2, 3}), ones({2, 3}));
  CHECK(nothing.get().second == 0);
}

TEST_CASE("Cross entropy and perplexity leave out what is ignored", "[gluon][metric]") {
  const Batches batches = classes();
  const auto y = batches.all(true), p = batches.all(false);
  double all = 0, some = 0, counted = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double cost = -std::log(p[i * k_classes + static_cast<std::size_t>(y[i])]);
    all += cost / static_cast<double>(y.size());
    some += y[i] == 1 ? 0 : cost;
    counted += y[i] == 1 ? 0 : 1;
  }
  REQUIRE(counted < static_cast<double>(y.size()));
  check_metric(CrossEntropy(), batches, all, "cross-entropy");
  check_metric(Perplexity(), batches, std::exp(all), "perplexity");
  check_metric(CrossEntropy({.ignore_label = 1, .name = "ce"}), batches, some / counted, "ce");
  check_metric(Perplexity({.ignore_label = 1}), batches, std::exp(some / counted), "perplexity");
  Batches logits = batches, turned = batches;
  for (std::size_t i = 0; i < 2; ++i) {
    logits.predictions[i] = log(batches.predictions[i]) + 3;
    turned.predictions[i] = batches.predictions[i].T();
  }
  check_metric(CrossEntropy({.from_logits = true}), logits, all, "cross-entropy");
  check_metric(CrossEntropy({.axis = 0}), turned, all, "cross-entropy");
  // A label that is no class is ignored where it says so, an error elsewhere.
  CrossEntropy with({.ignore_label = -1}), without;
  const NDArray labels = array<std::int32_t>({-1, 0}), even = full({2, 2}, 0.5);
  with.update(labels, even);
  CHECK(with.get().second == Approx(std::log(2)));
  without.update(array<std::int32_t>({2, 0}), even);
  CHECK_THROWS_AS(without.get(), IndexError);
  CrossEntropy none({.ignore_label = 0});
  none.update(zeros({2}, {.dtype = int32}), even);
  CHECK(std::isnan(none.get().second));
  CrossEntropy certain({.eps = 1e-3});
  certain.update(array<std::int32_t>({1}), array<float>({1, 0}, {1, 2}));
  CHECK(certain.get().second == Approx(-std::log(1e-3)));
}

TEST_CASE("Pearson's correlation is that of all batches together, beside a large common part too", "[gluon][metric]") {
  const Batches batches = numbers();
  const auto y = batches.all(true), p = batches.all(false);
  double my = 0, mp = 0, yy = 0, pp = 0, yp = 0;
  const auto n = static_cast<double>(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    my += y[i] / n;
    mp += p[i] / n;
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    yy += (y[i] - my) * (y[i] - my);
    pp += (p[i] - mp) * (p[i] - mp);
    yp += (y[i] - my) * (p[i] - mp);
  }
  check_metric(PearsonCorrelation(), batches, yp / std::sqrt(yy * pp), "pearsonr");
  Batches far = batches;
  for (std::size_t i = 0; i < 2; ++i) {
    far.labels[i] = batches.labels[i].astype(float64) + 1e9;
    far.predictions[i] = batches.predictions[i].astype(float64) * 2 - 1e9;
  }
  PearsonCorrelation metric;
  far.update(metric);
  CHECK(metric.get().second == Approx(yp / std::sqrt(yy * pp)).epsilon(1e-6));
  PearsonCorrelation constant;
  constant.update(ones({4}), array<float>({1, 2, 3, 4}));
  CHECK(std::isnan(constant.get().second));
}

TEST_CASE("Labels among the best k count as right", "[gluon][metric]") {
  const Batches batches = classes();
  const auto y = batches.all(true), p = batches.all(false);
  for (const std::int64_t k : {1, 2, 3}) {
    double hits = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      int better = 0;
      for (std::size_t c = 0; c < k_classes; ++c)
        better += p[i * k_classes + c] > p[i * k_classes + static_cast<std::size_t>(y[i])] ? 1 : 0;
      hits += better < k ? 1 : 0;
    }
    check_metric(TopKAccuracy({.top_k = k}), batches, hits / static_cast<double>(y.size()), "top_k_accuracy");
  }
  TopKAccuracy first({.top_k = 2, .axis = 0, .name = "best"});
  first.update(array<std::int32_t>({2, 1}), array<float>({5, 1, 3, 2, 4, 3}, {3, 2}));
  CHECK(first.get() == Figure("best", 1));
  CHECK_THROWS_AS(TopKAccuracy({.top_k = 0}), ValueError);
  CHECK_THROWS_AS(TopKAccuracy({.top_k = 4}).update(batches.labels[0], batches.predictions[0]), ValueError);
  CHECK_THROWS_AS(TopKAccuracy().update(batches.labels[1], batches.predictions[0]), ShapeError);
}

TEST_CASE("Confusions are counted, and Matthews' coefficient and F scores follow", "[gluon][metric]") {
  const Batches batches = classes();
  const auto y = batches.all(true), p = batches.all(false);
  std::vector<std::vector<std::int64_t>> counts(k_classes, std::vector<std::int64_t>(k_classes));
  for (std::size_t i = 0; i < y.size(); ++i)
    ++counts[static_cast<std::size_t>(y[i])][static_cast<std::size_t>(largest_class(p, i))];
  double hits = 0, macro = 0, by_chance = 0, of_labels = 0, of_predictions = 0;
  for (std::size_t c = 0; c < k_classes; ++c) {
    double row = 0, column = 0;
    for (std::size_t d = 0; d < k_classes; ++d) {
      row += static_cast<double>(counts[c][d]);
      column += static_cast<double>(counts[d][c]);
    }
    hits += static_cast<double>(counts[c][c]);
    const double precision = static_cast<double>(counts[c][c]) / std::max(column, 1.),
                 recall = static_cast<double>(counts[c][c]) / std::max(row, 1.);
    macro += precision + recall == 0 ? 0 : 5 * precision * recall / (4 * precision + recall) / k_classes;
    by_chance += row * column;
    of_labels += row * row;
    of_predictions += column * column;
  }
  ConfusionMatrix matrix;
  CHECK(matrix.matrix().empty());
  batches.update(matrix);
  CHECK(matrix.matrix() == counts);
  check_metric(ConfusionMatrix(), batches, hits / 7, "confusion");
  check_metric(Fbeta({.beta = 2, .average = Average::macro}), batches, macro, "fbeta");
  check_metric(F1({.average = Average::micro}), batches, hits / 7, "f1");
  const double mcc = (hits * 7 - by_chance) / std::sqrt((49 - of_labels) * (49 - of_predictions));
  check_metric(MCC(), batches, mcc, "mcc");
  check_metric(PCC(), batches, mcc, "pcc");
  CHECK_THROWS_AS(F1().update(batches.labels[0], batches.predictions[0]), ValueError);
  CHECK_THROWS_AS(Fbeta({.beta = 0}), ValueError);
  CHECK_THROWS_AS(matrix.update(batches.labels[1], batches.predictions[0]), ShapeError);
  CHECK_THROWS_AS(matrix.update(batches.labels[1], softmax(zeros({2, 4}))), ShapeError);
  CHECK(matrix.matrix() == counts);
}

TEST_CASE("Probabilities of one class of two are taken by a threshold", "[gluon][metric]") {
  const NDArray labels = array<std::int32_t>({1, 0, 1, 1, 0, 1, 7}),
                p = array<float>({0.9f, 0.8f, 0.6f, 0.4f, 0.1f, 0.7f, 0.5f});
  const auto of = [&](Metric&& metric) {
    metric.update(labels, p);
    return metric.get().second;
  };
  // Above 0.5: right 3 of 4 and 1 of 2; the label 7 is no class. Above 0.65: 2 and 1.
  CHECK(of(BinaryAccuracy()) == Approx(4 / 6.));
  CHECK(of(BinaryAccuracy({.classes = {.threshold = 0.65}})) == Approx(3 / 6.));
  CHECK(of(F1()) == Approx(2 * 0.75 * 0.75 / 1.5));
  CHECK(of(F1({.classes = {.threshold = 0.65}})) == Approx(2 * (2 / 3.) * 0.5 / (2 / 3. + 0.5)));
  CHECK(of(MCC()) == Approx((3 * 1 - 1 * 1) / std::sqrt(4. * 4 * 2 * 2)));
  CHECK(BinaryAccuracy().name() == "binary_accuracy");
  F1 nothing;
  nothing.update(zeros({3}, {.dtype = int32}), zeros({3}));
  CHECK(nothing.get().second == 0);
  MCC same;
  same.update(ones({3}, {.dtype = int32}), ones({3}));
  CHECK(same.get().second == 0);
}

TEST_CASE("Metrics of one's own, of losses, and several at once", "[gluon][metric]") {
  const Batches batches = numbers();
  const auto largest = [](const NDArray& y, const NDArray& p) { return max(abs(y - p)); };
  auto custom = std::make_shared<Custom>("worst", largest);
  auto mae = std::make_shared<MAE>();
  Loss loss;
  loss.update(array<float>({1, 2, 6}));
  CHECK(loss.get() == Figure("loss", 3));
  Composite both({custom, std::make_shared<Composite>(std::vector<std::shared_ptr<Metric>>{mae})}, "both");
  CHECK(std::isnan(both.get().second));
  batches.update(both);
  CHECK(both.get_all() == std::vector<Figure>{custom->get(), mae->get()});
  CHECK(both.get() == Figure("both", custom->get().second));
  double wanted = 0;
  for (std::size_t i = 0; i < 2; ++i)
    wanted += max(abs(batches.labels[i] - batches.predictions[i])).item<double>() / 28;
  CHECK(custom->get().second == Approx(wanted));
  CHECK(both.count() == 28);
  CHECK(mae->count() == 28);
  CHECK(both.count() > 0);
  both.reset();
  CHECK(both.count() == 0);
  CHECK(mae->count() == 0);
  CHECK_THROWS_AS(Composite({}), ValueError);
  CHECK_THROWS_AS(Composite({mae, nullptr}), ValueError);
  CHECK_THROWS_AS(Custom("none", nullptr), ValueError);
  CHECK_THROWS_AS(
      Custom("all", [](const NDArray& y, const NDArray&) { return y; }).update(zeros({2}), zeros({2})), ShapeError);
  // What the function gives may be kept by it: it is not written.
  const NDArray kept = ones({1});
  Custom same("same", [&](const NDArray&, const NDArray&) { return kept; });
  batches.update(same);
  batches.update(same);
  CHECK(same.get().second == Approx(4 / 56.));
  CHECK(kept.item<float>() == 1);
}

TEST_CASE("Batches of nothing change no metric, and arrays that a metric keeps are its own", "[gluon][metric]") {
  const NDArray none = zeros({0, 3}), no_label = zeros({0}, {.dtype = int64});
  const auto check = [&](Metric& metric, const NDArray& no_labels, const NDArray& labels, const NDArray& predictions) {
    metric.update(labels, predictions);
    const double wanted = metric.get().second;
    metric.reset();
    metric.update(no_labels, none);
    CHECK(std::isnan(metric.get().second));
    metric.update(labels, predictions);
    metric.update(no_labels, none);
    CHECK(metric.get().second == wanted);
  };
  const NDArray x = random_array({4, 3}, 1, 0.1, 1), y = random_array({4, 3}, 2), classes = array<int>({0, 1, 2, 1});
  PearsonCorrelation pearson;
  check(pearson, none, y, x);
  MAE mae;
  check(mae, none, y, x);
  MeanCosineSimilarity cosine;
  check(cosine, none, y, x);
  CrossEntropy entropy;
  check(entropy, no_label, classes, x);
  MCC mcc;
  check(mcc, no_label, classes, x);
  TopKAccuracy top({.top_k = 2});
  check(top, no_label, classes, x);
  NDArray kept = zeros({1}, {.dtype = float64});
  Custom custom("custom", [&](const NDArray& labels, const NDArray& /*predictions*/) {
    fill(kept, static_cast<double>(labels.size()));
    return kept;
  });
  custom.update(zeros({1}), zeros({1}));
  custom.update(zeros({3}), zeros({3}));
  CHECK(custom.get().second == 1);
}

TEST_CASE("Metrics are not recorded, and name the user's line", "[gluon][metric]") {
  NDArray x = random_array({4, 3}, 1);
  x.attach_grad();
  const autograd::RecordScope record;
  MAE metric;
  metric.update(x, x * 2);
  CHECK(metric.get().second > 0);
  try {
    metric.update(zeros({2}), zeros({3}));
    FAIL("no error");
  } catch (const ShapeError& error) {
    CHECK(std::string(error.what()).find("test_metrics.cpp") != std::string::npos);
  }
}
