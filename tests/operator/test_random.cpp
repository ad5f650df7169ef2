#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/random/draw.h>
#include <sluice/operator/random/philox.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

namespace sluice {
namespace {

std::vector<std::uint32_t> philox_words(detail::PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  const detail::PhiloxBlock block = detail::philox(counter, key0, key1);
  return {block.word, block.word + 4};
}

TEST_CASE("Random bits modulo a range are what a division leaves", "[random]") {
  constexpr std::uint64_t k_most = ~std::uint64_t{0};
  std::vector<std::uint64_t> numbers{0, 1, 2, 3, 5, 7, 10, 641, 1000, k_most, k_most - 1, k_most / 3, 6700417};
  for (int bit = 2; bit < 64; ++bit) {
    for (const int beside : {-1, 0, 1})
      numbers.push_back((std::uint64_t{1} << bit) + static_cast<std::uint64_t>(beside));
  }
  int other = 0;
  for (const std::uint64_t range : numbers) {
    if (range == 0)
      continue;
    const detail::IntegerDraw<std::int64_t> draw(0, static_cast<std::int64_t>(range));
    for (const std::uint64_t bits : numbers) {
      for (const std::uint64_t near : {bits, bits - bits % range, bits - bits % range - 1, bits * 0x9E3779B97F4A7C15u})
        other += static_cast<int>(draw.rest(near) != near % range);
    }
  }
  CHECK(other == 0);
}

TEST_CASE("Philox4x32-10 gives the known answers of Random123") {
  using Words = std::vector<std::uint32_t>;
  CHECK(philox_words({{0, 0, 0, 0}}, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t all = 0xffffffff;
  CHECK(philox_words({{all, all, all, all}}, all, all) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(
      philox_words({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0) ==
      Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

struct Moments {
  double mean = 0;
  double variance = 0;
};

Moments moments_of(const std::vector<double>& values) {
  Moments m;
  for (double value : values)
    m.mean += value / static_cast<double>(values.size());
  for (double value : values)
    m.variance += (value - m.mean) * (value - m.mean) / static_cast<double>(values.size());
  return m;
}

TEST_CASE("uniform numbers fill their range evenly, for every floating type") {
  for (DType dtype : test::floating_dtypes()) {
    random::seed(1);
    const int n = 200001;
    const auto values = random::uniform(-3, 5, {n}, {.dtype = dtype}).to_vector<double>();
    INFO(dtype);
    CHECK(*std::min_element(values.begin(), values.end()) >= -3);
    CHECK(*std::max_element(values.begin(), values.end()) < 5);
    const Moments m = moments_of(values);
    CHECK(std::abs(m.mean - 1) < 5 * 2.31 / std::sqrt(n) + (dtype == bfloat16 ? 0.01 : 0));
    CHECK(m.variance == Approx(64.0 / 12).epsilon(0.02));
    std::vector<int> bins(16);
    for (double value : values)
      ++bins[static_cast<std::size_t>((value + 3) * 2)];
    for (int count : bins)
      CHECK(std::abs(count - n / 16) < 6 * std::sqrt(n / 16.0) + (dtype == bfloat16 ? n / 16 * 0.05 : 0));
  }
}

// What rounds to the open end becomes the number before it, not the first one.
void check_ends(Device device) {
  for (const DType dtype : test::floating_dtypes()) {
    random::seed(4);
    const ArrayOptions options{.dtype = dtype, .device = device};
    const double last = dtype == bfloat16 ? 1 - 0x1p-8 : dtype == float16 ? 1 - 0x1p-11 : 1;
    const int n = 300007;
    const auto values = random::uniform({n}, options).to_vector<double>();
    INFO(dtype);
    CHECK(std::count(values.begin(), values.end(), 0.0) <= 2);
    CHECK(std::count_if(values.begin(), values.end(), [&](double x) { return x >= last - 0x1p-12; }) > 0);
    CHECK(*std::max_element(values.begin(), values.end()) < 1);
    const double most = dtype == float16 ? 65504 : dtype == float64 ? 1.7e308 : 3e38;
    const NDArray wide = random::uniform(-most, most, {n}, options);
    const Moments m = moments_of((wide.astype(float64) / most).to_vector<double>());
    CHECK(std::abs(m.mean) < 0.01);
    CHECK(m.variance == Approx(1.0 / 3).epsilon(0.01));
    CHECK(max(wide).item<double>() < most);
    // Ends that no number before them is near, and a range of one number.
    CHECK(max(random::uniform(-1, 0, {n}, options)).item<double>() < 0);
    CHECK(max(random::uniform(-4, -2, {n}, options)).item<double>() < -2);
    const NDArray one = random::uniform(3, 3, {64}, options);
    CHECK((min(one).item<double>() == 3 && max(one).item<double>() == 3));
  }
  // Sixteen numbers, each as likely: the last one takes what rounds to the end.
  const NDArray few = random::uniform(1e6, 1e6 + 1, {320000}, {.dtype = float32, .device = device});
  const auto values = few.to_vector<double>();
  CHECK(std::count(values.begin(), values.end(), 1e6) < 320000 / 32 * 1.1);
}

TEST_CASE("uniform numbers do not pile up at the first one, and ranges may be wider than their type") {
  check_ends(cpu());
}

TEST_CASE("uniform numbers on a GPU do not pile up either", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_ends(gpu());
}

TEST_CASE("normal numbers have the moments and tails of their distribution") {
  for (DType dtype : {float32, float64, float16}) {
    random::seed(2);
    const int n = 300000;
    auto values = random::normal(2, 3, {n}, {.dtype = dtype}).to_vector<double>();
    const Moments m = moments_of(values);
    CHECK(std::abs(m.mean - 2) < 5 * 3 / std::sqrt(n));
    CHECK(m.variance == Approx(9).epsilon(0.015));
    double skew = 0, beyond = 0;
    for (double value : values) {
      const double z = (value - 2) / 3;
      skew += z * z * z / n;
      beyond += std::abs(z) > 2;
    }
    CHECK(std::abs(skew) < 0.05);
    CHECK(beyond / n == Approx(0.0455).epsilon(0.05));
    // Neighbours are not correlated: each pair comes from one block.
    double together = 0;
    for (std::size_t i = 0; i + 1 < values.size(); i += 2)
      together += (values[i] - 2) * (values[i + 1] - 2) / 9 / (n / 2.0);
    CHECK(std::abs(together) < 5 / std::sqrt(n / 2.0));
  }
}

TEST_CASE("random integers and events have their frequencies") {
  random::seed(3);
  for (DType dtype : {uint8, int8, int32, int64, int16, uint16, uint32, uint64}) {
    std::map<std::int64_t, int> counts;
    const NDArray x = random::randint(3, 8, {50000}, {.dtype = dtype});
    CHECK(x.dtype() == dtype);
    for (std::int64_t value : x.to_vector<std::int64_t>())
      ++counts[value];
    REQUIRE(counts.size() == 5);
    for (const auto& [value, count] : counts) {
      CHECK((value >= 3 && value < 8));
      CHECK(std::abs(count - 10000) < 500);
    }
  }
  const auto wide = random::randint(INT64_MIN, INT64_MAX, {1000}).to_vector<std::int64_t>();
  CHECK(std::count_if(wide.begin(), wide.end(), [](std::int64_t v) { return v < 0; }) > 400);
  for (DType dtype : test::all_dtypes()) {
    const NDArray x = random::bernoulli(0.3, {40000}, {.dtype = dtype});
    CHECK(x.dtype() == dtype);
    CHECK(std::abs(sum(x.astype(float64)).item<double>() - 12000) < 500);
  }
  CHECK(sum(random::bernoulli(1, {1000})).item<float>() == 1000);
  CHECK(sum(random::bernoulli(0, {1000})).item<float>() == 0);
}

TEST_CASE("the same seed gives the same numbers on any number of workers, and the next array others") {
  std::vector<std::vector<double>> firsts, seconds;
  for (int workers : {1, 2, 5}) {
    Engine engine({.workers = workers, .seed = 42});
    const EngineScope scope(engine);
    firsts.push_back(random::normal(0, 1, {30003}).to_vector<double>());
    seconds.push_back(random::normal(0, 1, {30003}).to_vector<double>());
    random::seed(42);
    CHECK(random::normal(0, 1, {30003}).to_vector<double>() == firsts.back());
  }
  CHECK(firsts[0] == firsts[1]);
  CHECK(firsts[0] == firsts[2]);
  CHECK(firsts[0] != seconds[0]);
  CHECK(seconds[0] == seconds[2]);
}

TEST_CASE("an element depends on its index alone") {
  random::seed(4);
  const auto many = random::uniform(0, 1, {1003}).to_vector<float>();
  random::seed(4);
  const auto few = random::uniform(0, 1, {7, 3}).to_vector<float>();
  CHECK(std::equal(few.begin(), few.end(), many.begin()));
}

TEST_CASE("permutation orders each number once, all orders alike") {
  random::seed(5);
  auto values = random::permutation(1000).to_vector<std::int64_t>();
  CHECK_FALSE(std::is_sorted(values.begin(), values.end()));
  std::sort(values.begin(), values.end());
  std::vector<std::int64_t> want(1000);
  std::iota(want.begin(), want.end(), 0);
  CHECK(values == want);
  std::map<std::vector<std::int64_t>, int> counts;
  for (int i = 0; i < 3000; ++i)
    ++counts[random::permutation(3).to_vector<std::int64_t>()];
  CHECK(counts.size() == 6);
  for (const auto& [order, count] : counts)
    CHECK(std::abs(count - 500) < 110);
  CHECK(random::permutation(0).size() == 0);
  CHECK(random::permutation(1).item<int>() == 0);
}

TEST_CASE("random arrays refuse what is no distribution") {
  CHECK_THROWS_WITH(
      random::uniform(1, 0, {2}), sluice::test::contains("random::uniform") && sluice::test::contains("low 1"));
  CHECK_THROWS_AS(random::uniform(0, INFINITY, {2}), ValueError);
  CHECK_THROWS_AS(random::uniform(0, 1, {2}, {.dtype = int32}), DTypeError);
  CHECK_THROWS_AS(random::normal(0, -1, {2}), ValueError);
  CHECK_THROWS_AS(random::randint(3, 3, {2}), ValueError);
  CHECK_THROWS_AS(random::randint(0, 257, {2}, {.dtype = uint8}), ValueError);
  CHECK_THROWS_AS(random::randint(0, 2, {2}, {.dtype = float32}), DTypeError);
  CHECK_THROWS_AS(random::bernoulli(1.5, {2}), ValueError);
  CHECK_THROWS_AS(random::permutation(-1), ValueError);
  CHECK_THROWS_AS(random::normal(0, 1, {-2}), ShapeError);
  CHECK(random::normal(0, 1, {0, 3}).size() == 0);
}

TEST_CASE("dropout drops and scales in training and is nothing otherwise") {
  const NDArray x = ones({100003});
  CHECK(dropout(x, 0.5).same(x));
  const autograd::TrainScope training;
  CHECK(dropout(x, 0).same(x));
  CHECK(sum(dropout(x, 1)).item<float>() == 0);
  for (DType dtype : test::floating_dtypes()) {
    const auto y = dropout(x.astype(dtype), 0.25).to_vector<double>();
    const auto kept = std::count_if(y.begin(), y.end(), [](double v) { return v != 0; });
    CHECK(std::abs(static_cast<double>(kept) - 75002) < 800);
    CHECK(std::all_of(y.begin(), y.end(), [](double v) { return v == 0 || std::abs(v - 4.0 / 3) < 0.01; }));
  }
  CHECK(dropout(x, 0.5).to_vector<float>() != dropout(x, 0.5).to_vector<float>());
  CHECK_THROWS_AS(dropout(x, -0.1), ValueError);
  CHECK_THROWS_WITH(
      dropout(zeros({2}, {.dtype = int32}), 0.1), sluice::test::contains("dropout") && sluice::test::contains("int32"));
}

NDArray dropped_gradient(Device device, NDArray* result = nullptr) {
  random::seed(6);
  NDArray x = ones({1001, 3}, {.device = device});
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = dropout(x, 0.4);
  }
  if (result != nullptr)
    *result = y;
  y.backward();
  return x.grad();
}

TEST_CASE("the gradient of dropout draws the mask of forward again") {
  NDArray y;
  const NDArray gradient = dropped_gradient(cpu(), &y);
  CHECK(gradient.to_vector<float>() == y.to_vector<float>());  // x is all ones
  const NDArray x = test::random_array({5, 7}, 7, -1, 1, float64);
  const auto seeded = [](const auto& in) {
    random::seed(8);
    return dropout(in[0], 0.3);
  };
  CHECK(test::gradient_differences(seeded, {x}) == "");
}

TEST_CASE("random arrays on a GPU are those of the CPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (DType dtype : test::all_dtypes()) {
    const auto draw = [&](Device device) {
      random::seed(9);
      std::vector<NDArray> drawn;
      for (const Shape& shape : {Shape{1}, Shape{7}, Shape{1 << 20}, Shape{333, 11}}) {
        drawn.push_back(random::bernoulli(0.3, shape, {.dtype = dtype, .device = device}));
        if (is_integer(dtype))
          drawn.push_back(random::randint(-0, 100, shape, {.dtype = dtype, .device = device}));
        if (is_floating(dtype))
          drawn.push_back(random::uniform(-2, 7, shape, {.dtype = dtype, .device = device}));
      }
      return drawn;
    };
    const auto on_cpu = draw(cpu()), on_gpu = draw(gpu());
    for (std::size_t i = 0; i < on_cpu.size(); ++i) {
      INFO(dtype << " array " << i);
      CHECK(on_cpu[i].to_vector<double>() == on_gpu[i].to_vector<double>());
    }
  }
  for (DType dtype : test::floating_dtypes()) {
    random::seed(10);
    const NDArray on_cpu = random::normal(0, 1, {1 << 20}, {.dtype = dtype});
    random::seed(10);
    const NDArray on_gpu = random::normal(0, 1, {1 << 20}, {.dtype = dtype, .device = gpu()});
    test::Tolerance tolerance = test::tolerance_of(dtype);
    if (dtype == float32)
      tolerance = {1e-6, 1e-6};
    CHECK(test::differences(on_gpu.to(cpu()), on_cpu, tolerance) == "");
  }
}

// As many elements as take several groups of blocks, one over; the mask is that of the same elements row by row.
void drop_images_as_they_lie(Device device) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64}) {
    for (const Shape& shape : {Shape{3, 5, 9, 7}, {2, 64, 12, 12}, {1, 3, 1, 1}, {4, 1, 3, 3}, {0, 5, 2, 2}}) {
      CAPTURE(device, dtype, shape);
      const NDArray x = random::uniform(0.5, 1, shape, {.device = device}).astype(dtype);
      const NDArray turned = x.transpose({0, 2, 3, 1}).copy().transpose({0, 3, 1, 2});
      Engine::current().seed(5);
      const autograd::RecordScope record;
      const NDArray want = dropout(x, 0.3);
      Engine::current().seed(5);
      const NDArray made = dropout(turned, 0.3);
      CHECK(made.strides() == want.strides());
      CHECK(made.to_vector<double>() == want.to_vector<double>());
    }
  }
}

TEST_CASE("dropout of images whose channels are neighbours draws the mask that it draws row by row") {
  drop_images_as_they_lie(cpu());
}
TEST_CASE("dropout of images on a GPU whose channels are neighbours draws the mask that it draws row by row", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  drop_images_as_they_lie(gpu());
}

TEST_CASE("dropout on a GPU has the mask of the CPU, forward and backward", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  NDArray on_cpu, on_gpu;
  const auto cpu_gradient = dropped_gradient(cpu(), &on_cpu).to_vector<float>();
  const auto gpu_gradient = dropped_gradient(gpu(), &on_gpu).to_vector<float>();
  CHECK(on_cpu.to_vector<float>() == on_gpu.to_vector<float>());
  CHECK(cpu_gradient == gpu_gradient);
  const autograd::TrainScope training;
  for (DType dtype : test::floating_dtypes()) {
    // An odd first element: nothing is aligned.
    const NDArray x = test::random_array({1030}, 11, -1, 1, dtype);
    random::seed(12);
    const auto want = dropout(x.slice(0, 1, 1030), 0.2).to_vector<double>();
    random::seed(12);
    CHECK(dropout(x.to(gpu()).slice(0, 1, 1030), 0.2).to_vector<double>() == want);
  }
}

}  // namespace
}  // namespace sluice
