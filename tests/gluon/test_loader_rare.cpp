// Data loading: what goes wrong once more while an error is handled, what counts otherwise than it is written.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

#include <sluice/gluon/data/detail/scratch.h>
#include <sluice/gluon/image/image.h>

#include "tests/gluon/support.h"
#include "tests/support/child.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::gluon::data;
using sluice::test::contains;

namespace {

/// Ten samples that are their indices; beginning batch `i` of all fails where `bad` says so.
struct Unreliable {
  std::shared_ptr<int> calls = std::make_shared<int>(0);
  std::shared_ptr<std::vector<int>> bad = std::make_shared<std::vector<int>>();

  std::int64_t size() const { return 10; }
  std::vector<ArraySpec> specs() const { return {{.shape = {1}, .dtype = float32}}; }
  std::vector<NDArray> sources() const {
    const int call = (*calls)++;
    if (std::find(bad->begin(), bad->end(), call) != bad->end())
      throw ValueError("not now");
    return {};
  }
  void read(std::span<const std::int64_t> indices, std::span<const TensorView> out) const {
    for (std::size_t i = 0; i < indices.size(); ++i)
      static_cast<float*>(out[0].data)[i] = static_cast<float>(indices[i]);
  }
};

float value_of(const Batch& batch) {
  return values(batch.data)[0];
}

template <class Throw>
struct Throwing {
  Throw thrown;
  std::int64_t size() const { return 4; }
  std::vector<ArraySpec> specs() const { return {{.shape = {1}, .dtype = float32}}; }
  void read(std::span<const std::int64_t> indices, std::span<const TensorView> out) const {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] == 1)
        throw thrown;
      static_cast<float*>(out[0].data)[i] = static_cast<float>(indices[i]);
    }
  }
};

HostArray halves(std::int64_t n) {
  HostArray made({.shape = {n}, .dtype = float16});
  std::memset(const_cast<void*>(made.data()), 0, made.bytes());
  return made;
}

}  // namespace

TEST_CASE("No batch is lost from a loader's position, however many cannot be begun", "[gluon][data]") {
  for (int first = 2; first < 6; ++first) {
    for (int second = first + 1; second < 8; ++second) {
      for (int third = second + 1; third < 9; ++third) {
        const Unreliable dataset;
        DataLoader loader(dataset, {.prefetch = 1});
        *dataset.bad = {first, second, third};
        std::vector<float> seen;
        int errors = 0;
        const auto attempt = [&](const auto& call) {
          try {
            call();
          } catch (const ValueError&) {
            ++errors;
          }
        };
        for (auto it = loader.begin(); it != loader.end();) {
          // Twice: an error of `*` may leave the batch to the next one.
          float value = -1;
          for (int i = 0; i < 3 && value < 0; ++i)
            attempt([&] { value = value_of(*it); });
          INFO(first << ' ' << second << ' ' << third << " at " << value);
          seen.push_back(value);
          CHECK(static_cast<float>(loader.state().position) == value + 1);
          DataLoader other(Unreliable{}, {.prefetch = 1});
          other.load_state(loader.state());
          if (value < 9)
            CHECK(value_of(*other.begin()) == value + 1);
          attempt([&] { ++it; });
        }
        CHECK(seen == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
        CHECK(errors == 3);
        CHECK(loader.figures().batches == 10);
      }
    }
  }
}

TEST_CASE("An epoch that cannot begin draws no random number", "[gluon][data]") {
  const Unreliable dataset;
  DataLoader loader(dataset, {.batch_size = 5, .shuffle = true, .prefetch = 1});
  const auto offset = [] { return Engine::current().random_state().offset; };
  const std::uint64_t before = offset();
  for (const int bad : {0, 1}) {
    *dataset.calls = 0;
    *dataset.bad = {bad};
    CHECK_THROWS_AS(loader.begin(), ValueError);
    CHECK(offset() == before);
    CHECK(loader.state().epochs == 0);
  }
  dataset.bad->clear();
  loader.begin();
  CHECK(offset() == before + 1);
  // What others have drawn meanwhile stays drawn.
  struct Drawing {
    std::int64_t size() const { return 3; }
    std::vector<std::int64_t> order(const RandomBlock&) const {
      Engine::current().take_random(7);
      throw ValueError("none");
    }
  };
  DataLoader other(dataset, {.sampler = Sampler(Drawing{})});
  CHECK_THROWS_AS(other.begin(), ValueError);
  CHECK(offset() == before + 9);
}

TEST_CASE("A copy of a loader stands where the other one stood", "[gluon][data]") {
  DataLoader loader(Unreliable{}, {});
  auto it = loader.begin();
  ++it;
  DataLoader copy = loader, assigned(Unreliable{}, {});
  assigned = loader;
  DataLoader moved = std::move(loader);
  ++it;
  CHECK(copy.state().position == 2);
  CHECK(assigned.state().position == 2);
  CHECK(moved.state().position == 3);
  auto other = copy.begin();
  CHECK(copy.state().position == 1);
  CHECK(moved.state().position == 3);
  CHECK(value_of(*other) == 0);
}

TEST_CASE("A sampler that gives other than its size is refused", "[gluon][data]") {
  struct Odd {
    std::int64_t n;
    std::int64_t size() const { return 3; }
    std::vector<std::int64_t> order(const RandomBlock&) const {
      return std::vector<std::int64_t>(static_cast<std::size_t>(n), 1);
    }
  };
  for (const std::int64_t n : {0, 2, 4}) {
    for (const char* last : {"keep", "discard", "rollover"}) {
      DataLoader loader(Unreliable{}, {.batch_size = 2, .last_batch = last, .sampler = Sampler(Odd{n})});
      CHECK_THROWS_WITH(
          loader.begin(), contains("its sampler gave " + std::to_string(n) + " samples, its size() is 3"));
      CHECK(loader.state().epochs == 0);
    }
  }
  DataLoader right(Unreliable{}, {.batch_size = 2, .sampler = Sampler(Odd{3})});
  CHECK(value_of(*right.begin()) == 1);
}

TEST_CASE("A corrupt sample needs no message", "[gluon][data]") {
  DataLoader loader(Throwing<std::runtime_error>{std::runtime_error("")}, {.batch_size = 4, .skip_corrupt = true});
  for (const auto& batch : loader)
    CHECK(values(batch.data) == std::vector<float>{0, 2, 2, 3});
  REQUIRE(loader.corrupt_samples().size() == 1);
  CHECK(loader.corrupt_samples()[0].index == 1);
  CHECK(loader.corrupt_samples()[0].error.empty());
  DataLoader logic(Throwing<std::logic_error>{std::logic_error("")}, {.batch_size = 4, .skip_corrupt = true});
  CHECK_THROWS_WITH(values((*logic.begin()).data), contains("batch 0, samples 0 to 3, at sample 1"));
}

TEST_CASE("Errors of any type name batch and sample", "[gluon][data]") {
  for (const bool skip : {false, true}) {
    DataLoader loader(Throwing<int>{5}, {.batch_size = 2, .skip_corrupt = skip});
    CHECK_THROWS_WITH(
        values((*loader.begin()).data),
        contains("no std::exception") && contains("in batch 0, samples 0 to 1, at sample 1"));
  }
  DataLoader batches(
      Unreliable{},
      {.batch_size = 2, .prefetch = 0, .batchify = [](batchify::Samples) -> std::vector<HostArray> { throw "no"; }});
  CHECK_THROWS_WITH(*batches.begin(), contains("in batch 0, samples 0 to 1"));
}

TEST_CASE("Samples without arrays are told by name", "[gluon][data]") {
  struct Empty {
    std::int64_t size() const { return 3; }
    std::vector<ArraySpec> specs() const { return {}; }
    void read(std::span<const std::int64_t>, std::span<const TensorView>) const {}
  };
  CHECK_THROWS_AS(AnyDataset(Empty{}).transform_first(vision::ToTensor()), ShapeError);
  using Toned = Transformed<Empty, vision::ToTensor>;
  CHECK_THROWS_AS(Toned(Empty{}, vision::ToTensor()), ShapeError);
  struct Plain : Empty {
    std::vector<ArraySpec> specs() const { return {{.shape = {2, 2, 1}, .dtype = uint8}}; }
  };
  const Transformed<Plain, vision::ToTensor> plain(Plain{}, vision::ToTensor());
  CHECK(plain.data_spec().shape == Shape{1, 2, 2});
  CHECK_THROWS_AS(plain.label_spec(), ShapeError);
}

TEST_CASE("Means and deviations count as the type has them", "[gluon][data]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {0.0, -1.0, 1e-60, 1e-40, 1e39, nan, static_cast<double>(INFINITY)}) {
    CHECK_THROWS_AS(vision::Normalize(0, bad), ValueError);
    for (const DType dtype : {float32, float16, bfloat16}) {
      CHECK_THROWS_AS(image::normalize(zeros({1, 1, 2}, {.dtype = dtype}), {0.}, {bad}), ValueError);
      CHECK_THROWS_AS(image::normalize(zeros({2, 1, 2}, {.dtype = dtype}), {0., 0.}, {1., bad}), ValueError);
    }
  }
  CHECK_THROWS_AS(vision::Normalize(1e39, 1), ValueError);
  CHECK_THROWS_AS(image::normalize(zeros({1, 1, 2}), {1e39}, {1.}), ValueError);
  CHECK_THROWS_AS(image::normalize(zeros({1, 1, 2}, {.dtype = float16}), {0.}, {1e-9}), ValueError);
  CHECK_THROWS_AS(image::normalize(zeros({1, 1, 2}, {.dtype = float16}), {1e5}, {1.}), ValueError);
  CHECK_THROWS_AS(image::normalize(zeros({1, 1, 2}, {.dtype = float64}), {0.}, {1e-320}), ValueError);
  CHECK(values(image::normalize(ones({1, 1, 1}, {.dtype = float64}), {0.}, {1e-60}).astype(float32))[0] == INFINITY);
  CHECK(values(image::normalize(zeros({1, 1, 2}), {0.}, {1.2e-38})) == std::vector<float>{0, 0});
  const vision::Normalize least(0, 1.2e-38);
  const HostArray in(std::vector<float>{0, 1.2e-38f}, {1, 1, 2});
  const HostArray out(ArraySpec{.shape = {1, 1, 2}, .dtype = float32});
  least(in.view(), out.view());
  CHECK(out.as<float>()[0] == 0);
  CHECK(out.as<float>()[1] == Approx(1).epsilon(1e-6));
}

TEST_CASE("Pad refuses what its type has no number for", "[gluon][data]") {
  const std::vector<HostArray> two = {halves(1), halves(2)};
  const auto padded = [&](double value) { return batchify::Pad({.value = value})(batchify::Fields(two))[0]; };
  for (const double bad : {1e6, -65520.0, 1e39, 1e300})
    CHECK_THROWS_WITH(padded(bad), contains("is no number of float16"));
  const auto bits = [&](double value) { return static_cast<const std::uint16_t*>(padded(value).data())[1]; };
  CHECK(bits(65504) == 0x7bff);
  CHECK(bits(1e-10) == 0);
  CHECK(bits(-INFINITY) == 0xfc00);
  CHECK((bits(std::nan("")) & 0x7fff) > 0x7c00);
  const std::vector<HostArray> floats = {
      HostArray(std::vector<float>{1}, {1}), HostArray(std::vector<float>{1, 2}, {2})};
  CHECK_THROWS_AS(batchify::Pad({.value = 1e39})(batchify::Fields(floats)), ValueError);
}

TEST_CASE("Numbers too small for their type are read as the nearest one", "[gluon][data]") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text, DType dtype) {
    std::ofstream(folder / "n.csv") << text << ",1\n";
    return CsvDataset(folder / "n.csv", {.dtype = dtype});
  };
  const auto number = [&](const std::string& text, DType dtype) {
    const AnyDataset dataset(read(text, dtype));
    const Sample sample = dataset[0];
    return dtype == float32 ? static_cast<double>(sample[0].as<float>()[0]) : sample[0].as<double>()[0];
  };
  for (const char* tiny :
       {"1e-50",
        "0.0000000000000000000000000000000000000000000000000001",
        "-1e-50",
        "+1E-60",
        "1000e-99",
        "1e-400",
        "0.1e-99999999999999999999",
        "123456789012345678901e-90"}) {
    INFO(tiny);
    CHECK(number(tiny, float32) == 0);
    CHECK(std::signbit(number(tiny, float32)) == (tiny[0] == '-'));
  }
  CHECK(number("1e-40", float32) == static_cast<double>(1e-40f));
  CHECK(number("1e-50", float64) == 1e-50);
  CHECK(number("-1e-400", float64) == 0);
  CHECK(number("1e-320", float64) == 1e-320);
  for (const char* large :
       {"1e50",
        "-1e50",
        "1e400",
        "1e+99999999999999999999",
        "0.001e60",
        "1000000000000000000000000000000000000000000000000000000"}) {
    INFO(large);
    CHECK_THROWS_WITH(read(large, float32), contains("does not fit float32"));
  }
  for (const char* wrong : {"1e-50x", "1e-50 2", "1e-", "e-50", "."})
    CHECK_THROWS_AS(read(wrong, float32), FileError);
}

namespace {

using gluon::data::detail::Scratch;

// Sanitizers end a process that asks for more than there can be.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool k_asks_for_too_much = false;
#else
constexpr bool k_asks_for_too_much = true;
#endif

bool too_much_is_refused() {
  if (!k_asks_for_too_much)
    return true;
  try {
    Scratch none(std::numeric_limits<std::size_t>::max() / 4);
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace

TEST_CASE("Memory for a moment is kept within limits, and found again", "[gluon][data]") {
  constexpr std::size_t k_large = std::size_t{8} << 20;
  const int code = in_child([&] {
    if (!too_much_is_refused())  // what others kept is given back for it
      return 8;
    const void* before = nullptr;
    {
      Scratch one(k_large);
      before = one.as<char>();
    }
    if (Scratch::kept_bytes() != k_large)
      return 1;
    for (int depth = 1; depth <= 6; ++depth) {
      std::vector<std::unique_ptr<Scratch>> small;
      for (int i = 0; i < depth; ++i)
        small.push_back(std::make_unique<Scratch>(1));
      Scratch again(k_large);
      if (again.as<char>() != before)
        return 2;
    }
    if (Scratch::kept_bytes() > k_large + 6)
      return 3;
    for (std::size_t bytes = k_large; bytes > 1024; bytes = bytes / 3 * 2)
      Scratch each(bytes);
    if (Scratch::kept_bytes() > 2 * (k_large + 6))
      return 4;
    {
      std::vector<std::unique_ptr<Scratch>> many;
      for (int i = 0; i < 40; ++i)
        many.push_back(std::make_unique<Scratch>(std::size_t{8} << 20));
    }
    if (Scratch::kept_bytes() > (std::size_t{256} << 20) || Scratch::kept_bytes() < (std::size_t{200} << 20))
      return 5;
    if (!too_much_is_refused())  // and what was counted for it is not
      return 6;
    { Scratch one(k_large); }
    return !k_asks_for_too_much || Scratch::kept_bytes() == k_large ? 0 : 7;
  });
  CHECK(code == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

TEST_CASE("An image for which there is no memory is not called corrupt", "[gluon][image]") {
  const NDArray wide = zeros({2, 1'000'000, 4}, {.dtype = uint8});
  const auto bytes = image::imencode(wide, {.format = image::ImageFormat::png});
  const int code = in_child([&] {
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    const rlimit limit{pages * 4096 + (1 << 20), RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit) != 0)
      return 1;
    while (std::malloc(1 << 20) != nullptr) {  // until rows of four megabytes cannot be had
    }
    try {
      const image::ImageDecoder decoder(bytes, {.channels = 4}, "wide.png");
      return 2;
    } catch (const OutOfMemory& error) {
      return error.message().starts_with("wide.png: ") ? 0 : 3;
    }
  });
  CHECK(code == 0);
}

#endif
