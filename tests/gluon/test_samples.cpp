// Samples of one, two and more arrays, of shapes of their own, and the random numbers that each has to itself.
#include <atomic>
#include <cmath>
#include <set>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;

namespace {

// Sample i: i + 1 values i, and the label i. No two have one shape.
struct Ragged : Transformable<Ragged> {
  std::int64_t n = 6;
  std::int64_t broken = -1;
  explicit Ragged(std::int64_t count = 6, std::int64_t at = -1) : n(count), broken(at) {}
  std::int64_t size() const { return n; }
  Sample sample_at(std::int64_t i) const {
    if (i == broken)
      throw FileError("record " + std::to_string(i) + " is broken");
    return {
        HostArray(std::vector<float>(static_cast<std::size_t>(i + 1), static_cast<float>(i)), {i + 1}),
        HostArray::scalar(static_cast<std::int32_t>(i))};
  }
};

// The first value and the number of values: samples of any length become two numbers.
struct Summed {
  ArraySpec output_spec(const ArraySpec& in) const {
    require<ShapeError>(in.shape.ndim() == 1, [] { return "Summed: one axis"; });
    return {.shape = {2}, .dtype = float32};
  }
  void operator()(const TensorView& in, const TensorView& out) const {
    out.as<float>()[0] = in.as<float>()[0];
    out.as<float>()[1] = static_cast<float>(in.size);
  }
};

// Adds a random number to each value.
struct Noise {
  ArraySpec output_spec(const ArraySpec& in) const { return in; }
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const {
    for (std::int64_t i = 0; i < in.size; ++i)
      out.as<float>()[i] = in.as<float>()[i] + static_cast<float>(random.uniform());
  }
};

ArrayDataset zeros_of(std::int64_t n) {
  return ArrayDataset(zeros({n, 2}), arange(0, static_cast<double>(n), 1, {.dtype = int32}));
}

std::vector<float> values_of_epoch(DataLoader& loader) {
  std::vector<float> all;
  for (const Batch& batch : loader) {
    const std::vector<float> some = values(batch.data);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace

TEST_CASE("samples may be one array, or three", "[gluon][data]") {
  const NDArray x = arange(0, 6).reshape({3, 2}), y = arange(0, 3), z = arange(10, 13, 1, {.dtype = int64});
  DataLoader one(ArrayDataset(std::vector<NDArray>{x}), {.batch_size = 2});
  for (const Batch& batch : one) {
    CHECK(batch.count == 1);
    CHECK_THROWS_AS(batch[1], IndexError);
    CHECK_THROWS_WITH(batch.arrays<2>(), contains("asked for 2 arrays, there are 1"));
  }
  CHECK(values_of_epoch(one) == values(x));
  DataLoader three(ArrayDataset({x, y, z}), {.batch_size = 2});
  std::vector<std::int64_t> found;
  for (const Batch& batch : three) {
    const auto [a, b, c] = batch.arrays<3>();
    CHECK(values(batch.data) == values(a));
    CHECK(values(batch.label) == values(b));
    const auto as_two = [&] {
      const auto [data, label] = batch;
      return data.size() + label.size();
    };
    CHECK_THROWS_WITH(as_two(), contains("3 arrays"));
    for (const std::int64_t value : c.to_vector<std::int64_t>())
      found.push_back(value);
    CHECK_THROWS_AS(batch[3], IndexError);
  }
  CHECK(found == std::vector<std::int64_t>{10, 11, 12});
  const auto doubled = ArrayDataset({x, y, z}).transform_first(Noise());
  CHECK(doubled.specs().size() == 3);
  DataLoader random(doubled, {.batch_size = 3, .seed = 1});
  CHECK((*random.begin())[2].to_vector<std::int64_t>() == std::vector<std::int64_t>{10, 11, 12});
  CHECK_THROWS_AS(ArrayDataset(std::vector<NDArray>{}), ValueError);
  CHECK_THROWS_AS(ArrayDataset({x, y, zeros({4})}), ShapeError);
  CHECK_THROWS_AS(ArrayDataset(std::vector<NDArray>{x}).label_spec(), ValueError);
}

TEST_CASE("samples of shapes of their own become one shape by a transform", "[gluon][data]") {
  DataLoader loader(Ragged().transform_first(Summed()), {.batch_size = 4});
  CHECK(values_of_epoch(loader) == std::vector<float>{0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6});
  DataLoader chained(Ragged().transform_first(Compose(Noise(), Summed())), {.batch_size = 6, .seed = 3});
  const std::vector<float> found = values_of_epoch(chained);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(found[2 * i + 1] == static_cast<float>(i + 1));
    CHECK(found[2 * i] >= static_cast<float>(i));
    CHECK(found[2 * i] < static_cast<float>(i + 1));
  }
}

TEST_CASE("functions are transforms, of the first array or of whole samples", "[gluon][data]") {
  const auto counted = Ragged().transform_first([](const HostArray& x) { return HostArray::scalar(x.size()); });
  DataLoader loader(counted, {.batch_size = 6});
  for (auto [x, y] : loader) {
    CHECK(x.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
    CHECK(y.to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5});
  }
  const auto swapped = zeros_of(4).transform([](const Sample& sample) { return Sample{sample[1], sample[0]}; });
  CHECK(swapped[3][0].item<std::int32_t>() == 3);
  CHECK_THROWS_AS(swapped[4], IndexError);
  CHECK_THROWS_AS(swapped[-1], IndexError);
  const auto empty = zeros_of(4).transform([](const Sample&) { return Sample{}; });
  CHECK_THROWS_WITH(DataLoader(empty), contains("no arrays"));
  CHECK_THROWS_WITH(empty.transform_first(Summed())[0], contains("without arrays"));
  // What a function writes into goes nowhere else.
  const auto changed = zeros_of(2).transform_first([](const HostArray& x) {
    HostArray copy = x;
    copy.writable<float>()[0] = 7;
    CHECK(x.as<float>()[0] == 0);
    return copy;
  });
  CHECK(changed[1][0].as<float>()[0] == 7);
}

TEST_CASE("samples that do not fit their batch name themselves", "[gluon][data]") {
  const auto first_error = [](DataLoader loader) {
    std::string first;
    for (const Batch& batch : loader) {
      try {
        batch.data.wait_to_read();
      } catch (const Error& error) {
        first = first.empty() ? error.what() : first;
      }
    }
    return first;
  };
  CHECK_THAT(first_error(DataLoader(Ragged(), {.batch_size = 3})), contains("shape (2,)") && contains("have (1,)"));
  CHECK_THAT(first_error(DataLoader(Ragged(), {.batch_size = 3})), contains("samples 0 to 2, at sample 1"));
  CHECK_THAT(
      first_error(DataLoader(Ragged(6, 4).transform_first(Summed()), {.batch_size = 3})),
      contains("record 4 is broken") && contains("in batch 1, samples 3 to 5, at sample 4"));
  const auto types = AnyDataset(zeros_of(3)).transform([](const Sample& sample) -> Sample {
    if (sample[1].item<std::int32_t>() == 2)
      return {sample[0], HostArray::scalar(1.5f)};
    return sample;
  });
  CHECK_THAT(first_error(DataLoader(types, {.batch_size = 3})), contains("float32") && contains("at sample 2"));
  const auto counts = AnyDataset(zeros_of(3)).transform([](const Sample& sample) -> Sample {
    return sample[1].item<std::int32_t>() == 1 ? Sample{sample[0]} : sample;
  });
  CHECK_THAT(first_error(DataLoader(counts, {.batch_size = 3})), contains("1 arrays, others have 2"));
  CHECK(first_error(DataLoader(Ragged(6, 0).transform_first(Summed()), {.batch_size = 3})).find("record 0") == 0);
  CHECK_THROWS_WITH(DataLoader(Ragged(1, 0)), contains("record 0 is broken") && contains("in sample 0"));
}

TEST_CASE("each sample has random numbers of its own, whoever makes it", "[gluon][data]") {
  const auto two_epochs = [](int workers, int prefetch, std::int64_t batch_size) {
    Engine engine({.workers = workers});
    EngineScope scope(engine);
    DataLoader loader(
        zeros_of(20).transform_first(Noise()).transform_first(Noise()),
        {.batch_size = batch_size, .prefetch = prefetch, .seed = 5});
    const std::vector<float> one = values_of_epoch(loader);
    return std::pair(one, values_of_epoch(loader));
  };
  const auto [first, second] = two_epochs(1, 0, 1);
  CHECK(std::set<float>(first.begin(), first.end()).size() == 40);  // 20 samples of two values
  CHECK(first != second);
  CHECK(two_epochs(3, 4, 7) == std::pair(first, second));
  // The same by the type-erased way, and sample by sample.
  const auto erased = AnyDataset(zeros_of(20)).transform_first(Noise()).transform_first(Noise());
  DataLoader loader(erased, {.batch_size = 3, .seed = 5});
  CHECK(values_of_epoch(loader) == first);
  CHECK(erased.sample_at(4, SampleRandom({5, 0}, 4))[0].as<float>()[1] == first[9]);
}

TEST_CASE("a resumed loader's random transforms go on bit-equal", "[gluon][data]") {
  for (const bool shuffle : {false, true}) {
    const auto make = [&] {
      return DataLoader(zeros_of(20).transform_first(Noise()), {.batch_size = 3, .shuffle = shuffle});
    };
    DataLoader first = make();
    values_of_epoch(first);
    DataLoaderState middle;
    RandomBlock numbers;
    std::vector<float> rest;
    for (const Batch& batch : first) {
      if (middle.position == 2) {
        for (const float value : values(batch.data))
          rest.push_back(value);
      } else {
        middle = first.state();
        numbers = Engine::current().random_state();
      }
    }
    const std::vector<float> next = values_of_epoch(first);
    DataLoader second = make();
    second.load_state(middle);
    Engine::current().set_random_state(numbers);
    CHECK(values_of_epoch(second) == rest);
    CHECK(values_of_epoch(second) == next);
  }
}

TEST_CASE("the numbers of a sample are even, and end where they should", "[gluon][data]") {
  double sum = 0, squares = 0, normal = 0, normal_squares = 0;
  std::vector<int> counts(5);
  constexpr int k_samples = 20000;
  for (int i = 0; i < k_samples; ++i) {
    SampleRandom random({7, 3}, static_cast<std::uint64_t>(i));
    const double u = random.uniform(), n = random.normal();
    sum += u;
    squares += u * u;
    normal += n;
    normal_squares += n * n;
    ++counts[static_cast<std::size_t>(random.integer(-2, 3) + 2)];
  }
  CHECK(sum / k_samples == Approx(0.5).margin(0.012));
  CHECK(squares / k_samples == Approx(1.0 / 3).margin(0.012));
  CHECK(normal / k_samples == Approx(0).margin(0.035));
  CHECK(normal_squares / k_samples == Approx(1).margin(0.05));
  for (const int count : counts)
    CHECK(std::abs(count - k_samples / 5) < 300);
  SampleRandom random;
  CHECK(random.uniform(2, 2) == 2);
  CHECK(random.integer(INT64_MIN, INT64_MIN + 1) == INT64_MIN);
  CHECK_NOTHROW(random.integer(INT64_MIN, INT64_MAX));
  CHECK_THROWS_AS(random.integer(3, 3), ValueError);
  CHECK_FALSE(random.chance(0));
  CHECK(random.chance(1));
}

TEST_CASE("host arrays check what they are asked for", "[gluon][data]") {
  CHECK_THROWS_AS(HostArray(std::vector<float>{1, 2}, {3}), ShapeError);
  CHECK_THROWS_AS(HostArray(ArraySpec{.shape = {-1}}), ShapeError);
  CHECK_THROWS_AS(HostArray(ArraySpec{.shape = {INT64_MAX, 8}}), ShapeError);
  const HostArray two(std::vector<float>{1, 2}, {2});
  CHECK_THROWS_AS(two.as<double>(), DTypeError);
  CHECK_THROWS_AS(two.item<float>(), ShapeError);
  HostArray copy = two;
  copy.writable<float>()[0] = 5;
  CHECK(two.as<float>()[0] == 1);
  CHECK(copy.as<float>()[0] == 5);
  CHECK(HostArray(ArraySpec{.shape = {0, 3}}).bytes() == 0);
}

TEST_CASE("what is no array is refused where an array is wanted", "[gluon][data]") {
  CHECK(HostArray().size() == 0);
  CHECK_THROWS_AS(HostArray().item<float>(), ShapeError);
  CHECK_THROWS_AS(HostArray({.shape = {2}, .dtype = float32}, nullptr), ValueError);
  struct Empty : Transformable<Empty> {
    std::int64_t size() const { return 4; }
    Sample sample_at(std::int64_t i) const {
      return {HostArray::scalar(1.0f), i < 2 ? HostArray::scalar(2.0f) : HostArray()};
    }
  };
  DataLoader loader(Empty{}, {.batch_size = 4});
  CHECK_THROWS_AS((*loader.begin()).label.wait_to_read(), ShapeError);
  DataLoader stacked(Empty{}, {.batch_size = 4, .batchify = batchify::Stack()});
  CHECK_THROWS_AS(*stacked.begin(), ShapeError);
  DataLoader made(Empty{}, {.batch_size = 4, .batchify = [](batchify::Samples) { return Sample{HostArray()}; }});
  CHECK((*made.begin()).data.shape() == Shape{0});
}
