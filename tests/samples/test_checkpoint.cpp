// What is refused of a file that --resume or --load names.
#include "samples/support/checkpoint.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace samples;
namespace nn = gluon::nn;

namespace {
const gluon::estimator::TrainingState k_begun{.progress = {.fits = 1}};
}

TEST_CASE("a checkpoint whose entries have other lengths is refused by their names", "[samples]") {
  TemporaryFolder folder;
  write_checkpoint(folder / "good.npz", {.state = k_begun});
  const auto good = load(folder / "good.npz");
  for (const std::string name : {"images", "epoch.counts"}) {
    for (const std::int64_t length : {0, 1, 2, 6, 8}) {
      auto arrays = good;
      NDArray& entry = arrays.at("@handler.7:samples." + name);
      if (entry.size() == length)
        continue;
      entry = ones({length}, {.dtype = int64});
      save(folder / "bad.npz", arrays);
      INFO(name << " of " << length);
      CHECK_THROWS_AS(read_checkpoint(folder / "bad.npz"), FileError);
      CHECK_THROWS_WITH(read_checkpoint(folder / "bad.npz"), contains("bad.npz") && contains("'" + name + "'"));
    }
  }
  for (const std::string name : {"epoch.loss", "seconds", "history"}) {
    auto arrays = good;
    arrays.at("@handler.7:samples." + name) = ones({3}, {.dtype = float64});
    save(folder / "bad.npz", arrays);
    CHECK_THROWS_WITH(read_checkpoint(folder / "bad.npz"), contains("'" + name + "'"));
    arrays.erase("@handler.7:samples." + name);
    save(folder / "bad.npz", arrays);
    CHECK_THROWS_WITH(read_checkpoint(folder / "bad.npz"), contains("no entry '" + name + "'"));
  }
  gluon::estimator::write_state(folder / "other.npz", k_begun);
  CHECK_THROWS_WITH(read_checkpoint(folder / "other.npz"), contains("--save did not write"));
}

TEST_CASE("parameters that a network lacks are refused by name", "[samples]") {
  nn::Dense small(1), same(1, {.use_bias = false});
  Checkpoint::Arrays arrays = {{"weight", ones({1, 2})}, {"bias", ones({1})}};
  CHECK_NOTHROW(set_parameters(small, arrays, "net.npz", cpu()));
  CHECK_THROWS_WITH(set_parameters(same, arrays, "net.npz", cpu()), contains("net.npz: has a parameter 'bias'"));
  CHECK_FALSE(same.own_parameter("weight").is_initialized());
}
