// Connectionist temporal classification against the sum over all alignments, one by one, in double.
#include <cmath>
#include <limits>
#include <vector>

#include <sluice/operator/ctc/ctc.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr double k_infinite = std::numeric_limits<double>::infinity();

NDArray whole(const std::vector<std::int64_t>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
}
NDArray whole(const std::vector<std::int64_t>& values, const Shape& shape) {
  return array(values, shape);
}

struct Spelt {
  std::int64_t steps;
  std::vector<std::int64_t> labels;
};

// -log of the sum over every sequence of classes that spells the labels.
double cost(const std::vector<double>& probabilities, std::int64_t classes, std::int64_t blank, const Spelt& of) {
  std::int64_t ways = 1;
  for (std::int64_t t = 0; t < of.steps; ++t)
    ways *= classes;
  double total = 0;
  for (std::int64_t way = 0; way < ways; ++way) {
    double product = 1;
    std::vector<std::int64_t> spelt;
    std::int64_t rest = way, before = blank;
    for (std::int64_t t = 0; t < of.steps; ++t, rest /= classes) {
      const std::int64_t now = rest % classes;
      product *= probabilities[static_cast<std::size_t>(t * classes + now)];
      if (now != blank && now != before)
        spelt.push_back(now);
      before = now;
    }
    if (spelt == of.labels)
      total += product;
  }
  return -std::log(total);
}

// Of data (T, N, C).
NDArray reference(const NDArray& data, const std::vector<Spelt>& all, std::int64_t blank) {
  const Shape& shape = data.shape();
  const auto values = data.to_vector<double>();
  std::vector<double> costs;
  for (std::int64_t n = 0; n < shape[1]; ++n) {
    std::vector<double> probabilities;
    for (std::int64_t t = 0; t < shape[0]; ++t) {
      double sum = 0;
      const auto at = [&](std::int64_t c) {
        return std::exp(values[static_cast<std::size_t>((t * shape[1] + n) * shape[2] + c)]);
      };
      for (std::int64_t c = 0; c < shape[2]; ++c)
        sum += at(c);
      for (std::int64_t c = 0; c < shape[2]; ++c)
        probabilities.push_back(at(c) / sum);
    }
    costs.push_back(cost(probabilities, shape[2], blank, all[static_cast<std::size_t>(n)]));
  }
  return array(costs, {shape[1]});
}

// Of each kind: plain, with a repeat, empty, filling all steps, impossible, shorter than all steps.
const std::vector<Spelt> k_first = {{6, {1, 3}}, {6, {2, 2}}, {6, {}}, {3, {1, 2, 3}}, {3, {1, 1, 2}}, {1, {3}}};

NDArray lengths_of(const std::vector<Spelt>& all, bool of_labels, DType dtype) {
  std::vector<std::int64_t> lengths;
  for (const Spelt& each : all)
    lengths.push_back(of_labels ? static_cast<std::int64_t>(each.labels.size()) : each.steps);
  return whole(lengths).astype(dtype);
}

NDArray labels_of(const std::vector<Spelt>& all, std::int64_t width, std::int64_t padding, std::int64_t less) {
  std::vector<std::int64_t> labels;
  for (const Spelt& each : all) {
    for (std::int64_t i = 0; i < width; ++i) {
      const bool is_there = i < static_cast<std::int64_t>(each.labels.size());
      labels.push_back(is_there ? each.labels[static_cast<std::size_t>(i)] - less : padding);
    }
  }
  return array(labels, {static_cast<std::int64_t>(all.size()), width});
}

std::vector<Spelt> counted_from_0(std::vector<Spelt> all) {
  for (Spelt& each : all) {
    for (std::int64_t& label : each.labels)
      --label;
  }
  return all;
}

void check_costs(Device device) {
  const NDArray steps = lengths_of(k_first, false, int64).to(device);
  for (const DType dtype : k_heavy_dtypes) {
    CAPTURE(name_of(dtype));
    const NDArray data = random_array({6, 6, 4}, 1, -2, 2, dtype), x = data.to(device);
    const NDArray want = reference(data, k_first, 0);
    const NDArray padded = labels_of(k_first, 4, 0, 0).to(device), odd = labels_of(k_first, 4, 7, 0).to(device);
    CHECK(differences(ctc_loss(x, padded, {.data_lengths = steps}).to(cpu()), want, tolerance_of(dtype)) == "");
    const CtcLossOptions both{.data_lengths = steps, .label_lengths = lengths_of(k_first, true, int32).to(device)};
    CHECK(differences(ctc_loss(x, odd.astype(int8), both).to(cpu()), want, tolerance_of(dtype)) == "");
    const NDArray last = labels_of(k_first, 4, -1, 1).to(device);
    const CtcLossOptions how{.data_lengths = steps, .blank = BlankLabel::last};
    const NDArray want_last = reference(data, counted_from_0(k_first), 3);
    CHECK(differences(ctc_loss(x, last, how).to(cpu()), want_last, tolerance_of(dtype)) == "");
    CHECK(ctc_loss(x, last, how).dtype() == dtype);
  }
}

}  // namespace

TEST_CASE("ctc_loss agrees with the sum over all alignments for every type and way to give lengths", "[ctc]") {
  check_costs(cpu());
}

TEST_CASE("ctc_loss gives on a GPU the sum over all alignments", "[ctc][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_costs(gpu());
}

TEST_CASE("Labels that come again add up on a GPU, more states than a block has threads", "[ctc][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const auto gradient = [](Device device) {
    NDArray x = random_array({300, 3, 5}, 1, -2, 2).to(device), y;
    const NDArray labels = random_array({3, 140}, 2, 1, 4, int64).to(device), lengths = whole({140, 77, 0}).to(device);
    x.attach_grad();
    {
      const autograd::RecordScope record;
      y = ctc_loss(x, labels, {.data_lengths = whole({300, 200, 9}).to(device), .label_lengths = lengths});
    }
    y.backward(random_array({3}, 3, 0.5, 1.5).to(device));
    return x.grad().to(cpu());
  };
  const NDArray got = gradient(gpu());
  CHECK(differences(got, gradient(cpu()), {1e-4, 1e-4}) == "");
  CHECK(differences(gradient(gpu()), got, {0, 0}) == "");
}

TEST_CASE("A label that is no class is an error at the wait on a GPU too, and only there", "[ctc][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = zeros({3, 2, 4}).to(gpu()), lengths = whole({2, 2}).to(gpu());
  const auto run = [&](const std::vector<std::int64_t>& labels) {
    return ctc_loss(x, whole(labels, {2, 2}).to(gpu()), {.label_lengths = lengths});
  };
  const NDArray first = run({1, 4, 1, 2}), second = run({0, 1, 1, 2}), good = run({1, 3, 1, 2});
  CHECK_THROWS_AS(first.wait_to_read(), IndexError);
  CHECK_THROWS_AS(second.wait_to_read(), IndexError);
  CHECK_NOTHROW(good.wait_to_read());
}

TEST_CASE("The gradient of ctc_loss agrees with finite differences, twice", "[ctc]") {
  std::vector<Spelt> possible = k_first;
  possible.erase(possible.begin() + 4);
  const NDArray labels = labels_of(possible, 4, 0, 0), steps = lengths_of(possible, false, int64);
  const std::vector<NDArray> inputs{random_array({6, 5, 4}, 1, -2, 2, float64)};
  const auto f = [&](const auto& v) { return ctc_loss(v[0], labels, {.data_lengths = steps}); };
  CHECK(gradient_differences(f, inputs) == "");
  const auto gradient = [&](const std::vector<NDArray>& v) {
    NDArray x = v[0];
    if (!x.requires_grad()) {
      x = x.detach();
      x.attach_grad();
    }
    const autograd::RecordScope record;
    const NDArray y = f(std::vector<NDArray>{x});
    return autograd::grad(std::vector<NDArray>{y * y}, std::vector<NDArray>{x}, {}, {.create_graph = true})[0];
  };
  CHECK(gradient_differences(gradient, inputs) == "");
}

TEST_CASE("A sequence too short for its labels costs infinity, or on request nothing", "[ctc]") {
  const NDArray labels = whole({1, 1, 1, 2}, {2, 2});
  const auto gradient = [&](bool zero_infinity) {
    NDArray x = random_array({2, 2, 3}, 1);
    x.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = ctc_loss(x, labels, {.zero_infinity = zero_infinity});
    }
    y.backward();
    const auto costs = y.to_vector<double>();
    CHECK(costs[0] == (zero_infinity ? 0 : k_infinite));
    CHECK(std::isfinite(costs[1]));
    return x.grad().to_vector<double>();
  };
  const auto plain = gradient(false), zero = gradient(true);
  for (std::size_t i = 0; i < 12; ++i) {
    const bool impossible = i / 3 % 2 == 0;
    CAPTURE(i);
    CHECK(std::isnan(plain[i]) == impossible);
    CHECK((impossible ? zero[i] == 0 : zero[i] == plain[i]));
  }
}

TEST_CASE("ctc_loss of no steps, no labels and no sequences is what its definition says", "[ctc]") {
  const auto cost_of = [](const NDArray& x, const NDArray& labels, const CtcLossOptions& how = {}) {
    return ctc_loss(x, labels, how).to_vector<double>();
  };
  const NDArray two = whole({1, 0}, {2, 1});
  CHECK(cost_of(zeros({0, 2, 3}), two) == std::vector<double>{k_infinite, 0});
  CHECK(cost_of(zeros({4, 2, 3}), two, {.data_lengths = whole({0, 0})}) == std::vector<double>{k_infinite, 0});
  CHECK(cost_of(zeros({3, 0, 2}), zeros({0, 4}, {.dtype = int32})).empty());
  CHECK(cost_of(zeros({5, 1, 1}), zeros({1, 0}, {.dtype = int32}))[0] == 0);
  const NDArray x = random_array({2, 1, 3}, 1, -1, 1, float64);
  CHECK(cost_of(x, zeros({1, 0}, {.dtype = int32}))[0] == Approx(reference(x, {{2, {}}}, 0).item<double>()));
  NDArray odd = array(std::vector<double>{0, 1, NAN, 0, 1, 2}, {2, 1, 3});
  CHECK(std::isnan(cost_of(odd, whole({1}, {1, 1}))[0]));
}

TEST_CASE("ctc_loss of no steps has gradients of any order, as of no sequences and labels", "[ctc]") {
  struct Empty {
    Shape data;
    NDArray labels;
    std::vector<double> costs;
  };
  const NDArray two = whole({1, 0}, {2, 1}), none = zeros({2, 0}, {.dtype = int64});
  const Empty all[] = {
      {{0, 2, 3}, two, {k_infinite, 0}},
      {{0, 2, 3}, none, {0, 0}},
      {{0, 0, 3}, zeros({0, 2}, {.dtype = int64}), {}},
      {{4, 0, 3}, zeros({0, 2}, {.dtype = int64}), {}},
  };
  for (const Empty& c : all) {
    for (const bool zero_infinity : {false, true}) {
      for (const DType dtype : k_heavy_dtypes) {
        CAPTURE(to_string(c.data), to_string(c.labels.shape()), zero_infinity, name_of(dtype));
        NDArray x = zeros(c.data, {.dtype = dtype});
        x.attach_grad();
        const autograd::RecordScope record;
        const std::vector<NDArray> of{x}, y{ctc_loss(x, c.labels, {.zero_infinity = zero_infinity})};
        std::vector<double> costs = c.costs;
        if (zero_infinity)
          costs.assign(costs.size(), 0);
        CHECK(y[0].to_vector<double>() == costs);
        const NDArray first = autograd::grad(y, of, {}, {.create_graph = true})[0];
        CHECK(first.dtype() == dtype);
        CHECK(first.shape() == c.data);
        const std::vector<NDArray> squared{sum(first * first)};
        CHECK(autograd::grad(squared, of)[0].shape() == c.data);
      }
    }
  }
}

TEST_CASE("A label that is no class, the blank, and a length that cannot be are errors at the wait", "[ctc]") {
  const NDArray x = zeros({3, 2, 4});
  const auto run = [&](std::vector<std::int64_t> labels, CtcLossOptions how) {
    how.label_lengths = how.label_lengths.defined() ? how.label_lengths : whole({2, 2});
    ctc_loss(x, whole(labels, {2, 2}), how).wait_to_read();
  };
  CHECK_NOTHROW(run({1, 3, 1, 2}, {}));
  CHECK_THROWS_WITH(run({1, 4, 1, 2}, {}), contains("ctc_alignment") && contains("a label of sequence 0 is 4"));
  CHECK_THROWS_AS(run({1, 3, 1, 0}, {}), IndexError);
  CHECK_THROWS_AS(run({1, 3, -1, 2}, {}), IndexError);
  CHECK_NOTHROW(run({0, 2, 0, 1}, {.blank = BlankLabel::last}));
  CHECK_THROWS_AS(run({0, 3, 0, 1}, {.blank = BlankLabel::last}), IndexError);
  CHECK_THROWS_AS(run({1, 3, 1, 2}, {.label_lengths = whole({2, 3})}), IndexError);
  CHECK_THROWS_AS(run({1, 3, 1, 2}, {.label_lengths = whole({-1, 2})}), IndexError);
  CHECK_THROWS_AS(run({1, 3, 1, 2}, {.data_lengths = whole({4, 2})}), IndexError);
  CHECK_NOTHROW(run({1, 3, 1, 2}, {.data_lengths = whole({3, 2})}));
  // What lies behind a length is not looked at.
  CHECK_NOTHROW(run({1, 9, 1, 9}, {.label_lengths = whole({1, 1})}));
}

TEST_CASE("ctc_loss is in graphs what it is by hand, and refuses what does not fit", "[ctc]") {
  const NDArray labels = whole({1, 2, 2, 0}, {2, 2}), x = random_array({4, 2, 3}, 1);
  CHECK(traced_differences([](const auto& v) { return ctc_loss(v[0], v[1]); }, {x, labels}) == "");
  CHECK_THROWS_WITH(ctc_loss(x[0], labels), contains("ctc_loss") && contains("(2, 3)"));
  CHECK_THROWS_AS(ctc_loss(zeros({4, 2, 0}), labels), ShapeError);
  CHECK_THROWS_AS(ctc_loss(x, labels[0]), ShapeError);
  CHECK_THROWS_AS(ctc_loss(x, labels.slice(0, 0, 1)), ShapeError);
  CHECK_THROWS_AS(ctc_loss(x, labels.astype(float32)), DTypeError);
  CHECK_THROWS_AS(ctc_loss(x.astype(int32), labels), DTypeError);
  CHECK_THROWS_AS(ctc_loss(x, labels, {.data_lengths = whole({4})}), ShapeError);
  CHECK_THROWS_AS(ctc_loss(x, labels, {.label_lengths = ones({2})}), DTypeError);
  const Operator& op = *find_operator("ctc_loss");
  CHECK_THROWS_AS(invoke_one(op, {x}, parse_attributes(op, ""), {}), ValueError);
  CHECK_THROWS_AS(invoke_one(op, {x, labels}, parse_attributes(op, "use_data_lengths=true"), {}), ValueError);
}
