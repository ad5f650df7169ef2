// A loader with a timeout: what hangs is told of by its number, and holds up nobody who goes.
#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

#include "tests/gluon/support.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;

namespace {

constexpr double k_short = 0.02, k_long = 600;  // one passes in any case, the other never

/// Numbers, of which one waits at a gate and another cannot be read.
struct Held {
  Gate gate = {};
  std::int64_t held = 4, bad = -1;

  std::int64_t size() const { return 8; }
  Sample sample_at(std::int64_t i) const {
    if (i == held)
      gate.wait();
    if (i == bad)
      throw std::runtime_error("row is bad");
    return {HostArray(std::vector<float>{static_cast<float>(i)}, {1}), HostArray::scalar<std::int32_t>(0)};
  }
};

std::vector<DataLoaderOptions> kinds(double timeout) {
  return {
      {.batch_size = 2, .timeout = timeout},
      {.batch_size = 2, .batchify = batchify::Group(batchify::Stack(), batchify::Stack()), .timeout = timeout}};
}

/// Of a batch that comes, however slow the machine is: asks until it is there.
std::vector<float> asked(const DataLoader::Iterator& at) {
  for (;;) {
    try {
      return values((*at).data);
    } catch (const LoaderTimeout&) {
    }
  }
}

}  // namespace

TEST_CASE("A batch that hangs is an error that names it, and the loader can go", "[gluon][data]") {
  for (const DataLoaderOptions& options : kinds(k_short)) {
    CAPTURE(static_cast<bool>(options.batchify));
    Engine engine({.workers = 2});
    const EngineScope here(engine);
    const Held data;
    const OpensAtEnd opens(data.gate);
    {
      std::optional<DataLoader> loader = DataLoader(data, options);
      {
        auto at = loader->begin();
        CHECK(asked(at) == std::vector<float>{0, 1});
        CHECK(asked(++at) == std::vector<float>{2, 3});
        std::int64_t late = -1;
        try {
          (void)*++at;
        } catch (const LoaderTimeout& error) {
          late = error.batch();
          CHECK_THAT(error.what(), contains("batch 2 was not made within 0.02 s") && contains("timeout.cpp"));
        }
        CHECK(late == 2);
        CHECK(data.gate.reached());
      }
      loader.reset();  // while the source hangs
      CHECK(data.gate.inside() == 1);
    }
    data.gate.open();
    CHECK_NOTHROW(engine.wait_all());
  }
}

TEST_CASE("Who asks again, or goes on, is given what there is by then", "[gluon][data]") {
  for (const DataLoaderOptions& options : kinds(k_short)) {
    CAPTURE(static_cast<bool>(options.batchify));
    Engine engine({.workers = 2});
    const EngineScope here(engine);
    const Held data;
    const OpensAtEnd opens(data.gate);
    DataLoader loader(data, options);
    auto at = loader.begin();
    ++at;
    ++at;
    CHECK_THROWS_AS(*at, LoaderTimeout);
    CHECK_THROWS_AS(*at, LoaderTimeout);
    auto behind = at;
    ++behind;  // the same epoch
    CHECK(asked(behind) == std::vector<float>{6, 7});
    auto again = loader.begin();
    ++again;
    ++again;
    data.gate.open();
    engine.wait_all();
    CHECK(asked(again) == std::vector<float>{4, 5});
  }
}

TEST_CASE("With time enough all batches come, and errors are those of their batches", "[gluon][data]") {
  for (const DataLoaderOptions& options : kinds(k_long)) {
    CAPTURE(static_cast<bool>(options.batchify));
    Engine engine({.workers = 2});
    const EngineScope here(engine);
    Held data{.held = -1};
    {
      DataLoader loader(data, options);
      std::vector<float> seen;
      for (const Batch& batch : loader) {
        for (const float value : values(batch.data))
          seen.push_back(value);
      }
      CHECK(seen == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
    }
    data.bad = 2;
    DataLoader loader(data, options);
    auto at = loader.begin();
    ++at;
    CHECK_THROWS_WITH(values((*at).data), contains("row is bad"));
    ++at;
    CHECK(values((*at).data) == std::vector<float>{4, 5});
  }
}

TEST_CASE("Timeouts that cannot be are refused", "[gluon][data]") {
  const Held data{.held = -1};
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    CHECK_THROWS_WITH(DataLoader(data, {.timeout = bad}), contains("DataLoader: timeout is"));
}
