#include <cmath>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace sluice {
namespace {

using Arrays = std::vector<NDArray>;

const Shape k_shapes[] = {{3, 4}, {}, {0, 5}, {17}, {130, 70}, {1}};

// One list of arrays, of the shapes of the parameters.
Arrays parameters(std::uint64_t seed, DType dtype, Device device, int repeat = 1) {
  Arrays made;
  for (int i = 0; i < repeat; ++i) {
    for (const Shape& shape : k_shapes)
      made.push_back(test::random_array(shape, seed++, -1, 1, dtype, device));
  }
  return made;
}

Arrays states(const Arrays& weights) {
  Arrays made;
  for (const NDArray& weight : weights)
    made.push_back(
        zeros(weight.shape(), {.dtype = weight.dtype() == float64 ? float64 : float32, .device = weight.device()}));
  return made;
}

using Numbers = std::vector<std::vector<double>>;

Numbers numbers(const Arrays& arrays) {
  Numbers made;
  for (const NDArray& array : arrays)
    made.push_back(array.to_vector<double>());
  return made;
}

double clipped(double g, double clip) {
  return clip < 0 ? g : std::min(std::max(g, -clip), clip);
}

double multiplier(const std::vector<double>& all, std::size_t i) {
  return all.empty() ? 1 : all[i];
}

void sgd_reference(Numbers& w, const Numbers& grads, Numbers& m, const SgdUpdate& o) {
  for (std::size_t p = 0; p < w.size(); ++p) {
    const double lr = o.learning_rate * multiplier(o.learning_rate_multipliers, p);
    const double wd = o.weight_decay * multiplier(o.weight_decay_multipliers, p);
    for (std::size_t i = 0; i < w[p].size(); ++i) {
      const double g = clipped(grads[p][i] * o.rescale_grad, o.clip_gradient) + wd * w[p][i];
      m[p][i] = o.momentum * m[p][i] - lr * g;
      w[p][i] += m[p][i];
    }
  }
}

void adam_reference(Numbers& w, const Numbers& grads, Numbers& m, Numbers& v, const AdamUpdate& o) {
  for (std::size_t p = 0; p < w.size(); ++p) {
    const double t = static_cast<double>(o.steps[p]);
    const double lr = o.learning_rate * multiplier(o.learning_rate_multipliers, p) *
                      std::sqrt(1 - std::pow(o.beta2, t)) / (1 - std::pow(o.beta1, t));
    const double wd = o.weight_decay * multiplier(o.weight_decay_multipliers, p);
    for (std::size_t i = 0; i < w[p].size(); ++i) {
      const double g = clipped(grads[p][i] * o.rescale_grad, o.clip_gradient) + wd * w[p][i];
      m[p][i] = o.beta1 * m[p][i] + (1 - o.beta1) * g;
      v[p][i] = o.beta2 * v[p][i] + (1 - o.beta2) * g * g;
      w[p][i] -= lr * m[p][i] / (std::sqrt(v[p][i]) + o.epsilon);
    }
  }
}

void check_weights(const Arrays& got, const Numbers& want, DType dtype) {
  for (std::size_t p = 0; p < got.size(); ++p) {
    test::Tolerance tolerance = test::tolerance_of(dtype);
    tolerance.absolute *= 8;  // several steps, each rounded to the weight's type
    INFO(dtype << " parameter " << p);
    CHECK(test::differences(got[p], array(want[p], got[p].shape()), tolerance) == "");
  }
}

const std::vector<double> k_rates = {1, 0.5, 1, 2, 1, 0}, k_decays = {0, 1, 1, 1, 3, 1};

void run_sgd(DType dtype, Device device, SgdUpdate options, bool with_momenta) {
  const Arrays weights = parameters(1, dtype, device);
  const Arrays momenta = with_momenta ? states(weights) : Arrays{};
  Numbers w = numbers(weights), m = numbers(states(weights));
  for (std::uint64_t step = 0; step < 5; ++step) {
    const Arrays grads = parameters(100 + step * 10, dtype, device);
    sgd_update(weights, grads, momenta, options);
    sgd_reference(w, numbers(grads), m, options);
  }
  check_weights(weights, w, dtype);
}

void run_adam(DType dtype, Device device, AdamUpdate options, int repeat = 1) {
  const Arrays weights = parameters(1, dtype, device, repeat), means = states(weights), variances = states(weights);
  Numbers w = numbers(weights), m = numbers(means), v = numbers(variances);
  for (std::int64_t step = 1; step <= 5; ++step) {
    options.steps.assign(weights.size(), step);
    options.steps.back() += 2;  // a parameter of its own number
    const Arrays grads = parameters(static_cast<std::uint64_t>(step) * 1000, dtype, device, repeat);
    adam_update(weights, grads, means, variances, options);
    adam_reference(w, numbers(grads), m, v, options);
  }
  check_weights(weights, w, dtype);
}

void run_all(Device device) {
  for (DType dtype : test::floating_dtypes()) {
    run_sgd(dtype, device, {.learning_rate = 0.1}, false);
    run_sgd(dtype, device, {.learning_rate = 0.1}, true);
    run_sgd(dtype, device, {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01, .rescale_grad = 0.5}, true);
    run_sgd(
        dtype,
        device,
        {.learning_rate = 0.05,
         .momentum = 0.5,
         .weight_decay = 0.1,
         .clip_gradient = 0.3,
         .learning_rate_multipliers = k_rates,
         .weight_decay_multipliers = k_decays},
        true);
    run_adam(dtype, device, {.learning_rate = 0.01});
    run_adam(
        dtype,
        device,
        {.learning_rate = 0.02,
         .beta1 = 0.8,
         .epsilon = 1e-3,
         .weight_decay = 0.1,
         .rescale_grad = 2,
         .clip_gradient = 0.5,
         .learning_rate_multipliers = k_rates,
         .weight_decay_multipliers = k_decays});
  }
  run_adam(float32, device, {}, 30);
}

TEST_CASE("SGD and Adam follow their formulas over several steps, for every type of weight") {
  run_all(cpu());
}

TEST_CASE("SGD and Adam on a GPU follow their formulas over several steps", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  run_all(gpu());
}

TEST_CASE("a step over all parameters is one task and takes weights of mixed types") {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  Arrays weights = parameters(1, float32, cpu()), grads = parameters(2, float32, cpu());
  weights.push_back(ones({5}, {.dtype = float64}));
  grads.push_back(ones({5}, {.dtype = float64}));
  weights.push_back(ones({5}, {.dtype = float16}));
  grads.push_back(ones({5}, {.dtype = float16}));
  engine.wait_all();
  const auto before = engine.counters().pushed;
  sgd_update(weights, grads, {}, {.learning_rate = 0.5});
  CHECK(engine.counters().pushed == before + 1);
  CHECK(weights[6].to_vector<double>() == std::vector<double>(5, 0.5));
  CHECK(weights[7].to_vector<double>() == std::vector<double>(5, 0.5));
  sgd_update({}, {}, {}, {});  // no parameters, no task
  CHECK(engine.counters().pushed >= before + 1);
}

TEST_CASE("a gradient with gaps is taken as it is, a weight with gaps is refused") {
  const Arrays weights = {zeros({3, 2})};
  sgd_update(weights, Arrays{array<float>({1, 2, 3, 4, 5, 6}, {2, 3}).transpose()}, {}, {.learning_rate = 1});
  CHECK(weights[0].to_vector<float>() == std::vector<float>{-1, -4, -2, -5, -3, -6});
  CHECK_THROWS_WITH(
      sgd_update(Arrays{zeros({2, 3}).transpose()}, weights, {}, {}),
      sluice::test::contains("weight 0 of shape (3, 2)"));
}

TEST_CASE("a step raises the version of the weights that a recording saved") {
  NDArray w = ones({3});
  w.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = w * w;
  }
  sgd_update(Arrays{w}, Arrays{ones({3})}, {}, {});
  CHECK_THROWS_AS(y.backward(), AutogradError);
  const autograd::RecordScope record;
  CHECK_THROWS_AS(sgd_update(Arrays{w}, Arrays{ones({3})}, {}, {}), AutogradError);
}

TEST_CASE("updates refuse what does not fit and name the parameter") {
  const Arrays w = {zeros({2}), zeros({3})}, g = {zeros({2}), zeros({3})}, m = states(w), v = states(w);
  CHECK_THROWS_AS(sgd_update(w, Arrays{g[0]}, m, {}), ValueError);
  CHECK_THROWS_AS(sgd_update(w, g, {}, {.momentum = 0.9}), ValueError);
  CHECK_THROWS_WITH(
      sgd_update(w, Arrays{g[0], g[0]}, m, {}), sluice::test::contains("sgd_update: gradient 1 has shape (2,)"));
  CHECK_THROWS_AS(sgd_update(w, Arrays{g[0], NDArray()}, m, {}), ValueError);
  CHECK_THROWS_AS(sgd_update(w, Arrays{g[0], g[1].astype(float64)}, m, {}), DTypeError);
  CHECK_THROWS_AS(sgd_update(w, g, Arrays{m[0], m[1].astype(float16)}, {.momentum = 0.9}), DTypeError);
  CHECK_THROWS_AS(sgd_update(Arrays{w[0], w[0]}, Arrays{g[0], g[0]}, {}, {}), ValueError);
  CHECK_THROWS_AS(sgd_update(w, g, m, {.learning_rate_multipliers = {1}}), ValueError);
  CHECK_THROWS_AS(sgd_update(Arrays{zeros({2}, {.dtype = int32})}, Arrays{g[0]}, {}, {}), DTypeError);
  CHECK_THROWS_AS(adam_update(w, g, m, Arrays{v[0]}, {.steps = {1, 1}}), ValueError);
  CHECK_THROWS_WITH(adam_update(w, g, m, v, {}), sluice::test::contains("adam_update: 0 steps"));
  CHECK_THROWS_WITH(adam_update(w, g, m, v, {.steps = {1, 0}}), sluice::test::contains("adam_update: step 0"));
}

TEST_CASE("updates called by name are refused as those of a program are") {
  const Arrays both = {zeros({2}), zeros({2})};
  const Operator& sgd = *find_operator("sgd_update");
  const auto with = [&](const char* text) { invoke(sgd, both, parse_attributes(sgd, text), {}); };
  CHECK_NOTHROW(with("learning_rate=0.1"));
  CHECK_THROWS_WITH(with("momentum=0.9"), sluice::test::contains("sgd_update: 0 momenta for 1 weights"));
}

TEST_CASE("the numbers of a step are the same whether its options bring an array of numbers or not") {
  SgdUpdate sgd{.learning_rate = 0.5, .rescale_grad = 2};
  AdamUpdate adam{.learning_rate = 0.5, .rescale_grad = 2, .steps = {1, 2}};
  const std::vector<double> of_sgd = update_numbers(sgd, 2), of_adam = update_numbers(adam);
  CHECK(of_sgd == std::vector<double>{0.5, 0.5, 2});
  CHECK(of_adam.size() == 3);
  sgd.numbers = adam.numbers = zeros({3}, {.dtype = float64});
  CHECK(update_numbers(sgd, 2) == of_sgd);
  CHECK(update_numbers(adam) == of_adam);
}

TEST_CASE("Adam's 1 - beta has the digits of the number that was given") {
  for (const double beta : {0.999, 0.9999, 0.999999}) {
    const Arrays w = {zeros({1})}, m = states(w), v = states(w);
    adam_update(w, Arrays{ones({1})}, m, v, {.beta1 = beta, .beta2 = beta, .steps = {1}});
    CHECK(m[0].item<double>() == Approx(1 - beta).epsilon(2e-7));
    CHECK(v[0].item<double>() == Approx(1 - beta).epsilon(2e-7));
    CHECK(w[0].item<double>() == Approx(-1e-3 / (1 + 1e-8 / std::sqrt(1 - beta))).epsilon(1e-6));
  }
}

TEST_CASE("updates refuse arrays that share some of their memory") {
  const NDArray all = zeros({10}), states = zeros({10}), grad = ones({4});
  const auto part = [](const NDArray& of, std::int64_t begin) { return of.slice(0, begin, begin + 4); };
  const Arrays overlapping = {part(all, 0), part(all, 3)}, apart = {part(all, 0), part(all, 4)};
  CHECK_THROWS_WITH(sgd_update(overlapping, Arrays{grad, grad}, {}, {}), sluice::test::contains("share memory"));
  CHECK_THROWS_AS(sgd_update(Arrays{part(all, 4), part(all, 2)}, Arrays{grad, grad}, {}, {}), ValueError);
  CHECK_THROWS_AS(
      sgd_update(apart, Arrays{grad, grad}, Arrays{part(states, 0), part(states, 1)}, {.momentum = 0.5}), ValueError);
  CHECK_THROWS_AS(sgd_update(Arrays{apart[0]}, Arrays{grad}, Arrays{part(all, 2)}, {.momentum = 0.5}), ValueError);
  // What is only read may not be written by another piece of the step either.
  CHECK_THROWS_AS(sgd_update(apart, Arrays{grad, part(all, 2)}, {}, {}), ValueError);
  CHECK_THROWS_AS(sgd_update(apart, Arrays{apart[1], grad}, {}, {}), ValueError);
  CHECK(all.to_vector<float>() == std::vector<float>(10, 0));

  sgd_update(apart, Arrays{grad, grad}, {}, {.learning_rate = 1});
  sgd_update(apart, Arrays{part(all, 0), part(all, 4)}, {}, {.learning_rate = 2});  // each its own
  CHECK(all.to_vector<float>() == std::vector<float>{1, 1, 1, 1, 1, 1, 1, 1, 0, 0});
}

}  // namespace

namespace {

// What is read of gradients with gaps must stay until the step has run, though nobody else holds it.
void check_gapped(Device device) {
  for (int round = 0; round < 30; ++round) {
    std::vector<NDArray> weights, grads;
    for (int i = 0; i < 8; ++i) {
      weights.push_back(full({24, 16}, i, {.device = device}));
      grads.push_back(full({16, 24}, 10 * round + i, {.device = device}).T());
    }
    sgd_update(weights, grads, {}, {.learning_rate = 0.5});
    const NDArray after = full({24, 16}, 7, {.device = device});  // takes what memory is free
    for (int i = 0; i < 8; ++i) {
      const float want = static_cast<float>(i) - 0.5F * static_cast<float>(10 * round + i);
      CHECK(sum(weights[static_cast<std::size_t>(i)] == want).item<std::int64_t>() == 24 * 16);
    }
    CHECK(sum(after).item<float>() == 7 * 24 * 16);
  }
}

}  // namespace

TEST_CASE("Steps take gradients with gaps that nobody else holds") {
  check_gapped(cpu());
}

TEST_CASE("Steps take gradients with gaps that nobody else holds on a GPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_gapped(gpu());
}

}  // namespace sluice
