// Datasets made of others: parts, choices and chains.
#include <algorithm>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;

namespace {

using Labels = std::vector<std::int64_t>;

// n samples: data (2,) of `first` + i, label the same.
ArrayDataset counting(std::int64_t n, std::int64_t first = 0) {
  const NDArray labels = arange(static_cast<double>(first), static_cast<double>(first + n), 1, {.dtype = int64});
  return ArrayDataset(labels.astype(float32).reshape({n, 1}).broadcast_to({n, 2}), labels);
}

// Labels by way of a loader, whose data must agree; sample by sample they must be the same.
Labels labels_of(const AnyDataset& dataset, std::int64_t batch_size = 3) {
  Labels all;
  DataLoader loader(dataset, {.batch_size = batch_size});
  for (auto [x, y] : loader) {
    const Labels some = y.to_vector<std::int64_t>();
    const std::vector<float> data = values(x);
    for (std::size_t i = 0; i < some.size(); ++i) {
      CHECK(data[2 * i] == static_cast<float>(some[i]));
      CHECK(data[2 * i + 1] == static_cast<float>(some[i]));
    }
    all.insert(all.end(), some.begin(), some.end());
  }
  for (std::int64_t i = 0; i < dataset.size(); ++i)
    CHECK(dataset[i][1].item<std::int64_t>() == all[static_cast<std::size_t>(i)]);
  return all;
}

Labels range(std::int64_t from, std::int64_t to) {
  Labels all;
  for (; from < to; ++from)
    all.push_back(from);
  return all;
}

// The same samples without a shape that is known.
AnyDataset unknown(const AnyDataset& dataset) {
  return dataset.transform([](const Sample& sample) { return sample; });
}

}  // namespace

TEST_CASE("take and shard are parts in a row", "[gluon][data]") {
  CHECK(labels_of(counting(10).take(4)) == range(0, 4));
  CHECK(labels_of(counting(3).take(4)) == range(0, 3));
  CHECK(counting(3).take(0).size() == 0);
  CHECK_THROWS_AS(counting(3).take(-1), ValueError);
  Labels all;
  for (std::int64_t i = 0; i < 4; ++i) {
    const Labels part = labels_of(counting(10).shard(4, i));
    CHECK(part.size() == (i < 2 ? 3 : 2));
    all.insert(all.end(), part.begin(), part.end());
  }
  CHECK(all == range(0, 10));
  CHECK(counting(2).shard(3, 2).size() == 0);
  CHECK_THROWS_AS(counting(3).shard(3, 3), ValueError);
  CHECK_THROWS_AS(counting(3).shard(3, -1), ValueError);
  CHECK_THROWS_AS(counting(3).shard(0, 0), ValueError);
}

TEST_CASE("filter finds the samples that hold, sample those that a sampler names", "[gluon][data]") {
  const auto odd = [](const Sample& sample) { return sample[1].item<std::int64_t>() % 2 == 1; };
  CHECK(labels_of(counting(8).filter(odd)) == Labels{1, 3, 5, 7});
  CHECK(counting(1).filter(odd).size() == 0);
  CHECK(labels_of(counting(5).sample(SubsetSampler({4, 0, 4}))) == Labels{4, 0, 4});
  const Labels drawn = labels_of(counting(20).sample(RandomSampler(20), 3));
  CHECK(drawn == labels_of(counting(20).sample(RandomSampler(20), 3)));
  CHECK(drawn != labels_of(counting(20).sample(RandomSampler(20), 4)));
  CHECK(std::is_permutation(drawn.begin(), drawn.end(), range(0, 20).begin()));
  CHECK_THROWS_AS(counting(5).sample(SubsetSampler({5})), IndexError);
  CHECK_THROWS_AS(counting(5).sample(SubsetSampler({-1})), IndexError);
  // Choices of choices.
  CHECK(labels_of(counting(20).filter(odd).shard(2, 1).take(3)) == Labels{11, 13, 15});
}

TEST_CASE("datasets stand one after another, whatever they are made of", "[gluon][data]") {
  const AnyDataset both = concatenate({counting(4), counting(0, 50), counting(3, 100), counting(1, 7)});
  CHECK(both.node()->specs().has_value());
  CHECK(labels_of(both) == Labels{0, 1, 2, 3, 100, 101, 102, 7});
  CHECK(labels_of(both.sample(SubsetSampler({7, 6, 0, 5, 1, 4}))) == Labels{7, 102, 0, 101, 1, 100});
  const AnyDataset mixed = concatenate({counting(2), unknown(counting(2, 5))});
  CHECK_FALSE(mixed.node()->specs().has_value());
  CHECK(labels_of(mixed) == Labels{0, 1, 5, 6});
  CHECK_THROWS_AS(concatenate({}), ValueError);
  const AnyDataset other = concatenate({counting(2), ArrayDataset(zeros({2, 3}), zeros({2}, {.dtype = int64}))});
  DataLoader loader(other, {.batch_size = 4});
  CHECK_THROWS_WITH((*loader.begin()).data.wait_to_read(), contains("shape (3,)") && contains("at sample 2"));
}

TEST_CASE("transforms after a choice are those before it", "[gluon][data]") {
  struct Halved {
    ArraySpec output_spec(const ArraySpec& in) const { return in; }
    void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const {
      for (std::int64_t i = 0; i < in.size; ++i)
        out.as<float>()[i] = in.as<float>()[i] / 2 + static_cast<float>(random.uniform());
    }
  };
  const auto data_of = [](const AnyDataset& dataset) {
    DataLoader loader(dataset, {.batch_size = 7, .seed = 2});
    return values((*loader.begin()).data);
  };
  const AnyDataset one = concatenate({counting(4), counting(3, 100)});
  const std::vector<float> found = data_of(one.transform_first(Halved()).transform_first(Halved()));
  CHECK(
      found == data_of(concatenate({counting(4).transform_first(Halved()), counting(3, 100).transform_first(Halved())})
                           .transform_first(Halved())));
  CHECK(found == data_of(unknown(one).transform_first(Halved()).take(7).transform_first(Halved())));
  CHECK(found == data_of(unknown(one.transform_first(Halved())).transform_first(Halved())));
}

TEST_CASE("split gives parts by numbers or fractions, in order or at random", "[gluon][data]") {
  const auto sizes = [](const std::vector<AnyDataset>& parts) {
    Labels all;
    for (const AnyDataset& part : parts)
      all.push_back(part.size());
    return all;
  };
  CHECK(sizes(split(counting(10), {3, 7})) == Labels{3, 7});
  CHECK(sizes(split(counting(10), {0.8, 0.2})) == Labels{8, 2});
  CHECK(sizes(split(counting(10), {0.33, 0.33, 0.34})) == Labels{4, 3, 3});
  CHECK(sizes(split(counting(1), {0.5, 0.5})) == Labels{1, 0});
  CHECK(sizes(split(counting(5), {1.0, 0.0})) == Labels{5, 0});
  CHECK(sizes(split(counting(10), {0.1, 0.2, 0.3, 0.4})) == Labels{1, 2, 3, 4});
  const auto parts = split(counting(10), {3, 7});
  CHECK(labels_of(parts[1]) == range(3, 10));
  CHECK_THROWS_WITH(split(counting(10), {3, 8}), contains("11") && contains("10"));
  CHECK_THROWS_AS(split(counting(10), {2.5, 7.5}), ValueError);
  CHECK_THROWS_AS(split(counting(10), {-1, 11}), ValueError);
  CHECK_THROWS_AS(split(counting(10), {}), ValueError);
  CHECK_THROWS_AS(split(counting(10), {std::nan(""), 1}), ValueError);
  const auto random = random_split(counting(10), {0.5, 0.5}, 7), same = random_split(counting(10), {0.5, 0.5}, 7);
  Labels all = labels_of(random[0]);
  CHECK(all == labels_of(same[0]));
  CHECK(all != range(0, 5));
  for (const std::int64_t label : labels_of(random[1]))
    all.push_back(label);
  CHECK(std::is_permutation(all.begin(), all.end(), range(0, 10).begin()));
}
