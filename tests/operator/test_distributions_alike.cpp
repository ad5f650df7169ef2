// Distributions, whatever draws them: the same bits on any number of workers, on CPU and GPU, in arrays that lie
// otherwise, from a state in memory and in plans.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/random/draws.h>
#include <sluice/operator/simd/random.h>

#include "tests/operator/reference.h"
#include "tests/operator/simd_targets.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace sluice {
namespace {

struct Drawn {
  const char* name;
  std::function<NDArray(const Shape&, const ArrayOptions&)> draw;
  bool integers = false;
};

std::vector<Drawn> all_drawn() {
  const auto made = [](auto f) { return [f](const Shape& shape, const ArrayOptions& o) { return f(shape, o); }; };
  return {
      {"exponential", made([](auto& s, auto& o) { return random::exponential(2, s, o); })},
      {"laplace", made([](auto& s, auto& o) { return random::laplace(1, 2, s, o); })},
      {"gumbel", made([](auto& s, auto& o) { return random::gumbel(1, 2, s, o); })},
      {"truncated_normal", made([](auto& s, auto& o) { return random::truncated_normal(0, 1, -1, 3, s, o); })},
      {"truncated tail", made([](auto& s, auto& o) { return random::truncated_normal(0, 1, 3, 30, s, o); })},
      {"gamma", made([](auto& s, auto& o) { return random::gamma(2.5, 2, s, o); })},
      {"small gamma", made([](auto& s, auto& o) { return random::gamma(0.01, 1e-30, s, o); })},
      {"beta", made([](auto& s, auto& o) { return random::beta(0.02, 3, s, o); })},
      {"small poisson", made([](auto& s, auto& o) { return random::poisson(4.5, s, o); }), true},
      {"poisson", made([](auto& s, auto& o) { return random::poisson(77.5, s, o); }), true},
      {"gamma of arrays",
       made([](auto& s, auto& o) { return random::gamma(full(s, 0.7, {.device = o.device}), o.dtype); })},
      {"categorical", made([](auto& s, auto& o) {
         const NDArray weights = exp(arange(0, 700, 1, {.device = o.device}) % 5.0).reshape({7, 100});
         return random::categorical(weights * (s.size() + 1), 40).astype(o.dtype);
       })},
      {"permutation",
       made([](auto& s, auto& o) { return random::permutation(s.size(), o.device).astype(o.dtype).reshape(s); })}};
}

std::vector<std::vector<double>> draw_all(Device device) {
  random::seed(9);
  std::vector<std::vector<double>> all;
  for (const Drawn& drawn : all_drawn()) {
    for (const DType dtype : test::all_dtypes()) {
      if (!is_floating(dtype) && (!drawn.integers || dtype == bool_))
        continue;
      for (const Shape& shape : {Shape{1}, Shape{}, Shape{3, 1001}, Shape{0, 2}})
        all.push_back(drawn.draw(shape, {.dtype = dtype, .device = device}).template to_vector<double>());
    }
  }
  return all;
}

void check_tries() {
  for (const std::int64_t n : {0, 1, 63, 64, 65, 255, 256, 257, 5001}) {
    const auto check = [&]<class Draw>(const auto& draw, const detail::DrawParameters& p) {
      random::seed(12);
      const std::vector<double> got = draw(ArrayOptions{.dtype = float64}).template to_vector<double>();
      std::int64_t other = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        detail::SubStream stream({12, 0}, static_cast<std::uint64_t>(i));
        other += static_cast<std::int64_t>(Draw::draw(p, i, stream) != got[static_cast<std::size_t>(i)]);
      }
      CAPTURE(n, p.at[0], p.at[2], p.at[3]);
      CHECK(other == 0);
    };
    // Wide, so that few try often; from 0 on, so that some try more than is done together; narrow; beside the mean.
    for (const auto& [low, high] :
         std::vector<std::pair<double, double>>{{-3, 5}, {1, 6.1}, {0, 2}, {2, 9}, {-9, -2}}) {
      check.operator()<detail::TruncatedDraw>(
          [&, low = low, high = high](const ArrayOptions& o) {
            return random::truncated_normal(1, 2, low, high, {n}, o);
          },
          {{1, 2, low, high}});
    }
    for (const double alpha : {0.5, 1.0, 2.5, 1e6}) {
      check.operator()<detail::GammaDraw>(
          [&](const ArrayOptions& o) { return random::gamma(alpha, 3, {n}, o); }, {{alpha, 3}});
    }
  }
}

}  // namespace

TEST_CASE("Drawn numbers have the same bits whatever the number of workers", "[random]") {
  std::vector<std::vector<std::vector<double>>> all;
  for (const int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    all.push_back(draw_all(cpu()));
  }
  CHECK((all[0] == all[1]));
  CHECK((all[0] == all[2]));
}

TEST_CASE("Numbers drawn some at a time are those drawn one by one, to the bit", "[random]") {
  for (const std::int64_t n : {1, 63, 64, 255, 256, 257, 3001}) {
    random::seed(12);
    const NDArray exponential = random::exponential(2, {n}, {.dtype = float64});
    const NDArray laplace = random::laplace(-1, 2, {n}, {.dtype = float64});
    const NDArray gumbel = random::gumbel(1, 3, {n}, {.dtype = float64});
    const NDArray few = random::poisson(9.5, {n}, {.dtype = float64});
    const auto check = [&]<class Draw>(const NDArray& drawn, std::uint64_t offset, const detail::DrawParameters& p) {
      const auto got = drawn.to_vector<double>();
      std::int64_t other = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        detail::SubStream stream({12, offset}, static_cast<std::uint64_t>(i));
        other += static_cast<std::int64_t>(Draw::draw(p, i, stream) != got[static_cast<std::size_t>(i)]);
      }
      CHECK(other == 0);
    };
    const auto step = static_cast<std::uint64_t>(n);
    check.operator()<detail::ExponentialDraw>(exponential, 0, {{2}});
    check.operator()<detail::LaplaceDraw>(laplace, step, {{-1, 2}});
    check.operator()<detail::GumbelDraw>(gumbel, 2 * step, {{1, 3}});
    check.operator()<detail::PoissonDraw>(few, 3 * step, {{9.5}});
  }
}

TEST_CASE("Numbers whose tries are made for some elements at once are those drawn one by one", "[random]") {
  for (const simd::Target target : test::simd_targets()) {
    const simd::TargetScope scope(target);
    check_tries();
  }
}

// Sums of what was drawn before tries were made together: streams stay those that they were.
TEST_CASE("Numbers of distributions that reject are those of earlier versions", "[random]") {
  random::seed(7);
  const ArrayOptions o{.dtype = float64};
  const auto sum_of = [](const NDArray& x) {
    double sum = 0;
    for (const double value : x.to_vector<double>())
      sum += value;
    return sum;
  };
  CHECK(sum_of(random::truncated_normal(1, 2, -3, 5, {1000}, o)) == 0x1.0c4c901031b95p+10);
  CHECK(sum_of(random::truncated_normal(1, 2, 2, 9, {1000}, o)) == 0x1.96c55dd05210ap+11);
  CHECK(sum_of(random::gamma(2.5, 3, {1000}, o)) == 0x1.dbbc2eed38cbdp+12);
  CHECK(sum_of(random::gamma(0.5, 3, {1000}, o)) == 0x1.68ef31ffe18e9p+10);
  CHECK(sum_of(random::beta(2, 3, {1000}, o)) == 0x1.8eeed23977439p+8);
  CHECK(sum_of(random::poisson(4, {1000}, o)) == 0x1.f56p+11);
  CHECK(sum_of(random::poisson(40, {1000}, o)) == 0x1.372ap+15);
}

TEST_CASE("Logarithms in vectors are those of one number, to the bit", "[random]") {
  const simd::RandomRows* const rows = simd::random_rows();
  if (rows == nullptr)
    return;
  std::vector<double> numbers;
  for (int exponent = -1022; exponent <= 1023; ++exponent) {
    for (const double mantissa : {1.0, std::nextafter(1.0, 2.0), 1.4142135623730951, 1.4142135623730954, 1.7})
      numbers.push_back(std::ldexp(mantissa, exponent));
  }
  numbers.resize(numbers.size() / simd::RandomRows::k_group * simd::RandomRows::k_group);
  std::vector<double> logarithms = numbers;
  rows->log(logarithms.data(), static_cast<std::int64_t>(logarithms.size()));
  std::size_t other = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    other += static_cast<std::size_t>(logarithms[i] != detail::exact_log(numbers[i]).value);
  CHECK(other == 0);
}

TEST_CASE("Drawn numbers on a GPU are those of the CPU, bit by bit", "[random][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const auto on_cpu = draw_all(cpu()), on_gpu = draw_all(gpu());
  REQUIRE(on_cpu.size() == on_gpu.size());
  for (std::size_t i = 0; i < on_cpu.size(); ++i) {
    INFO("array " << i);
    CHECK((on_cpu[i] == on_gpu[i]));
  }
}

TEST_CASE("An element is drawn of its index alone, and the next array of other numbers", "[random]") {
  for (const Drawn& drawn : all_drawn()) {
    if (drawn.name == std::string("categorical") || drawn.name == std::string("permutation"))
      continue;
    INFO(drawn.name);
    random::seed(10);
    const auto many = drawn.draw({1003}, ArrayOptions{.dtype = float64}).to_vector<double>(),
               next = drawn.draw({1003}, ArrayOptions{.dtype = float64}).to_vector<double>();
    random::seed(10);
    const auto few = drawn.draw({7, 3}, ArrayOptions{.dtype = float64}).to_vector<double>();
    CHECK(std::equal(few.begin(), few.end(), many.begin()));
    CHECK(many != next);
    CHECK(std::search(many.begin(), many.end(), next.begin(), next.begin() + 20) == many.end());
  }
}

namespace {

void check_states(Device device) {
  const auto state_of = [&](std::int64_t offset) { return array<std::int64_t>({5, offset}, {2}, device); };
  const std::string place = device.is_gpu() ? "gpu(0)" : "cpu(0)";
  for (const char* name : {"random_exponential", "random_gamma", "random_poisson", "random_truncated_normal"}) {
    const Operator& op = *find_operator(name);
    const Attributes attributes =
        parse_attributes(op, "shape=(4, 9), device=" + place + ", first=12.5, second=2.0, third=-1.0, fourth=15.0");
    const NDArray state = state_of(100);
    const auto draw = [&] { return invoke_one(op, {state}, attributes, {}).to_vector<double>(); };
    const auto first = draw();
    CAPTURE(name);
    CHECK(draw() == first);
    copy_into(state_of(200), state);
    CHECK(draw() != first);
    // Into an array that lies otherwise.
    copy_into(state_of(100), state);
    const NDArray strided = zeros({9, 8}, {.device = device}).T().slice(0, 0, 8, 2);
    invoke(op, {&state, 1}, attributes, {}, {&strided, 1});
    CHECK(strided.to_vector<double>() == first);
    CHECK_THROWS_AS(invoke_one(op, {ones({2}, {.device = device})}, attributes, {}), DTypeError);
  }
  const Operator& sample = *find_operator("sample_gamma");
  const NDArray alpha = full({30}, 3, {.dtype = float64, .device = device});
  const auto sampled = [&](std::int64_t offset) {
    return invoke_one(sample, {alpha, state_of(offset)}, parse_attributes(sample, ""), {}).to_vector<double>();
  };
  CHECK(sampled(1) == sampled(1));
  CHECK(sampled(1) != sampled(500));
}

// A plan draws anew in each run, what calls one by one would draw.
void check_plans(Device device) {
  const auto program = [&](const NDArray& x) {
    const NDArray y = x + random::gamma(0.5, 2, {6}, {.device = device}) +
                      random::poisson(30, {6}, {.dtype = float32, .device = device});
    return Arrays{
        y, random::permutation(50, device), random::categorical(random::exponential(1, {8}, {.device = device}), 20)};
  };
  const auto values = [](const Arrays& arrays) {
    std::vector<std::vector<double>> all;
    for (const NDArray& array : arrays)
      all.push_back(array.to_vector<double>());
    return all;
  };
  graph::Tracer tracer;
  const NDArray in = tracer.input({{6}, float32, device});
  graph::Plan plan(tracer.trace([&] { return program(in); }));
  const NDArray x = ones({6}, {.device = device});
  random::seed(11);
  std::vector<std::vector<std::vector<double>>> by_hand, planned;
  for (int i = 0; i < 3; ++i)
    by_hand.push_back(values(program(x)));
  random::seed(11);
  for (int i = 0; i < 3; ++i)
    planned.push_back(values(plan.run({&x, 1})));
  CHECK((planned == by_hand));
  CHECK((planned[0] != planned[1]));
}

}  // namespace

TEST_CASE("Distributions are drawn from a state in memory where a call brings one", "[random][reference]") {
  check_states(cpu());
}
TEST_CASE("Distributions on a GPU are drawn from a state in its memory", "[random][reference][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_states(gpu());
}

TEST_CASE("Plans draw other numbers in each run, those of calls one by one", "[random][graph]") {
  check_plans(cpu());
}
TEST_CASE("Plans on a GPU draw other numbers in each run", "[random][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_plans(gpu());
}

}  // namespace sluice
