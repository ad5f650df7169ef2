// Signs of C++ that stand for operators: & | ^ ~ !, what writes in place, brackets around one array, and where() of
// numbers.
#include <cstdint>
#include <type_traits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Ints = std::vector<int>;
using Bools = std::vector<bool>;

Ints ints(const NDArray& x) {
  return x.to_vector<int>();
}

}  // namespace

static_assert(!std::is_constructible_v<bool, NDArray>, "an array is no condition");

TEST_CASE("& | ^ ~ are bitwise operators, and ! is logical_not, with a number on either side", "[operator][signs]") {
  const NDArray a = array<int>({0b1100, 0b1010}), b = array<int>({0b1010, 0b0110});
  CHECK(ints(a & b) == Ints{0b1000, 0b0010});
  CHECK(ints(a | b) == Ints{0b1110, 0b1110});
  CHECK(ints(a ^ b) == Ints{0b0110, 0b1100});
  CHECK(ints(~a) == Ints{~0b1100, ~0b1010});
  CHECK(ints(a & 4) == Ints{4, 0});
  CHECK(ints(1 | a) == Ints{0b1101, 0b1011});
  CHECK((!a).dtype() == bool_);
  CHECK((!array<float>({0, 2})).to_vector<bool>() == Bools{true, false});
  const NDArray x = arange(0, 5);
  CHECK(((x > 0.0F) & (x < 3.0F)).to_vector<bool>() == Bools{false, true, true, false, false});
  CHECK(((x == 0.0F) | (x == 4.0F)).to_vector<bool>() == Bools{true, false, false, false, true});
  CHECK((~(x > 1.0F)).to_vector<bool>() == Bools{true, true, false, false, false});
  CHECK((!(x > 1.0F)).to_vector<bool>() == Bools{true, true, false, false, false});
  CHECK_THROWS_AS(x & 1, DTypeError);
  CHECK_THROWS_AS(~x, DTypeError);
  CHECK_THROWS_WITH(!NDArray(), contains("logical_not") && contains("test_signs.cpp"));
  CHECK_THROWS_WITH(a & zeros({3}, {.dtype = int32}), contains("bitwise_and") && contains("test_signs.cpp"));
}

TEST_CASE("&= |= ^= write in place, to views too", "[operator][signs]") {
  NDArray a = array<int>({0b1100, 0b1010});
  (a &= 0b0110) |= array<int>({1, 8});
  CHECK(ints(a) == Ints{0b0101, 0b1010});
  a[1] ^= 0b1111;
  CHECK(ints(a) == Ints{0b0101, 0b0101});
  NDArray mask = arange(0, 3) > 0.0F;
  mask &= arange(0, 3) < 2.0F;
  CHECK(mask.to_vector<bool>() == Bools{false, true, false});
  NDArray x = arange(0, 3);
  CHECK_THROWS_AS(x &= 1, DTypeError);
}

TEST_CASE("Brackets around one mask or index array are those around a list of it", "[operator][signs]") {
  const NDArray x = arange(0, 6).reshape({2, 3}), rows = array<int>({1, 0, 1});
  CHECK(x[x > 2.0F].to_vector<float>() == std::vector<float>{3, 4, 5});
  CHECK(differences(x[rows], take(x, rows)) == "");
  CHECK(x[array<bool>({false, true})].shape() == Shape{1, 3});
  CHECK(x[k_new_axis].shape() == Shape{1, 2, 3});
  CHECK(x[1].shape() == Shape{3});
  CHECK((x[{1, 2}]).shape() == Shape{});
  CHECK((x[{}]).shape() == Shape{2, 3});
  CHECK_THROWS_WITH(x[zeros({2})], contains("index arrays are of an integer type") && contains("test_signs.cpp"));
  CHECK_THROWS_AS(x[NDArray()], ValueError);
}

TEST_CASE("What is written in place to a copy that no one sees is refused", "[operator][signs]") {
  NDArray x = arange(0, 3);
  const NDArray mask = x > 0.0F, places = array<int>({0, 2});
  CHECK_THROWS_WITH((x[{mask}] += 1), contains("operator+=: ") && contains("a.add_at(") && contains("test_signs.cpp"));
  CHECK_THROWS_AS(x[mask] += 1, ValueError);
  CHECK_THROWS_AS((x[places] -= x[{{0, 2}}]), ValueError);
  CHECK_THROWS_WITH(x[places] *= 2, contains("a.assign({..}, a[{..}] * value)"));
  CHECK_THROWS_AS((x[{places}] /= 2), ValueError);
  CHECK_THROWS_WITH((x[{mask}].assign(7)), contains("assign: ") && contains("a.assign({..}") && contains("test_signs"));
  CHECK_THROWS_WITH(x[mask].assign(zeros({2})), contains("of shape (2,)") && contains("test_signs.cpp"));
  CHECK_THROWS_AS((x[{places}].assign(true)), ValueError);
  CHECK(x.to_vector<float>() == std::vector<float>{0, 1, 2});
  NDArray named = x[mask];  // of a copy with a name it is what was meant
  named += 1;
  CHECK(named.to_vector<float>() == std::vector<float>{2, 3});
  named.assign(4);
  CHECK(named.to_vector<float>() == std::vector<float>{4, 4});
  CHECK(zeros({2}).assign(named).to_vector<float>() == std::vector<float>{4, 4});
  CHECK_THROWS_AS(NDArray().assign(1), ValueError);
  x.assign({mask}, x[mask] + 1);
  x.add_at({places}, full({}, 10));
  x[0] += 1;
  x[{{1, {}}}] *= 2;
  CHECK(x.to_vector<float>() == std::vector<float>{11, 4, 26});
  CHECK((arange(0, 2) + 1).same(NDArray()) == false);
  CHECK(((arange(0, 2) * 1) += 5).to_vector<float>() == std::vector<float>{5, 6});
}

TEST_CASE("where() of two numbers is of the type that both take beside a truth", "[operator][signs]") {
  const NDArray c = array<bool>({true, false});
  CHECK(where(c, 1, 0).dtype() == int64);
  CHECK(ints(where(c, 1, 0)) == Ints{1, 0});
  CHECK(where(c, 1, 0.5).dtype() == float32);
  CHECK(where(c, 1, 0.5).to_vector<float>() == std::vector<float>{1, 0.5});
  CHECK(where(c, 0.25, 2).to_vector<float>() == std::vector<float>{0.25, 2});
  CHECK(where(c, false, true).dtype() == bool_);
  CHECK(where(c, false, true).to_vector<bool>() == Bools{false, true});
  CHECK(ints(where(arange(0, 3), true, 7)) == Ints{7, 1, 1});
  CHECK(where(zeros({2, 0}), 1, 2).shape() == Shape{2, 0});
  CHECK_THROWS_WITH(where(NDArray(), 1, 0), contains("where: ") && contains("test_signs.cpp"));
}
