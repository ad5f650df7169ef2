#include <algorithm>
#include <atomic>
#include <numeric>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;

namespace {

// n samples: data (i), label i.
ArrayDataset counting(std::int64_t n) {
  return ArrayDataset(
      arange(0, static_cast<double>(n)).reshape({n, 1}), arange(0, static_cast<double>(n), 1, {.dtype = int32}));
}

using Labels = std::vector<std::vector<std::int32_t>>;

Labels epoch(DataLoader& loader) {
  Labels batches;
  for (auto [x, y] : loader) {
    batches.push_back(y.to_vector<std::int32_t>());
    const std::vector<float> data = values(x);
    REQUIRE(std::equal(data.begin(), data.end(), batches.back().begin(), batches.back().end()));
  }
  return batches;
}

std::vector<std::int32_t> joined(const Labels& batches) {
  std::vector<std::int32_t> all;
  for (const auto& batch : batches)
    all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

std::vector<std::int32_t> sorted(std::vector<std::int32_t> labels) {
  std::sort(labels.begin(), labels.end());
  return labels;
}

std::vector<std::int32_t> up_to(std::int32_t n) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// A transform that throws at one sample.
struct Faulty {
  float at;
  ArraySpec output_spec(const ArraySpec& in) const { return in; }
  void operator()(const TensorView& in, const TensorView& out) const {
    if (*in.as<float>() == at)
      throw ValueError("sample " + std::to_string(static_cast<int>(at)) + " is bad");
    *out.as<float>() = *in.as<float>();
  }
};

}  // namespace

TEST_CASE("the last batch is kept, discarded, or rolls over", "[gluon][data]") {
  DataLoader keep(counting(5), {.batch_size = 2});
  CHECK(keep.size() == 3);
  CHECK(epoch(keep) == Labels{{0, 1}, {2, 3}, {4}});
  CHECK(epoch(keep) == Labels{{0, 1}, {2, 3}, {4}});
  DataLoader discard(counting(5), {.batch_size = 2, .last_batch = "discard"});
  CHECK(discard.size() == 2);
  CHECK(epoch(discard) == Labels{{0, 1}, {2, 3}});
  CHECK(epoch(discard) == Labels{{0, 1}, {2, 3}});
  DataLoader rollover(counting(5), {.batch_size = 2, .last_batch = "rollover"});
  CHECK(rollover.size() == 2);
  CHECK(epoch(rollover) == Labels{{0, 1}, {2, 3}});
  CHECK(rollover.size() == 3);
  CHECK(epoch(rollover) == Labels{{4, 0}, {1, 2}, {3, 4}});
  DataLoader none(counting(2), {.batch_size = 3, .last_batch = "discard"});
  CHECK(epoch(none).empty());
}

TEST_CASE("shuffling visits every sample once, by seed", "[gluon][data]") {
  const auto two_epochs = [](std::uint64_t seed) {
    DataLoader loader(counting(101), {.batch_size = 8, .shuffle = true, .seed = seed});
    const auto first = joined(epoch(loader)), second = joined(epoch(loader));
    CHECK(sorted(first) == up_to(101));
    CHECK(sorted(second) == up_to(101));
    CHECK(first != second);
    CHECK(first != up_to(101));
    return std::pair(first, second);
  };
  CHECK(two_epochs(1) == two_epochs(1));
  CHECK(two_epochs(1) != two_epochs(2));
}

TEST_CASE("without a seed of its own shuffling follows the engine's", "[gluon][data]") {
  const auto order = [](std::uint64_t seed) {
    Engine engine({.workers = 2, .seed = seed});
    EngineScope scope(engine);
    DataLoader loader(counting(50), {.batch_size = 7, .shuffle = true});
    return joined(epoch(loader));
  };
  CHECK(order(5) == order(5));
  CHECK(order(5) != order(6));
}

TEST_CASE("what a transform throws surfaces where its batch is used", "[gluon][data]") {
  DataLoader loader(counting(6).transform_first(Faulty{3}), {.batch_size = 2});
  int batch = 0;
  for (auto [x, y] : loader) {
    if (batch++ == 1) {
      CHECK_THROWS_WITH(x.wait_to_read(), contains("sample 3 is bad"));
      CHECK_THROWS_AS((x + 1).wait_to_read(), ValueError);
      CHECK_THROWS_AS(y.wait_to_read(), ValueError);
    } else {
      CHECK_NOTHROW(x.wait_to_read());
    }
  }
  CHECK(batch == 3);
}

TEST_CASE("an epoch may be left early, and its batches outlive it", "[gluon][data]") {
  NDArray kept;
  {
    DataLoader loader(counting(1000), {.batch_size = 10, .prefetch = 5});
    for (auto [x, y] : loader) {
      kept = y;
      break;
    }
    for (auto [x, y] : loader) {
      CHECK(y.to_vector<std::int32_t>() == kept.to_vector<std::int32_t>());
      break;
    }
  }
  CHECK(kept.to_vector<std::int32_t>() == up_to(10));
}

TEST_CASE("batches are made ahead, as many as prefetch says", "[gluon][data]") {
  // Counts samples as they are read.
  struct Counting {
    std::shared_ptr<std::atomic<int>> read;
    ArraySpec output_spec(const ArraySpec& in) const { return in; }
    void operator()(const TensorView& in, const TensorView& out) const {
      ++*read;
      *out.as<float>() = *in.as<float>();
    }
  };
  for (int prefetch : {0, 1, 3}) {
    const auto read = std::make_shared<std::atomic<int>>(0);
    DataLoader loader(counting(10).transform_first(Counting{read}), {.batch_size = 1, .prefetch = prefetch});
    auto batches = loader.begin();
    Engine::current().wait_all();
    CHECK(*read == 1 + prefetch);
    ++batches;
    Engine::current().wait_all();
    CHECK(*read == 2 + prefetch);
  }
}

TEST_CASE("a dataset of arrays in braces is one of these arrays", "[gluon][data]") {
  const NDArray x = arange(4).reshape({4, 1}), y = arange(4);
  CHECK(ArrayDataset({x, y}).specs().size() == 2);
  CHECK(ArrayDataset({x}).specs().size() == 1);
  const ArrayDataset three{x, y, y};
  CHECK(three.specs().size() == 3);
  CHECK(ArrayDataset(three).size() == 4);
  CHECK_THROWS_AS(ArrayDataset({x, arange(3)}), ShapeError);
}

TEST_CASE("a dataset's arrays are read in order with what is written to them", "[gluon][data]") {
  NDArray x = zeros({4, 1});
  DataLoader loader(ArrayDataset(x, zeros({4})), {.batch_size = 4});
  x.assign(1);
  auto batches = loader.begin();
  const Batch before = *batches;
  x.assign(2);
  CHECK(values(before.data) == std::vector<float>(4, 1));
  CHECK(values((*loader.begin()).data) == std::vector<float>(4, 2));
}

TEST_CASE("a loader works on the serial engine and inside others' scopes", "[gluon][data]") {
  Engine engine({.cpu_policy = CpuMode::serial});
  EngineScope scope(engine);
  DataLoader loader(counting(5), {.batch_size = 2});
  CHECK(joined(epoch(loader)) == up_to(5));
}

TEST_CASE("a loader refuses nonsense", "[gluon][data]") {
  CHECK_THROWS_AS(DataLoader(counting(5), {.batch_size = 0}), ValueError);
  CHECK_THROWS_AS(DataLoader(counting(5), {.prefetch = -1}), ValueError);
  CHECK_THROWS_WITH(DataLoader(counting(5), {.last_batch = "drop"}), contains("drop"));
  CHECK_THROWS_AS(DataLoader(ArrayDataset(zeros({0, 2}), zeros({0}))), ValueError);
}

namespace {

// The engine's random numbers as they stand; resumed loaders need them too.
struct Saved {
  DataLoaderState loader;
  RandomBlock random;
};

// The labels of what is left after `batches` batches, and of two more epochs. `saved`: where it stood.
Labels labels_after(DataLoader& loader, std::int64_t batches, Saved& saved) {
  Labels rest;
  std::int64_t seen = 0;
  for (auto [x, y] : loader) {
    if (seen++ >= batches)
      rest.push_back(y.to_vector<std::int32_t>());
    if (seen == batches)
      saved = {loader.state(), Engine::current().random_state()};
  }
  for (int i = 0; i < 2; ++i) {
    for (const auto& batch : epoch(loader))
      rest.push_back(batch);
  }
  return rest;
}

}  // namespace

TEST_CASE("a loader goes on in the midst of an epoch as if it had not stopped", "[gluon][data]") {
  for (const std::string last : {"keep", "discard", "rollover"}) {
    for (std::int64_t batches : {1, 2, 5, 6, 7}) {
      INFO(last << " after " << batches);
      const DataLoaderOptions options{.batch_size = 7, .shuffle = true, .last_batch = last};
      Saved saved;
      Labels whole;
      {
        Engine engine({.workers = 2, .seed = 9});
        EngineScope scope(engine);
        DataLoader loader(counting(47), options);
        epoch(loader);
        if (batches > loader.size())
          continue;
        whole = labels_after(loader, batches, saved);
      }
      Engine engine({.workers = 2, .seed = 1234});
      EngineScope scope(engine);
      engine.set_random_state(saved.random);
      DataLoader loader(counting(47), options);
      loader.load_state(saved.loader);
      Labels rest;
      for (std::size_t i = 0; rest.size() < whole.size() && i < 3; ++i) {
        const std::int64_t due = loader.size();
        const Labels one = epoch(loader);
        CHECK(static_cast<std::int64_t>(one.size()) == due);
        rest.insert(rest.end(), one.begin(), one.end());
      }
      CHECK(rest == whole);
    }
  }
}

TEST_CASE("a loader with a seed of its own goes on by its state alone", "[gluon][data]") {
  const DataLoaderOptions options{.batch_size = 4, .shuffle = true, .seed = 3};
  DataLoader first(counting(30), options);
  epoch(first);
  DataLoaderState middle;
  Labels rest;
  for (auto [x, y] : first) {
    if (middle.position == 3)
      rest.push_back(y.to_vector<std::int32_t>());
    else
      middle = first.state();
  }
  DataLoader second(counting(30), options);
  second.load_state(middle);
  CHECK(second.state().position == 3);  // nothing is lost by asking before the epoch goes on
  CHECK(epoch(second) == rest);
  CHECK(epoch(second) == epoch(first));
  CHECK(second.state().epochs == 3);
}

TEST_CASE("the state of another loader is refused, naming both values", "[gluon][data]") {
  DataLoader loader(counting(30), {.batch_size = 4, .shuffle = true});
  const auto refuses = [&](DataLoaderState state, const std::string& theirs, const std::string& ours) {
    CHECK_THROWS_WITH(loader.load_state(state), contains(theirs) && contains(ours));
    CHECK_THROWS_AS(loader.load_state(state), ValueError);
  };
  epoch(loader);
  const DataLoaderState good = loader.state();
  const auto changed = [&](auto change) {
    DataLoaderState state = good;
    change(state);
    return state;
  };
  refuses(changed([](auto& s) { s.batch_size = 5; }), "batch_size 5", "has 4");
  refuses(changed([](auto& s) { s.num_samples = 31; }), "num_samples 31", "has 30");
  refuses(changed([](auto& s) { s.shuffle = false; }), "shuffle 0", "has 1");
  refuses(changed([](auto& s) { s.last_batch = "discard"; }), "discard", "keep");
  refuses(changed([](auto& s) { s.position = 9; }), "batch 9", "30 samples");
  refuses(changed([](auto& s) { s.position = -1; }), "batch -1", "30 samples");
  refuses(changed([](auto& s) { s.epochs = 0; }), "epoch 0", "30 samples");
  refuses(changed([](auto& s) { s.carried = {30}; }), "carried", "30 samples");
  refuses(changed([](auto& s) { s.carried = {-1}; }), "carried", "30 samples");
  loader.load_state(good);
  CHECK(sorted(joined(epoch(loader))) == up_to(30));
}

TEST_CASE("the state of a loader with another seed is refused where it shuffles", "[gluon][data]") {
  const auto make = [](bool shuffle, std::uint64_t seed) {
    return DataLoader(counting(10), {.batch_size = 4, .shuffle = shuffle, .seed = seed});
  };
  DataLoader first = make(true, 1), same = make(true, 1), other = make(true, 2);
  CHECK_NOTHROW(other.load_state(first.state()));  // before the first epoch
  epoch(first);
  CHECK_THROWS_WITH(other.load_state(first.state()), contains("seed 1") && contains("has 2"));
  same.load_state(first.state());
  CHECK(epoch(same) == epoch(first));
  DataLoader in_order = make(false, 1), later = make(false, 2);
  epoch(in_order);
  CHECK_NOTHROW(later.load_state(in_order.state()));
}

TEST_CASE("an epoch that could not begin is begun by the next attempt", "[gluon][data]") {
  const DataLoaderOptions options{.batch_size = 4, .shuffle = true, .last_batch = "rollover", .seed = 3};
  DataLoader first(counting(30), options), second(counting(30), options), third(counting(30), options);
  epoch(first);
  auto at = first.begin();
  ++at;
  const DataLoaderState middle = first.state();
  second.load_state(middle);
  third.load_state(middle);
  const auto fail_to_begin = [&](DataLoader& loader) {
    const std::int64_t due = loader.size();
    Engine stopped;
    const EngineScope scope(stopped);
    stopped.stop();
    CHECK_THROWS(loader.begin());
    CHECK(loader.size() == due);
  };
  for (int i = 0; i < 3; ++i) {
    fail_to_begin(second);
    CHECK(second.state().position == third.state().position);
    CHECK(second.state().epochs == third.state().epochs);
    CHECK(epoch(second) == epoch(third));
  }
}

namespace {

// 0, 1, ..; what its batches read cannot be had once.
struct Failing {
  std::shared_ptr<int> asked = std::make_shared<int>(0);
  int fails_at = -1;
  std::int64_t size() const { return 20; }
  std::vector<ArraySpec> specs() const { return {{.shape = {}, .dtype = float32}}; }
  std::vector<NDArray> sources() const {
    if (++*asked == fails_at)
      throw std::bad_alloc();
    return {};
  }
  void read(std::span<const std::int64_t> indices, std::span<const TensorView> out) const {
    for (std::size_t i = 0; i < indices.size(); ++i)
      out[0].as<float>()[i] = static_cast<float>(indices[i]);
  }
};

}  // namespace

TEST_CASE("a batch that could not be begun is begun by the next attempt, and none is lost", "[gluon][data]") {
  const int prefetch = GENERATE(0, 2);
  DataLoader loader(Failing{.fails_at = 6}, {.batch_size = 2, .prefetch = prefetch});
  std::vector<float> seen;
  int failed = 0;
  auto it = loader.begin();
  std::int64_t reached = 1;
  while (it != loader.end()) {
    CHECK(loader.state().position == reached);
    for (const float value : values((*it).data))
      seen.push_back(value);
    try {
      ++it;
    } catch (const std::bad_alloc&) {
      ++failed;
      const auto batches = static_cast<std::int64_t>(seen.size()) / 2;
      CHECK(loader.state().position == (prefetch == 0 ? batches : batches + 1));
      if (prefetch == 0)
        CHECK(values((*it).data) == std::vector<float>{10, 11});
    }
    ++reached;
  }
  CHECK(failed == 1);
  CHECK(seen == values(arange(0, 20)));
}
