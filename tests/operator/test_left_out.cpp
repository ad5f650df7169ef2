// What calls by name leave out is what calls of the functions of the same name leave out.
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/by_name.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Whole = std::int64_t;
using F = std::function<NDArray(const NDArray&)>;

NDArray gradient_by(const F& f, NDArray x) {
  x.attach_grad();
  const autograd::RecordScope record;
  sum(f(x) * random_array(f(x).shape(), 7)).backward();
  return x.grad();
}

}  // namespace

TEST_CASE("A call by name without an axis is that of the function without one", "[left_out]") {
  const NDArray x = random_array({3, 4, 2}, 1), labels = array<std::int32_t>({1, 0, 1}, {3}),
                logits = random_array({3, 4}, 2), along = array<std::int32_t>({1, 0, 3, 2, 0, 1}, {3, 2}),
                two = array<float>({5, 7});
  CHECK(difference(call("softmax", {x}), softmax(x)) == "");
  CHECK(difference(call("log_softmax", {x}), log_softmax(x)) == "");
  CHECK(difference(call("softmin", {x}), softmin(x)) == "");
  CHECK(difference(call("glu", {x}), glu(x)) == "");
  CHECK(difference(call("softmax_cross_entropy", {logits, labels}), softmax_cross_entropy(logits, labels)) == "");
  CHECK(difference(call("negative_log_likelihood", {logits, labels}), negative_log_likelihood(logits, labels)) == "");
  CHECK(difference(call("pick", {logits, labels}), pick(logits, labels)) == "");
  CHECK(difference(call("take_along_axis", {logits, along}), take_along_axis(logits, along)) == "");
  CHECK(difference(call("put_along_axis", {logits, along, two}), put_along_axis(logits, along, two)) == "");
  CHECK(difference(call("add_along_axis", {logits, along, two}), add_along_axis(logits, along, two)) == "");
  CHECK(difference(call("transpose", {x}), x.transpose()) == "");
  CHECK(difference(call("sort", {x}), sort(x)) == "");
  CHECK(difference(call("quantile", {x}), quantile(x, 0.5)) == "");
  CHECK(difference(call("sum", {x}), sum(x)) == "");
  const NDArray other = random_array({4, 2, 5}, 3);
  CHECK(difference(call("tensordot", {x, other}), tensordot(x, other)) == "");
  CHECK(call("tensordot", {x, other}, "axes_a=(), axes_b=()").shape() == Shape{3, 4, 2, 4, 2, 5});
  CHECK_THROWS_AS(call("tensordot", {x, along}, "axes_a=(0,)"), ShapeError);
}

TEST_CASE("Without an axis these take all elements as one row, by name too", "[left_out]") {
  struct Case {
    const char* name;
    const char* attributes;
    F function;
    std::vector<std::size_t> from;  // of elements 0, 1, 2 .. of six
  };
  const Case cases[] = {
      {"roll", "shift=2", [](const NDArray& x) { return roll(x, 2); }, {4, 5, 0, 1, 2, 3}},
      {"roll", "shift=-7", [](const NDArray& x) { return roll(x, -7); }, {1, 2, 3, 4, 5, 0}},
      {"roll",
       "shift=-9223372036854775808",  // which has no opposite; modulo 6 it is -2
       [](const NDArray& x) { return roll(x, std::numeric_limits<Whole>::min()); },
       {2, 3, 4, 5, 0, 1}},
      {"flip", "", [](const NDArray& x) { return flip(x); }, {5, 4, 3, 2, 1, 0}},
      {"repeat", "repeats=2", [](const NDArray& x) { return repeat(x, 2); }, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}},
      {"cumsum", "", [](const NDArray& x) { return cumsum(x); }, {}},
      {"cumsum", "reverse=true", [](const NDArray& x) { return cumsum(x, {}, true); }, {}},
      {"cumprod", "axis=none", [](const NDArray& x) { return cumprod(x); }, {}},
  };
  const NDArray x = random_array({2, 3}, 1), wide = random_array({3, 2}, 1).transpose();
  for (const Case& c : cases) {
    CAPTURE(c.name, c.attributes);
    const F by_name = [&](const NDArray& of) { return call(c.name, {of}, c.attributes); };
    const Function of_first = [&](const std::vector<NDArray>& of) { return by_name(of[0]); };
    CHECK(difference(by_name(x), c.function(x)) == "");
    CHECK(difference(by_name(wide), c.function(wide)) == "");
    CHECK(difference(gradient_by(by_name, x), gradient_by(c.function, x)) == "");
    CHECK(gradient_differences(of_first, {x.astype(float64)}) == "");
    const std::vector<float> elements = x.to_vector<float>(), made = by_name(x).to_vector<float>();
    for (std::size_t i = 0; i < c.from.size(); ++i)
      CHECK(made[i] == elements[c.from[i]]);
    CHECK(by_name(zeros({0, 3})).shape().size() == 0);
    CHECK(difference(by_name(full({}, 2)), c.function(full({}, 2))) == "");
  }
  CHECK(roll(x, 2).shape() == x.shape());
  CHECK(call("flip", {x}).shape() == x.shape());
  CHECK(difference(call("flip", {x}), flip(x, {0, 1})) == "");
  CHECK(call("repeat", {x}, "repeats=2").shape() == Shape{12});
  CHECK_THROWS_AS(call("linear_recurrence", {x, x}, "axis=none"), ValueError);
  CHECK_THROWS_AS(call("roll", {x}, "axis=2"), IndexError);
}

TEST_CASE("Training mode chooses the operator: called by name it is what it says, in either mode", "[left_out]") {
  const NDArray x = random_array({8, 4}, 1), one = ones({4}), q = random_array({1, 2, 8, 4}, 2);
  for (const bool training : {false, true}) {
    CAPTURE(training);
    const autograd::ModeScope mode(false, training);
    CHECK(differences(call("dropout", {x}, "rate=1"), zeros({8, 4})) == "");
    CHECK(differences(call("scaled_dot_product_attention", {q, q, q}, "dropout=1"), zeros(q.shape())) == "");
    CHECK(differences(scaled_dot_product_attention(q, q, q, {.dropout = 1}), zeros(q.shape())).empty() == training);
    const NDArray mean = full({4}, 0.5), var = full({4}, 2);
    const NDArray predicted = call("batch_norm_predict", {x, one, one, mean, var});
    CHECK(differences(predicted, (x - 0.5) / std::sqrt(2 + 1e-5) + 1) == "");
    CHECK(differences(mean, full({4}, 0.5)) == "");  // it was not written
    CHECK_THROWS_AS(call("batch_norm_predict", {x, one, one, mean, var}, "batch_stats=true"), ValueError);
    call("batch_norm", {x, one, one, mean, var});
    CHECK(differences(mean, full({4}, 0.5)) != "");
  }
}

TEST_CASE("Random numbers by name are those of the function that is told as little", "[left_out]") {
  Engine engine;
  const EngineScope scope(engine);
  const NDArray lam = array<double>({2, 30});
  using Drawn = std::function<NDArray()>;
  const std::pair<Drawn, Drawn> both[] = {
      {[] { return call("random_uniform", {}, "shape=(9,)"); }, [] { return random::uniform({9}); }},
      {[] { return call("random_normal", {}, "shape=(9,)"); }, [] { return random::normal({9}); }},
      {[] { return call("random_randint", {}, "shape=(9,), second=7"); }, [] { return random::randint(0, 7, {9}); }},
      {[] { return call("random_poisson", {}, "shape=(9,), first=4.0"); }, [] { return random::poisson(4, {9}); }},
      {[=] { return call("sample_poisson", {lam}); }, [=] { return random::poisson(lam); }},
      {[=] { return call("sample_gamma", {lam}); }, [=] { return random::gamma(lam); }},
  };
  for (const auto& [by_name, function] : both) {
    random::seed(3);
    const NDArray made = by_name();
    random::seed(3);
    CHECK(difference(made, function()) == "");
  }
}

TEST_CASE("dense_relu by name has a relu, dense none", "[left_out]") {
  const NDArray x = random_array({2, 3}, 1), weight = random_array({4, 3}, 2), bias = random_array({4}, 3);
  CHECK(difference(call("dense", {x, weight, bias}), dense(x, weight, bias)) == "");
  CHECK(difference(call("dense_relu", {x, weight, bias}), dense(x, weight, bias, {.activation = "relu"})) == "");
}

TEST_CASE("All elements as one row are on a GPU what they are on the CPU", "[left_out][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = random_array({70, 3, 11}, 1), turned = x.transpose();
  const std::vector<F> functions = {
      [](const NDArray& of) { return roll(of, 100); },
      [](const NDArray& of) { return flip(of); },
      [](const NDArray& of) { return repeat(of, 3); },
      [](const NDArray& of) { return cumsum(of.astype(int64)); },
  };
  for (const NDArray& of : {x, turned}) {
    const NDArray there = of.to(gpu());
    for (const F& f : functions)
      CHECK(difference(f(there), f(of)) == "");
  }
}
