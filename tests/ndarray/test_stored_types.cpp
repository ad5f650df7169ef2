// int16, uint16, uint32 and uint64: every conversion from and to them, at the ends of what they hold.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <unistd.h>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/convert.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/stored_numbers.h>

#include "tests/ndarray/npz_fixtures.h"
#include "tests/support/catch.h"

using namespace sluice;

namespace {

constexpr std::uint64_t k_top = std::uint64_t{1} << 63, k_all_bits = ~std::uint64_t{0};

template <class T>
std::vector<T> ends_of() {
  using Limits = std::numeric_limits<T>;
  return {
      Limits::min(), static_cast<T>(Limits::min() + 1), 0, 1, 2, 100, Limits::max(), static_cast<T>(Limits::max() - 1)};
}

/// Numbers around those where a sum of 64 bits is rounded to so many, to even and up and down.
std::vector<std::uint64_t> near_ties(int kept) {
  std::vector<std::uint64_t> numbers;
  for (const std::uint64_t odd : {0, 1}) {
    const std::uint64_t tie = k_top + (odd << (64 - kept)) + (std::uint64_t{1} << (63 - kept));
    for (const std::uint64_t number : {tie - 1, tie, tie + 1})
      numbers.push_back(number);
  }
  return numbers;
}

/// Nearest number of so many bits, ties to even, by whole numbers alone.
double rounded(std::uint64_t number, int kept) {
  const int cut = 64 - kept;
  __extension__ using Wide = unsigned __int128;
  const Wide unit = Wide{1} << cut, rest = number & (unit - 1), below = number - rest;
  const bool up = rest > unit / 2 || (rest == unit / 2 && (below & unit) != 0);
  return std::ldexp(static_cast<double>(static_cast<std::uint64_t>((below + (up ? unit : 0)) >> cut)), cut);
}

template <class T, class U>
void check_ends(Device device) {
  const auto values = ends_of<T>();
  const NDArray made = array(values, {static_cast<std::int64_t>(values.size())}, device);
  const auto cast = made.to_vector<U>();
  const NDArray apart = empty(made.shape(), {.dtype = dtype_of<U>, .device = device});
  copy_into(made, apart);
  const auto copied = apart.to_vector<U>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(dtype_of<T>, dtype_of<U>, i);
    REQUIRE(cast[i] == static_cast<U>(values[i]));
    REQUIRE(copied[i] == static_cast<U>(values[i]));
  }
}

template <class T>
void check_ends_with_all(Device device) {
  check_ends<T, std::int8_t>(device);
  check_ends<T, std::uint8_t>(device);
  check_ends<T, std::int16_t>(device);
  check_ends<T, std::uint16_t>(device);
  check_ends<T, std::int32_t>(device);
  check_ends<T, std::uint32_t>(device);
  check_ends<T, std::int64_t>(device);
  check_ends<T, std::uint64_t>(device);
  check_ends<T, float>(device);
  check_ends<T, double>(device);
}

void check_whole_numbers(Device device) {
  check_ends_with_all<std::int8_t>(device);
  check_ends_with_all<std::int16_t>(device);
  check_ends_with_all<std::uint16_t>(device);
  check_ends_with_all<std::int32_t>(device);
  check_ends_with_all<std::uint32_t>(device);
  check_ends_with_all<std::int64_t>(device);
  check_ends_with_all<std::uint64_t>(device);
}

void check_rounding(Device device) {
  const auto check = [&](DType dtype, int kept) {
    const auto numbers = near_ties(kept);
    const NDArray made = array(numbers, {static_cast<std::int64_t>(numbers.size())}, device);
    const NDArray to = empty(made.shape(), {.dtype = dtype, .device = device});
    copy_into(made, to);
    const auto got = to.to_vector<double>();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      CAPTURE(dtype, numbers[i]);
      REQUIRE(got[i] == rounded(numbers[i], kept));
    }
  };
  check(float64, 53);
  check(float32, 24);
  check(bfloat16, 8);
  const NDArray halves = empty({3}, {.dtype = float16, .device = device});
  copy_into(array<std::uint64_t>({2049, 65519, k_all_bits}, device), halves);
  REQUIRE(halves.to_vector<float>() == std::vector<float>{2048, 65504, INFINITY});
}

void check_from_floating(Device device) {
  const NDArray real = array<double>({-1.9, -0.5, 0.99, 65535.9, 65536, 4294967295.5, 0x1p63, 0x1p64 - 2048}, device);
  const auto as = [&](DType dtype) {
    const NDArray to = empty(real.shape(), {.dtype = dtype, .device = device});
    copy_into(real, to);
    return to.to_vector<std::uint64_t>();
  };
  const std::vector<std::uint64_t> wide{
      k_all_bits, 0, 0, 65535, 65536, 4294967295u, k_top, k_all_bits - 2047};  // -1 wraps, as whole numbers do
  REQUIRE(as(uint64) == wide);
  const auto narrow = as(uint32), short_ones = as(uint16);
  for (std::size_t i = 0; i < 6; ++i) {
    REQUIRE(narrow[i] == static_cast<std::uint32_t>(wide[i]));
    REQUIRE(short_ones[i] == static_cast<std::uint16_t>(wide[i]));
  }
  const NDArray float_ones = array<float>({-3, 0x1p63f, 40000.5f}, device);
  const NDArray to = empty({3}, {.dtype = uint64, .device = device});
  copy_into(float_ones, to);
  REQUIRE(to.to_vector<std::uint64_t>() == std::vector<std::uint64_t>{k_all_bits - 2, k_top, 40000});
  // What no integer is gives some number, and the others stay right.
  const NDArray odd = empty({4}, {.dtype = uint16, .device = device});
  copy_into(array<double>({NAN, INFINITY, -1e300, 7}, device), odd);
  REQUIRE(odd.to_vector<int>()[3] == 7);
  const NDArray truth = empty({4}, {.dtype = bool_, .device = device});
  copy_into(array<std::uint64_t>({0, k_top, 1, 256}, device), truth);
  REQUIRE(truth.to_vector<bool>() == std::vector<bool>{false, true, true, true});
}

// Blocks of a long row, rows that are not neighbours, a stretched element, nothing at all.
void check_layouts(Device device) {
  const NDArray numbers = empty({3000}, {.dtype = uint16, .device = device});
  copy_into(arange(0, 3000, 1, {.dtype = int32, .device = device}), numbers);
  const NDArray every_third = detail::make_view(numbers, {2, 499}, {1497, 3}, 2);
  const NDArray to = empty({499, 4}, {.dtype = float32, .device = device});
  copy_into(every_third, detail::make_view(to, {2, 499}, {1, 4}, 1));
  const auto got = detail::make_view(to, {2, 499}, {1, 4}, 1).to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i)
    REQUIRE(got[i] == static_cast<float>(2 + i / 499 * 1497 + i % 499 * 3));
  const NDArray stretched = detail::make_view(numbers, {1500}, {0}, 7);
  const NDArray wide = empty({1500}, {.dtype = uint64, .device = device});
  copy_into(stretched, wide);
  REQUIRE(wide.to_vector<int>() == std::vector<int>(1500, 7));
  const NDArray backwards = detail::make_view(wide, {1500}, {-1}, 1499);
  copy_into(detail::make_view(numbers, {1500}, {2}, 0), backwards);
  REQUIRE(wide.to_vector<int>().front() == 2998);
  REQUIRE(wide.to_vector<int>().back() == 0);
  REQUIRE_NOTHROW(copy_into(empty({0, 3}, {.dtype = uint32, .device = device}), zeros({0, 3}, {.device = device})));
}

}  // namespace

TEST_CASE("Whole numbers of all widths wrap in those that do not hold them") {
  check_whole_numbers(cpu());
}
TEST_CASE("uint64 rounds once on its way to floating types") {
  check_rounding(cpu());
}
TEST_CASE("What is real loses its fraction in unsigned types, and wraps below zero") {
  check_from_floating(cpu());
}
TEST_CASE("Stored types are converted in any layout") {
  check_layouts(cpu());
}
TEST_CASE("Stored types are converted on GPUs as on CPUs", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_whole_numbers(gpu(0));
  check_rounding(gpu(0));
  check_from_floating(gpu(0));
  check_layouts(gpu(0));
}

TEST_CASE("One conversion of a number agrees with that of arrays") {
  for (const std::uint64_t number : near_ties(24))
    REQUIRE(detail::convert<float>(detail::double_with_rest(number)) == detail::convert<float>(number));
  for (const std::uint64_t number : near_ties(8))
    REQUIRE(static_cast<float>(detail::convert<BFloat16>(number)) == rounded(number, 8));
  REQUIRE(detail::convert<std::uint64_t>(-1.5) == k_all_bits);
  REQUIRE(detail::convert<std::uint32_t>(-1.5f) == ~0u);
  REQUIRE(detail::convert<std::uint64_t>(0x1p63f) == k_top);
  REQUIRE(static_cast<float>(detail::convert<Half>(std::uint64_t{2051})) == 2052.0f);
}

TEST_CASE("Numbers that a stored type does not hold are refused") {
  REQUIRE_THROWS_AS(full({2}, 65536, {.dtype = uint16}), ValueError);
  REQUIRE_THROWS_AS(full({2}, -1, {.dtype = uint16}), ValueError);
  REQUIRE_THROWS_AS(full({2}, -1, {.dtype = uint64}), ValueError);
  REQUIRE_THROWS_AS(full({2}, -1.0, {.dtype = uint64}), ValueError);
  REQUIRE_THROWS_AS(full({2}, 0x1p64, {.dtype = uint64}), ValueError);
  REQUIRE_THROWS_AS(full({2}, 32768, {.dtype = int16}), ValueError);
  REQUIRE_THROWS_AS(full({2}, -32769, {.dtype = int16}), ValueError);
  REQUIRE_THROWS_AS(full({2}, std::int64_t{1} << 32, {.dtype = uint32}), ValueError);
  REQUIRE_THROWS_AS(full({2}, 2.5, {.dtype = uint32}), ValueError);
  REQUIRE(full({2}, 65535, {.dtype = uint16}).to_vector<int>() == std::vector<int>{65535, 65535});
  REQUIRE(full({1}, -32768, {.dtype = int16}).item<int>() == -32768);
  REQUIRE(full({1}, 0x1p63, {.dtype = uint64}).item<std::uint64_t>() == k_top);
  REQUIRE(full({1}, INT64_MAX, {.dtype = uint64}).item<std::int64_t>() == INT64_MAX);
  NDArray numbers = zeros({3}, {.dtype = uint32});
  fill(numbers, 4294967295u);
  REQUIRE(numbers.to_vector<double>() == std::vector<double>(3, 4294967295.0));
  REQUIRE_THROWS_AS(fill(numbers, -1), ValueError);
}

TEST_CASE("Stored types are printed as numbers") {
  REQUIRE(array<std::uint64_t>({1, k_all_bits}).to_string() == "[                   1 18446744073709551615]");
  REQUIRE(array<std::int16_t>({-32768, 5}).to_string() == "[-32768      5]");
  REQUIRE(full({}, 40000, {.dtype = uint16}).to_string() == "40000");
  REQUIRE(message(uint32) == "uint32");
}

TEST_CASE("Integers of all widths come from files of NumPy's") {
  const auto path = std::filesystem::temp_directory_path() / message("sluice-integers-", ::getpid(), ".npz");
  const auto bytes = test::bytes_of_hex(test::k_numpy_integers);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const auto loaded = load(path);
  std::filesystem::remove(path);
  REQUIRE(loaded.at("int16").dtype() == int16);
  REQUIRE(loaded.at("int16").to_vector<int>() == std::vector<int>{-32768, -1, 32767});
  REQUIRE(loaded.at("uint16").dtype() == uint16);
  REQUIRE(loaded.at("uint16").to_vector<int>() == std::vector<int>{0, 40000, 65535});
  REQUIRE(loaded.at("uint32").dtype() == uint32);
  REQUIRE(loaded.at("uint32").to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 3000000000, 4294967295});
  REQUIRE(loaded.at("uint64").dtype() == uint64);
  REQUIRE(
      loaded.at("uint64").to_vector<std::uint64_t>() == std::vector<std::uint64_t>{0, k_top, k_top - 1, k_all_bits});
}
