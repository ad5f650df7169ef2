// Orders of samples and batches, and loaders that follow them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;

namespace {

using Indices = std::vector<std::int64_t>;

ArrayDataset counting(std::int64_t n) {
  return ArrayDataset(zeros({n, 1}), arange(0, static_cast<double>(n), 1, {.dtype = int64}));
}

std::vector<Indices> epoch(DataLoader& loader) {
  std::vector<Indices> batches;
  for (auto [x, y] : loader)
    batches.push_back(y.to_vector<std::int64_t>());
  return batches;
}

// Batches by length: two of the even samples, one of all odd ones.
struct Grouped {
  std::int64_t wrong = 0;
  std::int64_t size() const { return 3 + wrong; }
  std::vector<Indices> batches(const RandomBlock& random) const {
    if (random.offset % 2 == 1)
      return {{0}, {2, 4}, {1, 3, 5}};
    return {{1, 3, 5}, {0}, {2, 4}};
  }
};

}  // namespace

TEST_CASE("samplers give the indices that they say", "[gluon][data]") {
  const RandomBlock one{.seed = 1}, two{.seed = 1, .offset = 1};
  CHECK(SequentialSampler(3).order(one) == Indices{0, 1, 2});
  CHECK(SequentialSampler(2, 5).order(one) == Indices{5, 6});
  CHECK(IntervalSampler(13, 3).order(one) == Indices{0, 3, 6, 9, 12, 1, 4, 7, 10, 2, 5, 8, 11});
  CHECK(IntervalSampler(13, 3, false).order(one) == Indices{0, 3, 6, 9, 12});
  CHECK(IntervalSampler(13, 3, false).size() == 5);
  CHECK(IntervalSampler(12, 3, false).size() == 4);
  CHECK(SubsetSampler({7, 3, 7}).order(one) == Indices{7, 3, 7});
  const Indices shuffled = SubsetSampler({1, 2, 3, 4, 5, 6, 7, 8}, true).order(one);
  CHECK(shuffled != SubsetSampler({1, 2, 3, 4, 5, 6, 7, 8}, true).order(two));
  CHECK(std::is_permutation(shuffled.begin(), shuffled.end(), SequentialSampler(8, 1).order(one).begin()));
  const auto big = [](const Sample& sample) { return sample[1].item<std::int64_t>() > 2; };
  CHECK(FilterSampler(big, counting(5)).order(one) == Indices{3, 4});
  Indices order = RandomSampler(10, {.num_samples = 6}).order(one);
  CHECK(order.size() == 6);
  std::sort(order.begin(), order.end());
  CHECK(std::adjacent_find(order.begin(), order.end()) == order.end());
  CHECK(Sampler(RandomSampler(4)).is_random());
  CHECK_FALSE(Sampler(SubsetSampler({1})).is_random());
}

TEST_CASE("samplers refuse what cannot be", "[gluon][data]") {
  CHECK_THROWS_AS(SequentialSampler(-1), ValueError);
  CHECK_THROWS_AS(IntervalSampler(3, 4), ValueError);
  CHECK_THROWS_AS(IntervalSampler(3, 0), ValueError);
  CHECK_THROWS_WITH(RandomSampler(3, {.num_samples = 4}), contains("4 samples of 3"));
  CHECK_THROWS_AS(RandomSampler(0, {.replacement = true, .num_samples = 4}), ValueError);
  CHECK_THROWS_WITH(WeightedSampler({1, -1}), contains("weight 1 is -1"));
  CHECK_THROWS_AS(WeightedSampler({1, std::nan("")}), ValueError);
  CHECK_THROWS_AS(WeightedSampler({std::numeric_limits<double>::infinity()}), ValueError);
  CHECK_THROWS_AS(WeightedSampler({1e308, 1e308}), ValueError);
  CHECK_THROWS_AS(WeightedSampler({0, 0}), ValueError);
  CHECK_THROWS_AS(WeightedSampler({}), ValueError);
  CHECK_THROWS_AS(WeightedSampler({1, 0, 1}, {.num_samples = 3}), ValueError);
}

TEST_CASE("a weighted sampler draws as often as the weights say", "[gluon][data]") {
  const std::vector<double> weights = {0, 1, 0, 3, 6, 0};
  constexpr std::int64_t k_draws = 20000;
  std::vector<double> counts(weights.size());
  for (const std::int64_t index :
       WeightedSampler(weights, {.replacement = true, .num_samples = k_draws}).order({.seed = 4}))
    counts.at(static_cast<std::size_t>(index)) += 1;
  for (std::size_t i = 0; i < weights.size(); ++i)
    CHECK(counts[i] / k_draws == Approx(weights[i] / 10).margin(0.017));
  // Without replacement the first is drawn by weight, all others come once.
  std::vector<double> first(weights.size());
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Indices order = WeightedSampler(weights, {}).order({.seed = seed});
    first.at(static_cast<std::size_t>(order[0])) += 1;
    std::sort(order.begin(), order.end());
    REQUIRE(order == Indices{1, 3, 4});
  }
  for (std::size_t i = 0; i < weights.size(); ++i)
    CHECK(first[i] / 2000 == Approx(weights[i] / 10).margin(0.055));
}

TEST_CASE("drawing with replacement is even", "[gluon][data]") {
  std::vector<int> counts(5);
  for (const std::int64_t index : RandomSampler(5, {.replacement = true, .num_samples = 10000}).order({.seed = 1}))
    ++counts.at(static_cast<std::size_t>(index));
  for (const int count : counts)
    CHECK(std::abs(count - 2000) < 200);
}

TEST_CASE("a loader follows its sampler", "[gluon][data]") {
  DataLoader every(counting(7), {.batch_size = 2, .sampler = IntervalSampler(7, 3)});
  CHECK(every.size() == 4);
  CHECK(epoch(every) == std::vector<Indices>{{0, 3}, {6, 1}, {4, 2}, {5}});
  DataLoader some(counting(7), {.batch_size = 2, .last_batch = "rollover", .sampler = SubsetSampler({6, 5, 4})});
  CHECK(epoch(some) == std::vector<Indices>{{6, 5}});
  CHECK(some.size() == 2);
  CHECK(epoch(some) == std::vector<Indices>{{4, 6}, {5, 4}});
  const auto make = [](bool by_option) {
    DataLoaderOptions options{.batch_size = 3, .shuffle = by_option, .seed = 2};
    if (!by_option)
      options.sampler = RandomSampler(11);
    return DataLoader(counting(11), options);
  };
  DataLoader shuffled = make(true), sampled = make(false);
  CHECK(epoch(shuffled) == epoch(sampled));
  CHECK(epoch(shuffled) == epoch(sampled));
  DataLoader none(counting(3), {.sampler = SubsetSampler({})});
  CHECK(epoch(none).empty());
  DataLoader beyond(counting(3), {.sampler = SubsetSampler({3})});
  CHECK_THROWS_WITH(beyond.begin(), contains("names sample 3, there are 3"));
  CHECK_THROWS_AS(DataLoader(counting(3), {.shuffle = true, .sampler = RandomSampler(3)}), ValueError);
}

TEST_CASE("batches may be of any kind", "[gluon][data]") {
  DataLoader grouped(counting(6), {.seed = 0, .batch_sampler = Grouped()});
  CHECK(grouped.size() == 3);
  CHECK(epoch(grouped) == std::vector<Indices>{{1, 3, 5}, {0}, {2, 4}});
  CHECK(epoch(grouped) == std::vector<Indices>{{0}, {2, 4}, {1, 3, 5}});
  DataLoader wrong(counting(6), {.seed = 0, .batch_sampler = Grouped{1}});
  CHECK_THROWS_WITH(wrong.begin(), contains("gave 3 batches") && contains("4"));
  DataLoader plain(counting(5), {.batch_sampler = BatchSampler(SequentialSampler(5), 2, "discard")});
  CHECK(epoch(plain) == std::vector<Indices>{{0, 1}, {2, 3}});
  CHECK_THROWS_AS(DataLoader(counting(5), {.batch_size = 2, .batch_sampler = Grouped()}), ValueError);
  CHECK_THROWS_AS(DataLoader(counting(5), {.shuffle = true, .batch_sampler = Grouped()}), ValueError);
  CHECK_THROWS_AS(BatchSampler(SequentialSampler(5), 0), ValueError);
  CHECK_THROWS_WITH(BatchSampler(SequentialSampler(5), 2, "drop"), contains("drop"));
}

TEST_CASE("a loader with a sampler goes on from its state", "[gluon][data]") {
  for (const bool own : {false, true}) {
    const auto make = [&] {
      DataLoaderOptions options{.seed = 6};
      if (own) {
        options.batch_sampler = Grouped();
      } else {
        options.batch_size = 4;
        options.last_batch = "rollover";
        options.sampler = WeightedSampler({1, 2, 3, 4, 5, 6}, {.replacement = true, .num_samples = 11});
      }
      return DataLoader(counting(6), options);
    };
    DataLoader first = make(), second = make();
    epoch(first);
    DataLoaderState middle;
    std::vector<Indices> rest;
    for (auto [x, y] : first) {
      if (middle.position == 1)
        rest.push_back(y.to_vector<std::int64_t>());
      else
        middle = first.state();
    }
    second.load_state(middle);
    CHECK(second.size() == static_cast<std::int64_t>(rest.size()));
    CHECK(epoch(second) == rest);
    CHECK(epoch(second) == epoch(first));
    middle.position = 9;
    CHECK_THROWS_AS(second.load_state(middle), ValueError);
    middle.position = 1;
    middle.order.seed = 5;
    CHECK_THROWS_WITH(second.load_state(middle), contains("seed 5"));
  }
}
