// Batches of samples without a shape in common; what loaders count, skip and wait for.
#include <atomic>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "tests/gluon/support.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;

namespace {

using Numbers = std::vector<float>;
using Fields = std::vector<HostArray>;

HostArray numbers(const Numbers& values, Shape shape) {
  return HostArray(values, std::move(shape));
}
Numbers of(const HostArray& array) {
  return {array.as<float>(), array.as<float>() + array.size()};
}

// Sample i: a sequence of i % 4 values i, and the label i. Those in `bad` cannot be read.
struct Sequences : Transformable<Sequences> {
  std::int64_t n = 10;
  std::vector<std::int64_t> bad = {};
  Sequences(std::int64_t count, std::vector<std::int64_t> unreadable) : n(count), bad(std::move(unreadable)) {}
  std::int64_t size() const { return n; }
  Sample sample_at(std::int64_t i) const {
    if (std::find(bad.begin(), bad.end(), i) != bad.end())
      throw FileError("record " + std::to_string(i) + " is damaged");
    const std::int64_t length = i % 4;
    return {
        numbers(Numbers(static_cast<std::size_t>(length), static_cast<float>(i)), {length}),
        HostArray::scalar(static_cast<std::int32_t>(i))};
  }
};

// Reads the label only: one shape.
AnyDataset labels(std::int64_t n, std::vector<std::int64_t> bad) {
  return Sequences(n, std::move(bad)).transform([](const Sample& sample) { return Sample{sample[1], sample[1]}; });
}

// The same n, of which those from `first` on are not made before the gate opens.
AnyDataset held_from(std::int32_t first, std::int64_t n, const Gate& gate) {
  return labels(n, {}).transform([first, gate](const Sample& sample) {
    if (sample[0].item<std::int32_t>() >= first)
      gate.wait();
    return sample;
  });
}

using Labels = std::vector<std::vector<std::int32_t>>;

Labels epoch(DataLoader& loader) {
  Labels batches;
  for (const Batch& batch : loader)
    batches.push_back(batch[batch.count - 1].to_vector<std::int32_t>());
  return batches;
}

}  // namespace

TEST_CASE("Stack, Pad, Append and Group make arrays of a batch", "[gluon][data]") {
  const Fields two = {numbers({1, 2}, {2}), numbers({3, 4}, {2})};
  const Fields stacked = batchify::Stack()(two);
  CHECK(stacked[0].shape() == Shape{2, 2});
  CHECK(of(stacked[0]) == Numbers{1, 2, 3, 4});
  const Fields ragged = {numbers({1, 2, 3}, {3}), numbers({}, {0}), numbers({4}, {1})};
  const Fields padded = batchify::Pad({.value = -1, .lengths = true})(ragged);
  REQUIRE(padded.size() == 2);
  CHECK(padded[0].shape() == Shape{3, 3});
  CHECK(of(padded[0]) == Numbers{1, 2, 3, -1, -1, -1, 4, -1, -1});
  CHECK(
      std::vector<std::int32_t>(padded[1].as<std::int32_t>(), padded[1].as<std::int32_t>() + 3) ==
      std::vector<std::int32_t>{3, 0, 1});
  const Fields rounded = batchify::Pad({.round_to = 4})(Fields{numbers({1, 2, 3, 4, 5}, {5})});
  CHECK(rounded[0].shape() == Shape{1, 8});
  // Along all axes.
  const Fields boxes =
      batchify::Pad()(Fields{numbers({1, 2, 3, 4, 5, 6}, {2, 1, 3}), numbers({7, 8, 9, 10}, {1, 2, 2})});
  CHECK(boxes[0].shape() == Shape{2, 2, 2, 3});
  CHECK(of(boxes[0]) == Numbers{1, 2, 3, 0, 0, 0, 4, 5, 6, 0, 0, 0, 7, 8, 0, 9, 10, 0, 0, 0, 0, 0, 0, 0});
  CHECK(of(batchify::Pad()(Fields{numbers({1}, {}), numbers({2}, {})})[0]) == Numbers{1, 2});
  const Fields apart = batchify::Append()(ragged);
  REQUIRE(apart.size() == 3);
  CHECK(apart[0].shape() == Shape{1, 3});
  CHECK(apart[1].shape() == Shape{1, 0});
  const std::vector<Sample> samples = {{ragged[0], two[0]}, {ragged[2], two[1]}};
  const Fields grouped = batchify::Group(batchify::Pad({.lengths = true}), batchify::Stack())(samples);
  REQUIRE(grouped.size() == 3);
  CHECK(of(grouped[0]) == Numbers{1, 2, 3, 4, 0, 0});
  CHECK(of(grouped[2]) == Numbers{1, 2, 3, 4});
  CHECK(batchify::Pad()(samples).size() == 2);
}

TEST_CASE("batchify functions refuse what does not fit", "[gluon][data]") {
  using batchify::Pad;
  const Fields mixed = {numbers({1}, {1}), HostArray(std::vector<double>{1}, {1})};
  CHECK_THROWS_AS(batchify::Stack()(mixed), DTypeError);
  CHECK_THROWS_AS(Pad()(mixed), DTypeError);
  const Fields shapes = {numbers({1}, {1}), numbers({1}, {1, 1})};
  CHECK_THROWS_AS(batchify::Stack()(shapes), ShapeError);
  CHECK_THROWS_AS(Pad()(shapes), ShapeError);
  CHECK_THROWS_AS(batchify::Stack()(Fields{}), ShapeError);
  CHECK_THROWS_AS(Pad({.lengths = true})(Fields{numbers({1}, {})}), ShapeError);
  CHECK_THROWS_AS(Pad({.round_to = 0}), ValueError);
  CHECK_THROWS_AS(Pad({.round_to = INT64_MAX})(Fields{numbers({1, 1}, {2, 1})}), ShapeError);
  const Fields bytes = {HostArray(std::vector<std::uint8_t>{1}, {1})};
  for (const double value : {256.0, -1.0, 0.5, std::nan("")})
    CHECK_THROWS_AS(Pad({.value = value})(bytes), ValueError);
  CHECK(Pad({.value = 255, .round_to = 2})(bytes)[0].as<std::uint8_t>()[1] == 255);
  CHECK(std::isnan(of(Pad({.value = std::nan(""), .round_to = 2})(Fields{numbers({1}, {1})})[0])[1]));
  const Fields large = {HostArray(std::vector<std::int64_t>{1}, {1})};
  CHECK_THROWS_AS(Pad({.value = 0x1p63})(large), ValueError);
  const std::vector<Sample> samples = {{bytes[0]}, {bytes[0], bytes[0]}};
  CHECK_THROWS_WITH(Pad()(samples), contains("has 2 arrays, not 1"));
  CHECK_THROWS_AS(batchify::Group(Pad(), Pad(), Pad())(samples), ShapeError);
}

TEST_CASE("a loader makes batches by a function, of any shape", "[gluon][data]") {
  for (const int workers : {1, 3}) {
    Engine engine({.workers = workers});
    EngineScope scope(engine);
    DataLoader loader(
        Sequences(10, {}),
        {.batch_size = 4,
         .batchify = batchify::Group(batchify::Pad({.value = -1, .lengths = true}), batchify::Stack())});
    std::vector<Shape> shapes;
    Numbers all;
    for (const Batch& batch : loader) {
      const auto [x, lengths, y] = batch.arrays<3>();
      shapes.push_back(x.shape());
      for (const float value : values(x))
        all.push_back(value);
      CHECK(lengths.to_vector<std::int32_t>()[0] == 0);
      CHECK(y.dtype() == int32);
    }
    CHECK(shapes == std::vector<Shape>{{4, 3}, {4, 3}, {2, 1}});
    CHECK(Numbers(all.end() - 2, all.end()) == Numbers{-1, 9});
    CHECK(epoch(loader) == Labels{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}});
  }
}

TEST_CASE("a batch that a function cannot make throws where it is used, and the next is there", "[gluon][data]") {
  DataLoader loader(Sequences(8, {5}), {.batch_size = 2, .batchify = batchify::Pad()});
  std::vector<std::string> errors;
  std::size_t good = 0;
  for (auto at = loader.begin(); at != loader.end(); ++at) {
    for (int again = 0; again < 2; ++again) {
      try {
        good += (*at).count == 2;
      } catch (const FileError& error) {
        errors.push_back(error.what());
      }
    }
  }
  CHECK(good == 6);
  REQUIRE(errors.size() == 2);
  CHECK_THAT(errors[0], contains("record 5 is damaged") && contains("in batch 2, samples 4 to 5, at sample 5"));
  DataLoader stacked(Sequences(2, {}), {.batch_size = 2, .batchify = batchify::Stack()});
  CHECK_THROWS_WITH(
      *stacked.begin(), contains("Stack: array 1 has shape (1,)") && contains("in batch 0, samples 0 to 1"));
}

TEST_CASE("samples that cannot be read are replaced by the next sound ones, and counted", "[gluon][data]") {
  const std::vector<std::int64_t> bad = {0, 3, 4, 9};
  for (const bool by_function : {false, true}) {
    DataLoaderOptions options{.batch_size = 4, .skip_corrupt = true};
    if (by_function)
      options.batchify = batchify::Stack();
    DataLoader loader(labels(10, bad), options);
    CHECK(epoch(loader) == Labels{{1, 1, 2, 5}, {5, 5, 6, 7}, {8, 1}});
    CHECK(loader.figures().corrupt == 4);
    CHECK(loader.figures().replaced == 4);
    CHECK(epoch(loader).size() == 3);
    CHECK(loader.figures().corrupt == 4);
    CHECK(loader.figures().replaced == 8);
    const std::vector<CorruptSample> found = loader.corrupt_samples();
    REQUIRE(found.size() == 4);
    CHECK(found[1].index == 3);
    CHECK(found[1].error == "record 3 is damaged");
  }
  // All of them: an error, not a loop without end.
  CHECK_THROWS_AS(DataLoader(labels(3, {0, 1, 2}), {.skip_corrupt = true}), FileError);
  DataLoader none(Sequences(3, {0, 1, 2}), {.prefetch = 0, .batchify = batchify::Pad(), .skip_corrupt = true});
  CHECK_THROWS_WITH(*none.begin(), contains("none of 3 samples in a row can be read") && contains("batch 0, sample 0"));
  // What is no fault of the sample's goes on to the user.
  const auto scarce = labels(4, {}).transform([](const Sample& sample) -> Sample {
    if (sample[0].item<std::int32_t>() == 2)
      throw OutOfMemory("no memory left", 5);
    return sample;
  });
  DataLoader without(scarce, {.batch_size = 4, .skip_corrupt = true});
  CHECK_THROWS_AS((*without.begin()).data.wait_to_read(), OutOfMemory);
  const auto foreign = labels(4, {}).transform([](const Sample& sample) -> Sample {
    if (sample[0].item<std::int32_t>() == 2)
      throw std::runtime_error("of another library");
    return sample;
  });
  DataLoader skipping(foreign, {.batch_size = 4, .skip_corrupt = true});
  CHECK(epoch(skipping) == Labels{{0, 1, 3, 3}});
  DataLoader failing(foreign, {.batch_size = 4});
  CHECK_THROWS_WITH((*failing.begin()).data.wait_to_read(), contains("of another library") && contains("at sample 2"));
}

TEST_CASE("skipping goes on as if it had not stopped, whoever reads", "[gluon][data]") {
  const auto make = [] {
    return DataLoader(labels(30, {2, 3, 17, 29}), {.batch_size = 4, .shuffle = true, .seed = 8, .skip_corrupt = true});
  };
  const auto whole = [&](int workers) {
    Engine engine({.workers = workers});
    EngineScope scope(engine);
    DataLoader loader = make();
    Labels all = epoch(loader);
    for (const auto& batch : epoch(loader))
      all.push_back(batch);
    return all;
  };
  const Labels all = whole(1);
  CHECK(whole(4) == all);
  DataLoader first = make(), second = make();
  auto at = first.begin();
  ++at;
  ++at;
  second.load_state(first.state());
  CHECK(epoch(second) == Labels(all.begin() + 3, all.begin() + 8));
  CHECK(epoch(second) == Labels(all.begin() + 8, all.end()));
}

TEST_CASE("a loader tells how much it made and how long it was waited for", "[gluon][data]") {
  Gate gate;
  DataLoader loader(held_from(2, 6, gate), {.batch_size = 2, .prefetch = 0});
  CHECK(loader.figures().batches == 0);
  CHECK(loader.figures().samples_per_second() == 0);
  auto at = loader.begin();
  (*at).data.wait_to_read();
  const double before = loader.figures().waited_seconds;
  ++at;  // its task waits at the gate
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(loader.figures().waited_seconds == before);
  gate.open();
  (*at).data.wait_to_read();
  Engine::current().wait_all();
  CHECK(loader.figures().waited_seconds >= before + 0.02);
  ++at;
  ++at;
  CHECK(at == loader.end());
  Engine::current().wait_all();
  const DataLoaderFigures figures = loader.figures();
  CHECK(figures.batches == 3);
  CHECK(figures.samples == 6);
  CHECK(figures.worked_seconds >= 0.02);
  CHECK(figures.seconds >= figures.waited_seconds - before);
  CHECK(figures.samples_per_second() > 0);
  CHECK(figures.corrupt == 0);
}

TEST_CASE("iterating does not wait for a slow dataset", "[gluon][data]") {
  Gate gate;
  DataLoader loader(held_from(1, 4, gate), {.batch_size = 1});
  std::vector<NDArray> all;
  for (auto [x, y] : loader)
    all.push_back(y);  // would never end if any of this waited
  gate.open();
  REQUIRE(all.size() == 4);
  CHECK(all[3].item<std::int32_t>() == 3);
}

TEST_CASE("batches of a function's arrive on a GPU, and corrupt samples are replaced there too", "[gluon][data][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const batchify::Function pad = batchify::Group(batchify::Pad({.value = -1, .lengths = true}), batchify::Stack());
  const auto make = [&](Device device) {
    return DataLoader(
        Sequences(40, {3, 21, 22}),
        {.batch_size = 7, .shuffle = true, .device = device, .seed = 4, .batchify = pad, .skip_corrupt = true});
  };
  DataLoader host = make(cpu()), device = make(gpu(0));
  auto expected = host.begin();
  for (const Batch& batch : device) {
    const auto [x, lengths, y] = batch.arrays<3>();
    const auto [host_x, host_lengths, host_y] = (*expected).arrays<3>();
    CHECK(x.device() == gpu(0));
    CHECK(y.device() == gpu(0));
    CHECK(x.shape() == host_x.shape());
    CHECK(values(x) == values(host_x));
    CHECK(lengths.to_vector<std::int32_t>() == host_lengths.to_vector<std::int32_t>());
    CHECK(y.to_vector<std::int32_t>() == host_y.to_vector<std::int32_t>());
    ++expected;
  }
  CHECK(expected == host.end());
  CHECK(device.figures().corrupt == 3);
  DataLoader plain(labels(10, {4}), {.batch_size = 4, .device = gpu(0), .skip_corrupt = true});
  CHECK(epoch(plain) == Labels{{0, 1, 2, 3}, {5, 5, 6, 7}, {8, 9}});
}
