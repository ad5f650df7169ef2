// Every order is as likely as any other: counted over many seeds, which are fixed.
#include <cmath>
#include <vector>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace gluon::data;

namespace {

std::vector<std::int32_t> shuffled(std::int64_t samples, std::uint64_t seed, int epoch) {
  DataLoader loader(
      ArrayDataset(zeros({samples, 1}), arange(0, static_cast<double>(samples), 1, {.dtype = int32})),
      {.batch_size = samples, .shuffle = true, .prefetch = 0, .seed = seed});
  for (int skipped = 0; skipped < epoch; ++skipped)
    loader.begin();
  return (*loader.begin()).label.to_vector<std::int32_t>();
}

// Sum of (found - expected)^2 / expected.
double chi_square(const std::vector<int>& found, double expected) {
  double sum = 0;
  for (const int count : found)
    sum += (count - expected) * (count - expected) / expected;
  return sum;
}

}  // namespace

// With k degrees of freedom the statistic has mean k and variance 2k. The bounds lie five deviations away; swapping
// each position with any other, the classic mistake, gives several hundred more.
TEST_CASE("shuffling puts every sample in every place equally often", "[gluon][data]") {
  constexpr std::size_t n = 8, k_orders = 8000;
  for (const int epoch : {0, 1}) {
    std::vector<int> counts(n * n);
    for (std::uint64_t seed = 0; seed < k_orders; ++seed) {
      const std::vector<std::int32_t> order = shuffled(n, seed, epoch);
      for (std::size_t place = 0; place < n; ++place)
        ++counts[place * n + static_cast<std::size_t>(order[place])];
    }
    // Rows and columns add up, which leaves 7 x 7 free.
    CHECK(chi_square(counts, static_cast<double>(k_orders) / n) < 49 + 5 * std::sqrt(2.0 * 49));
  }
}

TEST_CASE("shuffling gives every order equally often", "[gluon][data]") {
  constexpr std::size_t k_orders = 6000;
  std::vector<int> counts(24);
  for (std::uint64_t seed = 0; seed < k_orders; ++seed) {
    const std::vector<std::int32_t> order = shuffled(4, seed, 0);
    std::size_t rank = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      std::size_t smaller = 0;
      for (std::size_t j = i + 1; j < 4; ++j)
        smaller += order[j] < order[i];
      rank = rank * (4 - i) + smaller;
    }
    ++counts[rank];
  }
  CHECK(chi_square(counts, k_orders / 24.0) < 23 + 5 * std::sqrt(2.0 * 23));
}
