// The steps of all optimizers, against their formulas in float64; what they read from memory; masters of half weights.
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/operator/rule_references.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace sluice {
namespace {

using test::Column;
using test::contains;
using test::Followed;
using List = std::vector<NDArray>;
using Lists = std::vector<List>;

const Shape k_shapes[] = {{3, 4}, {}, {0, 5}, {17}, {130, 70}, {1}};
const std::vector<double> k_rates = {1, 0.5, 1, 2, 1, 0}, k_decays = {0, 1, 1, 1, 3, 1};

List parameters(std::uint64_t seed, DType dtype, Device device, double low = -1) {
  List made;
  for (const Shape& shape : k_shapes)
    made.push_back(test::random_array(shape, seed++, low, 1, dtype, device));
  made[3] = test::behind_a_vector(made[3]);
  return made;
}

DType state_type(DType dtype) {
  return dtype == float64 ? float64 : float32;
}

// What begins as something else than zeros: noise.
template <class Rule>
constexpr bool k_noisy = std::is_same_v<Rule, update_rules::Sgld>;

template <class Rule>
Lists states_of(const Rule& rule, const List& weights) {
  Lists made(rule.states().size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    for (const NDArray& weight : weights) {
      const ArrayOptions there{.dtype = state_type(weight.dtype()), .device = weight.device()};
      const Shape shape = update_rules::state_shape(rule, i, weight.shape());
      made[i].push_back(
          k_noisy<Rule> ? test::random_array(shape, 7 + made[i].size(), -1, 1, there.dtype, there.device)
                        : zeros(shape, there));
    }
    made[i][0] = test::behind_a_vector(made[i][0]);
  }
  return made;
}

List masters_of(const List& weights) {
  List made;
  for (const NDArray& weight : weights) {
    if (weight.dtype() == float16 || weight.dtype() == bfloat16)
      made.push_back(zeros(weight.shape(), {.device = weight.device()}));
  }
  return made;
}

template <class Rule>
bool is_plain(const Rule&, std::size_t) {
  return false;
}
bool is_plain(const update_rules::Lars& rule, std::size_t p) {
  return !rule.plain.empty() && rule.plain[p] != 0;
}

// Whether a step may turn about because of a weight's last digit: then its reference goes on from the weights.
template <class Rule>
constexpr bool k_by_sign = std::is_same_v<Rule, update_rules::Signum>;

template <class Rule>
void follow_all(const Rule& rule, std::vector<Followed>& all, const List& grads, const UpdateOptions& o) {
  for (std::size_t p = 0; p < all.size(); ++p) {
    Followed& one = all[p];
    one.take(grads[p].to_vector<double>(), o);
    one.lr = o.learning_rate * (o.learning_rate_multipliers.empty() ? 1 : o.learning_rate_multipliers[p]);
    one.wd = o.weight_decay * (o.weight_decay_multipliers.empty() ? 1 : o.weight_decay_multipliers[p]);
    one.t = static_cast<double>(o.steps[p]);
    one.plain = is_plain(rule, p);
    follow(rule, one);
  }
}

std::vector<Followed> followed(const List& weights) {
  std::vector<Followed> all;
  for (const NDArray& weight : weights) {
    all.emplace_back(weight.to_vector<double>());
    all.back().shape = weight.shape();
  }
  return all;
}

UpdateOptions plain_options() {
  return {.learning_rate = 0.05};
}
UpdateOptions full_options() {
  UpdateOptions options{.learning_rate = 0.04, .weight_decay = 0.05, .rescale_grad = 0.7, .clip_gradient = 0.4};
  options.learning_rate_multipliers = k_rates;
  options.weight_decay_multipliers = k_decays;
  return options;
}

void take_step(UpdateOptions& options, std::int64_t step) {
  options.steps.assign(std::size(k_shapes), step);
  options.steps.back() += 2;  // a parameter of its own number
}

template <class Rule>
void run(const Rule& rule, DType dtype, Device device, UpdateOptions options, bool by_reference) {
  const List weights = parameters(1, dtype, device);
  const Lists states = states_of(rule, weights);
  std::vector<Followed> wanted = followed(weights);
  for (std::size_t p = 0; k_noisy<Rule> && p < weights.size(); ++p)
    wanted[p].a = states[0][p].to_vector<double>();
  for (std::int64_t step = 1; step <= 4; ++step) {
    take_step(options, step);
    const List grads = parameters(100 + static_cast<std::uint64_t>(step) * 10, dtype, device, 0.1);
    for (std::size_t p = 0; k_by_sign<Rule> && p < weights.size(); ++p)
      wanted[p].w = weights[p].to_vector<double>();
    UpdateOptions given = options;
    if (by_reference) {
      const auto numbers = update_numbers(rule, options, weights.size());
      given.numbers = array(numbers, {std::ssize(numbers)}, device);
      given.learning_rate = given.rescale_grad = 77;  // not looked at
      given.steps = {};
    }
    optimizer_update(rule, weights, grads, states, given);
    follow_all(rule, wanted, grads, options);
  }
  for (std::size_t p = 0; p < weights.size(); ++p) {
    test::Tolerance tolerance = test::tolerance_of(dtype);
    tolerance.absolute *= 8;  // several steps, each rounded to the weight's type
    INFO(dtype << " parameter " << p);
    CHECK(test::differences(weights[p], array(wanted[p].w, weights[p].shape()), tolerance) == "");
  }
}

void run_all(Device device) {
  for (const DType dtype : test::floating_dtypes()) {
    test::each_rule([&](const char* name, const auto& rule) {
      INFO(name);
      run(rule, dtype, device, plain_options(), false);
      run(rule, dtype, device, full_options(), true);
    });
  }
}

/// All bits of weights and states after three steps.
template <class Rule>
std::vector<Column> trail(const Rule& rule, DType dtype, UpdateOptions options, bool masters = false) {
  const List weights = parameters(1, dtype, cpu());
  const Lists states = states_of(rule, weights);
  if (masters)
    options.masters = masters_of(weights);
  for (std::int64_t step = 1; step <= 3; ++step) {
    take_step(options, step);
    optimizer_update(rule, weights, parameters(static_cast<std::uint64_t>(step) * 50, dtype, cpu()), states, options);
  }
  std::vector<Column> all;
  for (const List& list : states) {
    for (const NDArray& state : list)
      all.push_back(state.to_vector<double>());
  }
  for (const NDArray& weight : weights)
    all.push_back(weight.to_vector<double>());
  return all;
}

}  // namespace

TEST_CASE("Every optimizer follows its formula over several steps, for every type of weight", "[update]") {
  run_all(cpu());
}

TEST_CASE("Every optimizer on a GPU follows its formula", "[update][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  run_all(gpu());
}

TEST_CASE("Steps leave the same bits whatever the number of workers", "[update]") {
  test::each_rule([&](const char* name, const auto& rule) {
    INFO(name);
    for (const DType dtype : {float32, float16}) {
      std::vector<std::vector<Column>> all;
      for (const int workers : {1, 2, 4}) {
        Engine engine({.workers = workers});
        const EngineScope scope(engine);
        all.push_back(trail(rule, dtype, full_options(), dtype == float16));
      }
      CHECK(all[0] == all[1]);
      CHECK(all[0] == all[2]);
    }
  });
}

TEST_CASE("Numbers by reference leave the very bits of numbers by value", "[update]") {
  const auto last = [](const auto& rule, bool by_reference) {
    UpdateOptions options = full_options();
    take_step(options, 3);
    const List weights = parameters(1, float32, cpu());
    const Lists states = states_of(rule, weights);
    if (by_reference) {
      const auto numbers = update_numbers(rule, options, weights.size());
      options.numbers = array(numbers, {std::ssize(numbers)});
    }
    optimizer_update(rule, weights, parameters(9, float32, cpu()), states, options);
    std::vector<Column> all;
    for (const NDArray& weight : weights)
      all.push_back(weight.to_vector<double>());
    return all;
  };
  test::each_rule([&](const char* name, const auto& rule) {
    INFO(name);
    CHECK(last(rule, true) == last(rule, false));
  });
}

namespace {

void check_zero_norms(Device device) {
  const ArrayOptions there{.device = device};
  for (const bool no_weight : {true, false}) {
    const List w = {full({5}, no_weight ? 0 : 2, there)}, g = {full({5}, no_weight ? 1 : 0, there)};
    optimizer_update(
        update_rules::Lars{.momentum = 0, .eta = 0.001},
        w,
        g,
        states_of(update_rules::Lars{}, w),
        {.learning_rate = 0.5});
    CHECK(w[0].to_vector<float>() == std::vector<float>(5, no_weight ? -0.5F : 2.0F));
    const List v = {full({5}, no_weight ? 0 : 2, there)};
    optimizer_update(
        update_rules::Lamb{.epsilon = 0.5, .bias_correction = false},
        v,
        g,
        states_of(update_rules::Lamb{}, v),
        {.learning_rate = 0.5, .steps = {1}});
    const double direction = no_weight ? 0.1 / (std::sqrt(0.001) + 0.5) : 0;  // the ratio is 1
    CHECK(v[0][0].item<double>() == Approx((no_weight ? 0 : 2) - 0.5 * direction));
  }
  // A norm that is cut to 0 is one; it is |w| = 4 otherwise.
  for (const double bound : {0.0, -1.0}) {
    const List w = {full({4}, 2, there)}, g = {ones({4}, there)};
    const update_rules::Lamb cut{.epsilon = 0.5, .upper_bound = bound, .bias_correction = false};
    optimizer_update(cut, w, g, states_of(cut, w), {.learning_rate = 0.5, .steps = {1}});
    const double step = 0.1 / (std::sqrt(0.001) + 0.5), ratio = bound == 0 ? 1 : 4 / (2 * step);
    CHECK(w[0][0].item<double>() == Approx(2 - 0.5 * ratio * step));
  }
}

// Steps too small for the weight's type are not lost: they add up in the master.
template <DType dtype>
void check_masters(Device device) {
  const ArrayOptions there{.dtype = dtype, .device = device};
  const List plain = {ones({700}, there)}, with = {ones({700}, there), ones({3}, {.device = device})};
  const List master = {zeros({700}, {.device = device})};
  const List grad = {ones({700}, there)}, grads = {ones({700}, there), ones({3}, {.device = device})};
  for (int step = 0; step < 64; ++step) {
    sgd_update(plain, grad, {}, {.learning_rate = 0x1p-12});
    sgd_update(with, grads, {}, {.learning_rate = 0x1p-12, .masters = master});
  }
  CHECK(plain[0].to_vector<float>() == std::vector<float>(700, 1));  // each step rounds back
  CHECK(master[0].to_vector<float>() == std::vector<float>(700, 1 - 0x1p-6F));
  CHECK(with[0].to_vector<float>() == std::vector<float>(700, 1 - 0x1p-6F));
  CHECK(with[1].to_vector<float>() == std::vector<float>(3, 1 - 0x1p-6F));
  // Who writes the weight is right, as after load_parameters().
  for (const float written : {2.0F, 0.5F, -0.5F}) {  // more than the master, and less
    fill(with[0], written);
    sgd_update(with, grads, {}, {.learning_rate = 0x1p-12, .masters = master});
    CHECK(master[0].to_vector<float>() == std::vector<float>(700, written - 0x1p-12F));
  }
  fill(with[0], 2);
  sgd_update(with, grads, {}, {.learning_rate = 0x1p-12, .masters = master});
  CHECK(with[0].to_vector<float>() == std::vector<float>(700, 2));
}

}  // namespace

TEST_CASE("Trust ratios are 1 where a norm is zero", "[update]") {
  check_zero_norms(cpu());
}
TEST_CASE("Trust ratios on a GPU are 1 where a norm is zero", "[update][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_zero_norms(gpu());
}

TEST_CASE("A weight of a half type with a master keeps steps that its own digits would lose", "[update]") {
  check_masters<float16>(cpu());
  check_masters<bfloat16>(cpu());
}
TEST_CASE("A half weight on a GPU with a master keeps small steps", "[update][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_masters<float16>(gpu());
  check_masters<bfloat16>(gpu());
}

TEST_CASE("Many parameters of mixed types step in one task", "[update]") {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  List w, g;
  for (int i = 0; i < 130; ++i) {
    const DType dtype = i % 3 == 0 ? float16 : i % 3 == 1 ? float32 : float64;
    w.push_back(full({i % 7 + 1}, i % 5 + 1, {.dtype = dtype}));
    g.push_back(full({i % 7 + 1}, 1, {.dtype = dtype}));
  }
  const update_rules::Lars rule{.momentum = 0, .eta = 0.5, .epsilon = 0};
  const Lists states = states_of(rule, w);
  engine.wait_all();
  const auto before = engine.counters().pushed;
  optimizer_update(rule, w, g, states, {.learning_rate = 0.5});
  CHECK(engine.counters().pushed == before + 1);
  for (int i = 0; i < 130; ++i) {
    const double value = i % 5 + 1;  // |w| / |g|
    CHECK(w[static_cast<std::size_t>(i)][0].item<double>() == Approx(value - 0.25 * value).epsilon(1e-3));
  }
}

TEST_CASE("Steps of further optimizers refuse what does not fit and name it", "[update]") {
  using namespace update_rules;
  const List w = {zeros({2}), zeros({3})}, g = {zeros({2}), zeros({3})};
  const Lists one = states_of(Nag{}, w), two = states_of(AdaDelta{}, w), none;
  const UpdateOptions steps{.steps = {1, 1}};
  CHECK_THROWS_WITH(
      optimizer_update(Nag{}, w, g, none, {}), contains("nag_update: 0 lists of states, the rule keeps 1"));
  CHECK_THROWS_WITH(
      optimizer_update(AdaDelta{}, w, g, Lists{one[0], {one[0][0]}}, {}),
      contains("adadelta_update: 1 states 'delta'"));
  CHECK_THROWS_WITH(optimizer_update(AdamW{}, w, g, two, {}), contains("adamw_update: 0 steps for 2 weights"));
  CHECK_THROWS_WITH(optimizer_update(Lamb{}, w, g, two, {.steps = {1, 0}}), contains("lamb_update: step 0"));
  CHECK_THROWS_WITH(optimizer_update(Ftrl{}, w, List{g[0]}, two, {}), contains("ftrl_update: 1 gradients for 2"));
  CHECK_THROWS_WITH(optimizer_update(AdaGrad{}, w, List{g[0], g[0]}, one, {}), contains("gradient 1 has shape (2,)"));
  CHECK_THROWS_WITH(optimizer_update(Sgld{}, w, g, none, {}), contains("sgld_update: 0 lists of states"));
  CHECK_THROWS_WITH(optimizer_update(Sgld{}, w, g, Lists{w}, {}), contains("sgld_update: noise shares memory"));
  CHECK_NOTHROW(optimizer_update(Sgld{}, w, g, Lists{{g[0], g[1]}}, {}));
  CHECK_THROWS_WITH(optimizer_update(Nadam{}, w, g, two, {}), contains("nadam_update: 0 steps for 2 weights"));
  CHECK_THROWS_WITH(optimizer_update(Lars{.plain = {1}}, w, g, one, {}), contains("1 flags of plain parameters"));
  UpdateOptions wrong{.numbers = zeros({3}, {.dtype = float64})};  // three of each parameter
  CHECK_THROWS_WITH(
      optimizer_update(AdamW{}, w, g, two, wrong), contains("numbers of shape (3,), for 2 parameters (7,)"));
  wrong = {.guard = zeros({2}, {.dtype = float64})};
  CHECK_THROWS_WITH(optimizer_update(Nag{}, w, g, one, wrong), contains("guard of shape (2,), not (3,)"));
  wrong = {.guard = zeros({3})};
  CHECK_THROWS_AS(optimizer_update(Nag{}, w, g, one, wrong), DTypeError);

  const List h = {zeros({2}, {.dtype = float16}), zeros({3})}, hg = {zeros({2}, {.dtype = float16}), zeros({3})};
  const auto with = [&](const List& masters) { optimizer_update(Sgd{}, h, hg, none, {.masters = masters}); };
  CHECK_NOTHROW(with({zeros({2})}));
  CHECK_THROWS_WITH(with({zeros({2}), zeros({3})}), contains("2 masters for 1 weights of half types"));
  CHECK_THROWS_WITH(with({zeros({3})}), contains("master 0 has shape (3,)"));
  CHECK_THROWS_AS(with({zeros({2}, {.dtype = float16})}), DTypeError);
  CHECK_THROWS_WITH(with({zeros({4}).slice(0, 0, 4, 2)}), contains("master 0 of shape (2,) is not contiguous"));
  const NDArray shared = zeros({4});
  CHECK_THROWS_WITH(
      optimizer_update(Sgd{}, List{h[0], shared.slice(0, 1, 4)}, hg, none, {.masters = {shared.slice(0, 0, 2)}}),
      contains("share memory"));
}

TEST_CASE("A rate of 0 and gradients that are no numbers do what their rules say", "[update][special]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const List w = {ones({3})}, g = {array<float>({1, 0, static_cast<float>(nan)})};
  const Lists ftrl = states_of(update_rules::Ftrl{}, w);
  optimizer_update(update_rules::Ftrl{}, w, g, ftrl, {.learning_rate = 0});
  CHECK(w[0].to_vector<float>() == std::vector<float>{1, 1, 1});
  CHECK(ftrl[1][0].to_vector<float>() == std::vector<float>{0, 0, 0});
  // At a rate of 0 Ftml stays, and so does Adamax where no gradient was.
  const List v1 = {ones({2})}, v2 = {ones({2})}, some = {array<float>({1, 0})};
  const Lists ftml = states_of(update_rules::Ftml{}, v1), adamax = states_of(update_rules::Adamax{}, v2);
  optimizer_update(update_rules::Ftml{}, v1, some, ftml, {.learning_rate = 0, .steps = {1}});
  CHECK(v1[0].to_vector<float>() == std::vector<float>{1, 1});
  for (const List& state : ftml)
    CHECK(state[0].to_vector<float>() == std::vector<float>{0, 0});
  optimizer_update(update_rules::Ftml{.epsilon = 0}, v1, some, ftml, {.learning_rate = 0.5, .steps = {1}});
  CHECK((v1[0][0].item<float>() < 1 && v1[0][1].item<float>() == 1));
  optimizer_update(update_rules::Adamax{}, v2, some, adamax, {.learning_rate = 0.5, .steps = {1}});
  CHECK(v2[0].to_vector<float>() == std::vector<float>{0.5, 1});
  optimizer_update(update_rules::Signum{.momentum = 0}, w, g, Lists{}, {.learning_rate = 0.5});
  const auto after = w[0].to_vector<float>();
  CHECK((after[0] == 0.5F && after[1] == 1 && std::isnan(after[2])));
  // Gradients that never change: their variance about the mean is none, however it rounds.
  const update_rules::RmsProp centered{.rho = 0.9, .epsilon = 1, .centered = true};
  const List v = {zeros({64})};
  const Lists states = states_of(centered, v);
  for (int i = 0; i < 400; ++i)
    optimizer_update(centered, v, List{full({64}, 5.7)}, states, {.learning_rate = 1e-3});  // below 0 in most steps
  CHECK(v[0][0].item<double>() == Approx(-0.4 * 5.7).epsilon(0.1));
}

}  // namespace sluice
