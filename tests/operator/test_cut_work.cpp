// What CPU kernels cut among threads, move past the caches or do some at a time: against plain loops, and the same bits
// on any number of workers.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sluice/ndarray/detail/simd_target.h>
#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Numbers = std::vector<double>;

NDArray drawn(const Shape& shape, DType dtype = float32) {
  random::seed(7);
  return random::uniform(-1, 1, shape).astype(dtype);
}
NDArray places(std::int64_t below, std::int64_t count) {
  random::seed(8);
  return random::randint(0, below, {count}, {.dtype = int64});
}

/// What `make` makes with 1 worker, after 2 and 4 made the same bits.
Numbers on_any_workers(const std::function<NDArray()>& make) {
  Numbers first;
  for (const int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    const Numbers made = make().to_vector<double>();
    INFO(workers << " workers");
    if (workers == 1)
      first = made;
    CHECK((made == first));
  }
  return first;
}

}  // namespace

TEST_CASE("Many rows that are taken are those that the numbers name", "[indexing]") {
  // Of whole lines and not, so many that they go past the caches, and fewer.
  const std::int64_t width = GENERATE(16, 64, 80, 100), count = GENERATE(2000, 20011);
  const DType dtype = GENERATE(float32, bfloat16);
  const Numbers taken = on_any_workers([=] { return embedding(places(999, count), drawn({999, width}, dtype)); });
  const Numbers table = drawn({999, width}, dtype).to_vector<double>();
  const auto rows = places(999, count).to_vector<std::int64_t>();
  Numbers wanted;
  for (const std::int64_t row : rows)
    wanted.insert(wanted.end(), table.begin() + row * width, table.begin() + (row + 1) * width);
  CHECK((taken == wanted));
}

TEST_CASE("Of many values the last one of an entry stays, and sums have the order of the values", "[indexing]") {
  const std::int64_t n = GENERATE(70001, 300), count = 50000, inner = GENERATE(1, 3);
  const auto at = [=] { return places(n, count); };
  const auto x = [=] { return drawn({n, inner}); };
  const auto values = [=] { return drawn({count, inner}); };
  const Numbers put_ones = on_any_workers([&] { return index_update(x(), {at()}, values()); });
  const Numbers added = on_any_workers([&] { return index_add(x(), {at()}, values()); });
  const auto given = x().to_vector<float>(), each = values().to_vector<float>();
  const auto named = at().to_vector<std::int64_t>();
  std::vector<float> last = given, sums(given.size(), 0);
  for (std::size_t i = 0; i < each.size(); ++i) {
    const auto to = static_cast<std::size_t>(named[i / static_cast<std::size_t>(inner)] * inner) +
                    i % static_cast<std::size_t>(inner);
    last[to] = each[i];
    sums[to] += each[i];
  }
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] += given[i];
  CHECK((put_ones == Numbers(last.begin(), last.end())));
  CHECK((added == Numbers(sums.begin(), sums.end())));
}

TEST_CASE("A number beyond the axis is found by whichever thread", "[indexing]") {
  const std::int64_t n = 60000;
  NDArray at = places(n, 40000);
  at.slice(0, 39999, 40000).assign(full({1}, static_cast<double>(n), {.dtype = int64}));
  const NDArray x = drawn({n}), values = drawn({40000});
  for (const NDArray& y : {put(x, at, values), index_add(x, {at}, values)})
    CHECK_THROWS_AS(y.to_vector<float>(), IndexError);
}

TEST_CASE("Small matrices have the roots that their products say", "[linalg]") {
  const DType dtype = GENERATE(float32, float64);
  const std::int64_t n = GENERATE(1, 2, 5, 16, 31, 32, 33);
  const NDArray x = drawn({40, n, n}, dtype);
  const NDArray definite = matmul(x, x.swapaxes(-1, -2)) + eye(n, {}, 0, {.dtype = dtype}) * 2;
  const NDArray root = cholesky(definite);
  CHECK(differences(matmul(root, root.swapaxes(-1, -2)), definite, Tolerance{1e-4, 1e-4}) == "");
  CHECK(differences(tril(root), root, Tolerance{0, 0}) == "");
  NDArray wrong = definite.copy();
  wrong.slice(0, 17, 18).assign(wrong.slice(0, 17, 18) * -1);
  CHECK_THROWS_WITH(cholesky(wrong).to_vector<double>(), contains("17"));
}

TEST_CASE("Equations with many right sides are solved in the same pieces on any workers", "[linalg]") {
  const auto a = [] { return drawn({300, 300}) + eye(300) * 30; };
  const auto b = [] { return drawn({300, 421}); };
  const auto wanted = b();
  on_any_workers([&] { return solve(a(), b()); });
  on_any_workers([&] { return triangular_solve(a(), b()); });
  on_any_workers([&] { return inverse(a()); });
  CHECK(differences(matmul(a(), solve(a(), b())), wanted, Tolerance{1e-4, 1e-4}) == "");
  CHECK(differences(matmul(tril(a()), triangular_solve(a(), b())), wanted, Tolerance{1e-4, 1e-4}) == "");
  CHECK(differences(matmul(inverse(a()), a()), eye(300), Tolerance{1e-4, 1e-4}) == "");
}

TEST_CASE("Columns add up row by row, some rows at once or one by one", "[reduce]") {
  const DType dtype = GENERATE(float32, float64, float16, bfloat16);
  const std::int64_t rows = GENERATE(1, 7, 64, 65, 73, 600), columns = GENERATE(2, 15, 64, 255, 300);
  CAPTURE(dtype, rows, columns);
  const auto sums = [=] { return sum(drawn({rows, columns}, dtype), {0}); };
  const Numbers in_vectors = on_any_workers(sums);
  const simd::TargetScope plain(simd::Target::scalar);
  CHECK((sums().to_vector<double>() == in_vectors));
}

TEST_CASE("Categories are drawn in proportion from however many there are", "[random]") {
  const std::int64_t n = GENERATE(1, 2, 3, 7, 64, 1000), draws = 300;
  const Numbers drawn_ones = on_any_workers([=] {
    random::seed(5);
    return random::categorical(random::uniform(0.1, 1, {5, n}), draws);
  });
  for (const double category : drawn_ones)
    CHECK((category >= 0 && category < static_cast<double>(n)));
  // Those without a weight are never drawn, at an end or between others.
  NDArray weights = zeros({n + 2});
  weights.slice(0, 1, n + 1).assign(full({n}, 0.5));
  const auto inner = random::categorical(weights, 4000).to_vector<std::int64_t>();
  const auto [least, most] = std::minmax_element(inner.begin(), inner.end());
  CHECK(*least >= 1);
  CHECK(*most <= n);
  if (n <= 64) {  // each of them is drawn some 60 times
    CHECK(*least == 1);
    CHECK(*most == n);
  }
}
