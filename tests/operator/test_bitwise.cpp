// Rows of bits: every type that they take, layouts, numbers beside arrays, shifts by too much, and what they refuse.
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/operator/elementwise_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

const std::vector<DType> k_whole_dtypes = {bool_, uint8, int8, int32, int64, int16, uint16, uint32};

NDArray line(const std::vector<std::int64_t>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
}

int bits_of(DType dtype) {
  return 8 * static_cast<int>(size_of(dtype));
}

// `value` as the type holds it: the low bits, of signed types with their sign.
std::int64_t held(DType dtype, std::int64_t value) {
  return by_any_dtype(dtype, [&]<class T>() -> std::int64_t {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<std::int64_t>(static_cast<T>(value));
    } else {
      return 0;
    }
  });
}

// One bit after the other, as the definition says; shifts one place after the other.
std::int64_t reference(const std::string& row, DType dtype, std::int64_t a, std::int64_t b) {
  const auto each_bit = [&](auto f) {
    std::uint64_t bits = 0;
    for (int i = 0; i < 64; ++i)
      bits |= f((a >> i & 1) != 0, (b >> i & 1) != 0) ? std::uint64_t{1} << i : 0;
    return static_cast<std::int64_t>(bits);
  };
  if (row == "bitwise_and")
    return each_bit([](bool x, bool y) { return x && y; });
  if (row == "bitwise_or")
    return each_bit([](bool x, bool y) { return x || y; });
  if (row == "bitwise_xor")
    return each_bit([](bool x, bool y) { return x != y; });
  if (row == "gcd")
    return held(dtype, std::gcd(a, b));
  if (row == "lcm")
    return held(dtype, std::lcm(a, b));
  const std::int64_t places = b < 0 || b > bits_of(dtype) ? bits_of(dtype) : b;
  for (std::int64_t i = 0; i < places; ++i)
    a = row == "left_shift" ? held(dtype, static_cast<std::int64_t>(2 * static_cast<std::uint64_t>(a)))
                            : (a - (a & 1)) / 2;
  return a;
}

NDArray expected(const BinaryCase& row, const NDArray& a, const NDArray& b) {
  const auto u = a.to_vector<std::int64_t>(), v = b.to_vector<std::int64_t>();
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < u.size(); ++i)
    values.push_back(reference(row.name, a.dtype(), u[i], v[i]));
  return array(values, a.shape());
}

NDArray draw(const BinaryCase& row, DType dtype, std::uint64_t seed, bool places) {
  const double low = is_unsigned(dtype) || dtype == bool_ ? 0 : row.low;
  return random_array({7, 43}, seed, places ? low : 10 * low, dtype == bool_ ? 1.9 : row.high, dtype);
}

bool is_of(const NDArray& y, DType dtype) {
  return y.dtype() == dtype;
}

void check_rows(Device device) {
  for (const BinaryCase& row : rows_of(all_binary_cases(), true)) {
    for (const DType dtype : k_whole_dtypes) {
      if (dtype == bool_ && row.kind == RowKind::whole)
        continue;
      CAPTURE(row.name, dtype);
      const NDArray a = draw(row, dtype, 3, false), b = draw(row, dtype, 4, true);
      const NDArray at = a.to(device), by = b.to(device), y = row(at, by);
      CHECK(is_of(y, dtype));
      CHECK(y.to_vector<std::int64_t>() == expected(row, a, b).to_vector<std::int64_t>());
      CHECK(all_close(row(at.T(), by.T()), y.T()));
      CHECK(all_close(row(at.slice(1, 1, 43, 3), by.slice(1, 1, 43, 3)), y.slice(1, 1, 43, 3)));
      const NDArray line = by.slice(0, 2, 3);
      CHECK(all_close(row(at, line), row(at, line.broadcast_to({7, 43}).copy())));
      if (dtype != bool_) {
        const NDArray three = full({}, 3, {.dtype = dtype, .device = device});
        CHECK(is_of(row(at, 3), dtype));
        CHECK(all_close(row(at, 3), row(at, three)));
        CHECK(all_close(row(3, by), row(three, by)));
      }
    }
  }
  for (const DType dtype : k_whole_dtypes) {
    const NDArray x =
        random_array({5, 9}, 7, dtype == bool_ || is_unsigned(dtype) ? 0 : -100, dtype == bool_ ? 1.9 : 100, dtype);
    std::vector<std::int64_t> want;
    for (const std::int64_t value : x.to_vector<std::int64_t>())
      want.push_back(
          dtype == bool_       ? 1 - value
          : is_unsigned(dtype) ? (std::int64_t{1} << bits_of(dtype)) - 1 - value
                               : -1 - value);
    CAPTURE(dtype);
    CHECK(is_of(bitwise_not(x.to(device)), dtype));
    CHECK(bitwise_not(x.to(device)).to_vector<std::int64_t>() == want);
  }
}

}  // namespace

TEST_CASE("Rows of bits give what their definition says, in every type and layout", "[operator][bitwise]") {
  check_rows(cpu());
}

TEST_CASE("Rows of bits give the same on a GPU", "[operator][bitwise][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_rows(gpu());
}

TEST_CASE("Shifts by negative places or by more than there are leave zeros, or the sign", "[operator][bitwise]") {
  const std::vector<std::int64_t> places = {0, 1, 6, 7, 8, 9, 127, -1, -128};
  const NDArray by = line(places).astype(int8), x = full({9}, -3, {.dtype = int8});
  CHECK(left_shift(x, by).to_vector<int>() == std::vector<int>{-3, -6, 64, -128, 0, 0, 0, 0, 0});
  CHECK(right_shift(x, by).to_vector<int>() == std::vector<int>{-3, -2, -1, -1, -1, -1, -1, -1, -1});
  CHECK(
      right_shift(full({9}, 100, {.dtype = int8}), by).to_vector<int>() ==
      std::vector<int>{100, 50, 1, 0, 0, 0, 0, 0, 0});
  const NDArray wide = array<std::int64_t>({-1, 5});
  CHECK(left_shift(wide, 63).to_vector<std::int64_t>() == std::vector<std::int64_t>(2, std::int64_t{1} << 63));
  CHECK(left_shift(wide, 64).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 0});
  CHECK(right_shift(wide, 64).to_vector<std::int64_t>() == std::vector<std::int64_t>{-1, 0});
  CHECK(right_shift(wide, -1).to_vector<std::int64_t>() == std::vector<std::int64_t>{-1, 0});
}

TEST_CASE("Divisors and multiples of zeros, of negative numbers and of the least ones", "[operator][bitwise]") {
  const NDArray a = line({0, 0, 12, -12, 12, 7, -128}).astype(int8), b = line({0, -6, 0, 18, -18, 11, 96}).astype(int8);
  CHECK(gcd(a, b).to_vector<int>() == std::vector<int>{0, 6, 12, 6, 6, 1, 32});
  CHECK(lcm(a, b).to_vector<int>() == std::vector<int>{0, 0, 0, 36, 36, 77, -128});
  const NDArray least = array<std::int64_t>({std::numeric_limits<std::int64_t>::min()});
  CHECK(gcd(least, 48).to_vector<std::int64_t>() == std::vector<std::int64_t>{16});
  CHECK(gcd(least, 0).to_vector<std::int64_t>() == least.to_vector<std::int64_t>());
  CHECK(is_of(gcd(array<bool>({true}), array<bool>({false})), int64));
  CHECK(gcd(array<std::uint8_t>({250}), array<std::uint8_t>({100})).item<int>() == 50);
}

TEST_CASE("Rows of bits promote whole numbers and refuse others", "[operator][bitwise]") {
  const NDArray flags = array<bool>({true, false}), small = array<std::uint8_t>({6, 255}), whole = array<int>({-1, 12});
  CHECK(is_of(bitwise_and(flags, flags), bool_));
  CHECK(is_of(bitwise_and(flags, small), uint8));
  CHECK(is_of(bitwise_or(small, whole), int32));
  CHECK(bitwise_or(small, whole).to_vector<int>() == std::vector<int>{-1, 255});
  CHECK(is_of(bitwise_xor(flags, 1), int64));
  CHECK(is_of(bitwise_xor(flags, true), bool_));
  CHECK(is_of(left_shift(flags, flags), int64));
  CHECK(left_shift(flags, flags).to_vector<int>() == std::vector<int>{2, 0});
  for (const DType dtype : k_floating_dtypes) {
    const NDArray x = ones({2}, {.dtype = dtype});
    CHECK_THROWS_AS(bitwise_not(x), DTypeError);
    for (const BinaryCase& row : rows_of(all_binary_cases(), true)) {
      CAPTURE(row.name, dtype);
      CHECK_THROWS_AS(row(x, x), DTypeError);
      CHECK_THROWS_AS(row(whole, x), DTypeError);
      CHECK_THROWS_AS(row(x, 1), DTypeError);
      CHECK_THROWS_WITH(row(whole, 1.5), contains(row.name) && contains("float32"));
    }
  }
  CHECK_THROWS_AS(bitwise_and(small, 256), ValueError);
  NDArray real = ones({2});
  real.attach_grad();
  const autograd::RecordScope record;
  CHECK_FALSE(autograd::on_tape(bitwise_not((real > 0))));
}
