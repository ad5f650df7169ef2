// Operators with int16, uint16, uint32 and uint64 against C++'s own arithmetic, at the ends of what the types hold.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/traced.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr std::uint64_t k_top = std::uint64_t{1} << 63, k_all_bits = ~std::uint64_t{0};

/// Every pair of some numbers.
template <class T>
struct Pairs {
  std::vector<T> a, b;

  explicit Pairs(const std::vector<T>& numbers) {
    for (const T x : numbers) {
      for (const T y : numbers) {
        a.push_back(x);
        b.push_back(y);
      }
    }
  }
};

template <class T>
std::vector<T> ends_of() {
  using Limits = std::numeric_limits<T>;
  const T most = Limits::max(), least = Limits::min();
  return {
      0,
      1,
      2,
      3,
      7,
      15,
      16,
      64,
      most,
      static_cast<T>(most - 1),
      static_cast<T>(most / 2),
      static_cast<T>(most / 2 + 1),
      static_cast<T>(most / 3),
      least,
      static_cast<T>(least + 1)};
}

template <class T>
NDArray line(const std::vector<T>& numbers, Device device) {
  return array(numbers, {static_cast<std::int64_t>(numbers.size())}, device);
}

/// `f` of both numbers is what the operator gives, whose results are of type R.
template <class R, class T, class F>
void check_pairs(const std::string& op, const Pairs<T>& pairs, Device device, F&& f) {
  const NDArray inputs[] = {line(pairs.a, device), line(pairs.b, device)};
  const NDArray made = invoke(*find_operator(op), inputs, {}, SourceLocation::current())[0];
  REQUIRE(made.dtype() == dtype_of<R>);
  const auto got = made.to_vector<R>();
  for (std::size_t i = 0; i < pairs.a.size(); ++i) {
    CAPTURE(op, dtype_of<T>, +pairs.a[i], +pairs.b[i]);
    REQUIRE(got[i] == static_cast<R>(f(pairs.a[i], pairs.b[i])));
  }
}

// As C++ has it, of the type's own bits.
template <class T>
T to_the_power(T a, T b) {
  std::uint64_t result = 1, base = static_cast<std::uint64_t>(a);
  if (b < 0)
    return a == 1 ? T{1} : a == static_cast<T>(-1) ? static_cast<T>(b % 2 == 0 ? 1 : -1) : T{0};
  for (auto left = static_cast<std::uint64_t>(b); left != 0; left >>= 1) {
    result *= (left & 1) != 0 ? base : 1;
    base *= base;
  }
  return static_cast<T>(result);
}

template <class T>
T rounded_down(T a, T b) {
  if (b == 0)
    return 0;
  const T quotient = static_cast<T>(a / b);
  return static_cast<T>(quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
}

template <class T>
void check_arithmetic(Device device) {
  using U = std::make_unsigned_t<T>;
  const Pairs<T> pairs(ends_of<T>());
  const auto u = [](T x) { return static_cast<std::uint64_t>(x); };
  check_pairs<T>("add", pairs, device, [&](T a, T b) { return u(a) + u(b); });
  check_pairs<T>("subtract", pairs, device, [&](T a, T b) { return u(a) - u(b); });
  check_pairs<T>("multiply", pairs, device, [&](T a, T b) { return u(a) * u(b); });
  check_pairs<T>("power", pairs, device, to_the_power<T>);
  check_pairs<T>("floor_divide", pairs, device, rounded_down<T>);
  check_pairs<T>("mod", pairs, device, [](T a, T b) { return b == 0 ? 0 : a - rounded_down(a, b) * b; });
  check_pairs<T>("fmod", pairs, device, [](T a, T b) { return b == 0 ? 0 : a % b; });
  check_pairs<T>("maximum", pairs, device, [](T a, T b) { return std::max(a, b); });
  check_pairs<T>("minimum", pairs, device, [](T a, T b) { return std::min(a, b); });
  check_pairs<T>("fmax", pairs, device, [](T a, T b) { return std::max(a, b); });
  check_pairs<T>("bitwise_and", pairs, device, [](T a, T b) { return a & b; });
  check_pairs<T>("bitwise_or", pairs, device, [](T a, T b) { return a | b; });
  check_pairs<T>("bitwise_xor", pairs, device, [](T a, T b) { return a ^ b; });
  constexpr U width = 8 * sizeof(T);
  check_pairs<T>("left_shift", pairs, device, [&](T a, T b) { return static_cast<U>(b) < width ? u(a) << b : 0; });
  check_pairs<T>("right_shift", pairs, device, [](T a, T b) {
    return static_cast<U>(b) < width ? static_cast<T>(a >> b) : a < 0 ? static_cast<T>(-1) : T{0};
  });
}

template <class T>
void check_comparisons(Device device) {
  const Pairs<T> pairs(ends_of<T>());
  check_pairs<bool>("less", pairs, device, [](T a, T b) { return a < b; });
  check_pairs<bool>("less_equal", pairs, device, [](T a, T b) { return a <= b; });
  check_pairs<bool>("greater", pairs, device, [](T a, T b) { return a > b; });
  check_pairs<bool>("greater_equal", pairs, device, [](T a, T b) { return a >= b; });
  check_pairs<bool>("equal", pairs, device, [](T a, T b) { return a == b; });
  check_pairs<bool>("not_equal", pairs, device, [](T a, T b) { return a != b; });
  check_pairs<bool>("logical_and", pairs, device, [](T a, T b) { return a != 0 && b != 0; });
}

template <class T>
void check_of_one(Device device) {
  const auto numbers = ends_of<T>();
  const NDArray x = line(numbers, device);
  const auto check = [&](const char* op, auto&& f) {
    const NDArray made = invoke(*find_operator(op), std::span(&x, 1), {}, SourceLocation::current())[0];
    REQUIRE(made.dtype() == dtype_of<T>);
    const auto got = made.to_vector<T>();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      CAPTURE(op, dtype_of<T>, +numbers[i]);
      REQUIRE(got[i] == static_cast<T>(f(numbers[i])));
    }
  };
  check("negative", [](T a) { return -static_cast<std::uint64_t>(a); });
  check("abs", [](T a) { return a < 0 ? -static_cast<std::uint64_t>(a) : static_cast<std::uint64_t>(a); });
  check("sign", [](T a) { return a < 0 ? -1 : a > 0 ? 1 : 0; });
  check("square", [](T a) { return static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(a); });
  check("relu", [](T a) { return std::max(a, T{0}); });
  check("floor", [](T a) { return a; });
  check("bitwise_not", [](T a) { return ~a; });
  REQUIRE(signbit(x).to_vector<bool>()[0] == false);
  REQUIRE(signbit(x).dtype() == bool_);
  REQUIRE(logical_not(x).to_vector<bool>()[0]);
  const auto clipped = clip(x, 2, 70'000).to_vector<T>();
  const auto most = std::min<std::uint64_t>(std::numeric_limits<T>::max(), 70'000);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    REQUIRE(clipped[i] == std::clamp(numbers[i], T{2}, static_cast<T>(most)));
  REQUIRE(clip(x, -5, 3).to_vector<T>()[8] == 3);
  REQUIRE(clip(x, 70'000, 80'000).to_vector<T>()[0] == static_cast<T>(most));
  REQUIRE(clip(x, -50'000, -40'000).to_vector<T>()[0] == std::numeric_limits<T>::min());
}

template <class T>
void check_reductions(Device device) {
  using Sum = std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>;
  const auto numbers = ends_of<T>();
  const NDArray x = line(numbers, device);
  std::uint64_t total = 0;
  for (const T number : numbers)
    total += static_cast<std::uint64_t>(number);
  REQUIRE(sum(x).dtype() == dtype_of<Sum>);
  REQUIRE(sum(x).item<Sum>() == static_cast<Sum>(total));
  REQUIRE(cumsum(x, 0).dtype() == dtype_of<Sum>);
  REQUIRE(cumsum(x, 0).to_vector<Sum>().back() == static_cast<Sum>(total));
  REQUIRE(max(x).dtype() == dtype_of<T>);
  REQUIRE(max(x).item<T>() == std::numeric_limits<T>::max());
  REQUIRE(min(x).item<T>() == std::numeric_limits<T>::min());
  REQUIRE(argmax(x, 0).item<int>() == 8);
  REQUIRE(argmin(x, 0).item<int>() == (std::is_signed_v<T> ? 13 : 0));
  const Extremes largest = cummax(x, 0);
  REQUIRE(largest.values.dtype() == dtype_of<T>);
  REQUIRE(largest.values.template to_vector<T>()[7] == 64);
  REQUIRE(largest.values.template to_vector<T>().back() == std::numeric_limits<T>::max());
  REQUIRE(count_nonzero(x).item<int>() == (std::is_signed_v<T> ? 14 : 13));
  REQUIRE(cummin(x, 0).values.template to_vector<T>().back() == std::numeric_limits<T>::min());
  REQUIRE(mean(x).dtype() == float32);
  double numbers_total = 0;
  for (const T number : numbers)
    numbers_total += static_cast<double>(number);
  REQUIRE(mean(x).item<double>() == Approx(numbers_total / static_cast<double>(numbers.size())));
  auto sorted = numbers;
  std::stable_sort(sorted.begin(), sorted.end());
  REQUIRE(sort(x).to_vector<T>() == sorted);
  REQUIRE(take(x, argsort(x)).to_vector<T>() == sorted);
  REQUIRE(searchsorted(sort(x), x).to_vector<int>()[8] == 14);
  std::reverse(sorted.begin(), sorted.end());
  REQUIRE(sort(x, 0, true).to_vector<T>() == sorted);
  REQUIRE(topk(x, 2).values.template to_vector<T>() == std::vector<T>(sorted.begin(), sorted.begin() + 2));
}

template <class F>
void for_each_stored(F&& f) {
  f.template operator()<std::int16_t>();
  f.template operator()<std::uint16_t>();
  f.template operator()<std::uint32_t>();
  f.template operator()<std::uint64_t>();
}

void check_numbers_beside(Device device) {
  const NDArray large = array<std::uint64_t>({0, 5, k_top - 1, k_top, k_all_bits}, device);
  REQUIRE((large > -1).to_vector<bool>() == std::vector<bool>(5, true));
  REQUIRE((large < -1).to_vector<bool>() == std::vector<bool>(5, false));
  REQUIRE((large == -1).to_vector<bool>() == std::vector<bool>(5, false));
  REQUIRE((large > 5).to_vector<bool>() == std::vector<bool>{false, false, true, true, true});
  REQUIRE((5 <= large).to_vector<bool>() == std::vector<bool>{false, true, true, true, true});
  REQUIRE(
      maximum(large, 7).to_vector<std::uint64_t>() == std::vector<std::uint64_t>{7, 7, k_top - 1, k_top, k_all_bits});
  REQUIRE(floor_divide(large, 3).to_vector<std::uint64_t>()[4] == k_all_bits / 3);
  REQUIRE(floor_divide(10, large).to_vector<std::uint64_t>() == std::vector<std::uint64_t>{0, 2, 0, 0, 0});
  REQUIRE((large + 1).to_vector<std::uint64_t>() == std::vector<std::uint64_t>{1, 6, k_top, k_top + 1, 0});
  const NDArray small = array<std::uint16_t>({0, 40000, 65535}, device);
  REQUIRE((small + 1).dtype() == uint16);
  REQUIRE((small < 70'000).to_vector<bool>() == std::vector<bool>(3, true));
  REQUIRE((small > -1).to_vector<bool>() == std::vector<bool>(3, true));
  REQUIRE((small * 0.5).dtype() == float32);
  REQUIRE((small * 0.5).to_vector<float>() == std::vector<float>{0, 20000, 32767.5f});
  REQUIRE_THROWS_AS(small + 65536, ValueError);
  REQUIRE_THROWS_AS(large - (-1), ValueError);
  REQUIRE(where(small > 1, small, 3).to_vector<int>() == std::vector<int>{3, 40000, 65535});
}

void check_places(Device device) {
  const NDArray x = array<std::uint64_t>({1, k_top, k_all_bits, 9, 10, 11}, {3, 2}, device);
  const NDArray places = array<std::uint16_t>({2, 0}, device);
  REQUIRE(take(x, places).to_vector<std::uint64_t>() == std::vector<std::uint64_t>{10, 11, 1, k_top});
  REQUIRE(
      take(x, array<std::uint64_t>({1}, device)).to_vector<std::uint64_t>() ==
      std::vector<std::uint64_t>{k_all_bits, 9});
  REQUIRE(take(x, array<std::int16_t>({-1}, device)).to_vector<std::uint64_t>() == std::vector<std::uint64_t>{10, 11});
  // The last number of all is no place from the end.
  REQUIRE_THROWS_AS(take(x, array<std::uint64_t>({k_all_bits}, device)).to_vector<std::uint64_t>(), IndexError);
  REQUIRE(concat({x, flip(x, 0)}, 0).slice(0, 3, 4).to_vector<std::uint64_t>() == std::vector<std::uint64_t>{10, 11});
  REQUIRE(pad(x, {{0, 0}, {1, 0}}, PadMode::constant, 77).to_vector<std::uint64_t>()[0] == 77);
  REQUIRE_THROWS_AS(pad(x, {{0, 0}, {1, 0}}, PadMode::constant, -1), ValueError);
  const NDArray added = index_add(x, {array<int>({1, 1}, device)}, array<std::uint64_t>({1, 1, 2, 2}, {2, 2}, device));
  REQUIRE(added.dtype() == uint64);
  REQUIRE(added.to_vector<std::uint64_t>() == std::vector<std::uint64_t>{1, k_top, 2, 12, 10, 11});
  REQUIRE(
      index_update(x, {places}, x.slice(0, 1, 3)).to_vector<std::uint64_t>() ==
      std::vector<std::uint64_t>{10, 11, k_all_bits, 9, k_all_bits, 9});
  REQUIRE(one_hot(places, 3, uint32).to_vector<int>() == std::vector<int>{0, 0, 1, 1, 0, 0});
  REQUIRE(one_hot(places, 3, uint32).dtype() == uint32);
  const NDArray lost = take(x, array<std::uint64_t>({k_top}, device));
  REQUIRE_THROWS_AS(floor_divide(lost + lost, lost).wait_to_read(), IndexError);
  REQUIRE(unique(array<std::uint32_t>({7, 3000000000, 7}, device)).to_vector<double>() == std::vector<double>{7, 3e9});
  REQUIRE(arange(0, 4, 1, {.dtype = uint16, .device = device}).to_vector<int>() == std::vector<int>{0, 1, 2, 3});
  REQUIRE(sequence_mask(x, array<std::uint32_t>({1, 2}, device), 5).to_vector<std::uint64_t>()[2] == 5);
}

// Every second, backwards, one stretched, none.
void check_layouts(Device device) {
  const NDArray x = arange(65530, 65536, 1, {.dtype = int32, .device = device}).astype(uint16);
  const NDArray some = x.slice(0, 0, 6, 2), stretched = x.slice(0, 5, 6).broadcast_to({3});
  REQUIRE((some + stretched).to_vector<int>() == std::vector<int>{65529, 65531, 65533});
  REQUIRE((flip(x, 0).slice(0, 0, 3) - some).to_vector<int>() == std::vector<int>{5, 2, 65535});
  const NDArray none = zeros({0, 3}, {.dtype = uint64, .device = device});
  REQUIRE((none + none).shape() == Shape{0, 3});
  REQUIRE(floor_divide(none, 2).dtype() == uint64);
  REQUIRE(sum(none, {0}).to_vector<int>() == std::vector<int>{0, 0, 0});
  REQUIRE_THROWS_AS(max(none, {0}), ValueError);
  NDArray to = x.copy();
  to += 10;
  REQUIRE(to.dtype() == uint16);
  REQUIRE(to.to_vector<int>() == std::vector<int>{4, 5, 6, 7, 8, 9});
  to.slice(0, 1, 3).assign(some.slice(0, 1, 3));
  REQUIRE(to.to_vector<int>() == std::vector<int>{4, 65532, 65534, 7, 8, 9});
  REQUIRE_THROWS_AS(to.slice(0, 0, 1).assign(70'000), ValueError);
}

void check_all(Device device) {
  for_each_stored([&]<class T>() {
    check_arithmetic<T>(device);
    check_comparisons<T>(device);
    check_of_one<T>(device);
    check_reductions<T>(device);
  });
  check_numbers_beside(device);
  check_places(device);
  check_layouts(device);
}

}  // namespace

TEST_CASE("Stored types are reckoned with as C++ does", "[stored]") {
  for_each_stored([]<class T>() {
    check_arithmetic<T>(cpu());
    check_comparisons<T>(cpu());
    check_of_one<T>(cpu());
  });
}
TEST_CASE("Stored types are added up, ordered and searched", "[stored]") {
  for_each_stored([]<class T>() { check_reductions<T>(cpu()); });
}
TEST_CASE("Numbers stand beside stored types", "[stored]") {
  check_numbers_beside(cpu());
}
TEST_CASE("Stored types are moved, and name entries", "[stored]") {
  check_places(cpu());
}
TEST_CASE("Stored types may lie in any way", "[stored]") {
  check_layouts(cpu());
}
TEST_CASE("Stored types give on a GPU what they give on the CPU", "[stored][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_all(gpu(0));
}

TEST_CASE("Operators of floating types take stored ones as float32", "[stored]") {
  const NDArray x = array<std::uint64_t>({0, 1, k_top, k_all_bits});
  REQUIRE(exp(x).dtype() == float32);
  REQUIRE(sqrt(x).to_vector<float>() == std::vector<float>{0, 1, 3037000499.97605f, 4294967296.0f});
  REQUIRE(divide(x, x).to_vector<float>()[3] == 1);
  REQUIRE((x * full({}, 2, {.dtype = float64})).dtype() == float64);
  REQUIRE((x + array<std::int64_t>({-1})).to_vector<double>() == std::vector<double>{-1, 0, 0x1p63, 0x1p64});
}

TEST_CASE("Gradients go to entries that stored types name", "[stored][gpu]") {
  for (const Device device : num_gpus() > 0 ? std::vector<Device>{cpu(), gpu(0)} : std::vector<Device>{cpu()}) {
    NDArray weight = ones({4, 3}, {.device = device});
    weight.attach_grad();
    for (const DType dtype : {int16, uint16, uint32, uint64}) {
      CAPTURE(device, dtype);
      const NDArray places = array<int>({3, 1, 3}, device).astype(dtype);
      {
        const autograd::RecordScope record;
        sum(embedding(places, weight) * 2.0).backward();
      }
      CHECK(weight.grad().to_vector<float>() == std::vector<float>{0, 0, 0, 2, 2, 2, 0, 0, 0, 4, 4, 4});
    }
  }
  const NDArray counts = array<std::uint16_t>({1, 2});
  NDArray x = ones({2});
  x.attach_grad();
  {
    const autograd::RecordScope record;
    (x * counts).backward();
  }
  CHECK(x.grad().to_vector<float>() == std::vector<float>{1, 2});
}

TEST_CASE("What uint64 cannot be is refused with the operator's name", "[stored]") {
  const NDArray x = array<std::uint64_t>({6, 4});
  REQUIRE_THROWS_WITH(gcd(x, x), sluice::test::contains("gcd") && sluice::test::contains("uint64"));
  REQUIRE_THROWS_AS(lcm(x, x), DTypeError);
  REQUIRE_THROWS_AS(bitwise_and(x, array<std::int64_t>({1, 2})), DTypeError);
  REQUIRE(gcd(array<std::uint32_t>({3000000000}), array<std::uint32_t>({4000000000})).item<double>() == 1e9);
  REQUIRE(gcd(array<std::int16_t>({-12}), array<std::int16_t>({18})).item<int>() == 6);
}

TEST_CASE("Products of stored types wrap around", "[stored]") {
  const NDArray a = array<std::uint64_t>({k_all_bits, 2, 3, k_top}, {2, 2}),
                b = array<std::uint64_t>({1, 2, 3, 4}, {2, 2});
  REQUIRE(matmul(a, b).dtype() == uint64);
  REQUIRE(matmul(a, b).to_vector<std::uint64_t>() == std::vector<std::uint64_t>{5, 6, 3 + k_top, 6});
  const NDArray c = array<std::int16_t>({300, 300}, {1, 2});
  REQUIRE(matmul(c, c.transpose()).item<int>() == static_cast<std::int16_t>(180'000));
}

TEST_CASE("Programs with stored types are traced", "[stored]") {
  const NDArray x = array<std::uint16_t>({1, 40000, 65535}), y = array<std::uint16_t>({65535, 2, 9});
  REQUIRE(traced_differences([](const auto& in) { return (in[0] + in[1]) * in[0]; }, {x, y}) == "");
  REQUIRE(traced_differences([](const auto& in) { return exp(in[0] * 0.001) + in[1]; }, {x, y}) == "");
  REQUIRE(traced_differences([](const auto& in) { return sum(left_shift(in[0].astype(uint64), 40)); }, {x}) == "");
  const NDArray large = array<std::uint64_t>({k_all_bits, 5}), by = array<std::uint64_t>({10, 2});
  REQUIRE(traced_differences([](const auto& in) { return mod(maximum(in[0], in[1]), in[1]); }, {large, by}) == "");
}

TEST_CASE("Integers of stored types are drawn", "[stored]") {
  random::seed(3);
  for_each_stored([]<class T>() {
    const NDArray drawn = random::randint(10, 30'000, {2000}, {.dtype = dtype_of<T>});
    REQUIRE(drawn.dtype() == dtype_of<T>);
    REQUIRE(min(drawn).item<int>() >= 10);
    REQUIRE(max(drawn).item<int>() < 30'000);
    REQUIRE(max(drawn).item<int>() > 29'000);
    const auto chances = random::bernoulli(0.5, {1000}, {.dtype = dtype_of<T>}).template to_vector<T>();
    const auto hits = std::count(chances.begin(), chances.end(), T{1});
    REQUIRE(hits + std::count(chances.begin(), chances.end(), T{0}) == 1000);
    REQUIRE(std::abs(hits - 500) < 100);
    REQUIRE(random::poisson(4, {10}, {.dtype = dtype_of<T>}).dtype() == dtype_of<T>);
  });
  REQUIRE_THROWS_AS(random::randint(0, 65'537, {2}, {.dtype = uint16}), ValueError);
  REQUIRE_THROWS_AS(random::randint(-1, 5, {2}, {.dtype = uint64}), ValueError);
  REQUIRE(max(random::randint(65'000, 65'536, {3000}, {.dtype = uint16})).item<int>() > 65'400);
}
