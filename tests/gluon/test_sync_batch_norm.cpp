// SyncBatchNorm: several parts of a batch are normalised as BatchNorm normalises the whole.
#include <cmath>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

constexpr std::int64_t k_channels = 3;

/// Both layers with the same parameters away from what they begin with.
struct Pair {
  explicit Pair(std::size_t replicas, nn::BatchNormOptions options = {}) : whole(options), parts(replicas, options) {
    options.in_channels = k_channels;
    for (gluon::Block* const block : {static_cast<gluon::Block*>(&whole), static_cast<gluon::Block*>(&parts)}) {
      block->initialize();
      int seed = 5;
      for (const auto& [name, parameter] : block->collect_params())
        parameter.set_data(random_array({k_channels}, ++seed, 0.5, 2));
    }
  }
  void check_parameters(double tolerance = 1e-5) const {
    const ParameterDict wanted = whole.collect_params();
    for (const auto& [name, parameter] : parts.collect_params()) {
      CAPTURE(name);
      check_near(values(parameter.data()), values(wanted[name].data()), tolerance);
      if (parameter.grad_req() != GradReq::null)
        check_near(values(parameter.grad()), values(wanted[name].grad()), tolerance);
    }
  }

  nn::BatchNorm whole;
  nn::SyncBatchNorm parts;
};

Arrays parts_of(const NDArray& x, const std::vector<std::int64_t>& sizes) {
  Arrays parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(x.slice(0, begin, begin + size).copy());
    begin += size;
  }
  return parts;
}

NDArray variable(const NDArray& x) {
  NDArray made = x.copy();
  made.attach_grad();
  return made;
}

/// One step of both by the same gradients of results; what they give and leave must agree.
void check_training(Pair& pair, const NDArray& x, const std::vector<std::int64_t>& sizes, double tolerance = 1e-5) {
  const NDArray whole = variable(x), weight = random_array(x.shape(), 77, -1, 1).astype(x.dtype());
  Arrays parts = parts_of(x, sizes), weights = parts_of(weight, sizes);
  for (NDArray& part : parts)
    part.attach_grad();
  NDArray wanted;
  Arrays found, heads;
  {
    const autograd::RecordScope record;
    wanted = pair.whole(whole);
    found = pair.parts.call(parts);
    for (std::size_t i = 0; i < found.size(); ++i)
      heads.push_back(sum(found[i] * weights[i]));
    sum(wanted * weight).backward();
  }
  autograd::backward(heads);
  REQUIRE(found.size() == sizes.size());
  const Arrays wanted_parts = parts_of(wanted, sizes), wanted_grads = parts_of(whole.grad(), sizes);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].dtype() == x.dtype());
    CHECK(found[i].shape() == parts[i].shape());
    check_near(values(found[i].astype(float32)), values(wanted_parts[i].astype(float32)), tolerance);
    check_near(values(parts[i].grad().astype(float32)), values(wanted_grads[i].astype(float32)), tolerance);
  }
  pair.check_parameters(tolerance);
}

/// Two replicas whose parts meet in the layer between.
class Towers : public gluon::Block {
 public:
  Towers() : dense_(child("dense", nn::Dense(k_channels))), norm_(child("norm", nn::SyncBatchNorm(2))) {}

 protected:
  Arrays forward_all(std::span<const NDArray> x) const override {
    Arrays results;
    for (const NDArray& part : norm_({dense_(x[0]), dense_(x[1])}))
      results.push_back(relu(part));
    return results;
  }

 private:
  gluon::Child<nn::Dense> dense_;
  gluon::Child<nn::SyncBatchNorm> norm_;
};

/// Weights and running statistics after some steps of both towers.
std::vector<float> trained(bool hybrid) {
  Engine engine({.seed = 4});
  const EngineScope scope(engine);
  Towers net;
  net.initialize();
  net.hybridize(hybrid);
  Trainer trainer(net.collect_params(), SGD({.learning_rate = 0.1}));
  std::vector<float> seen;
  for (int step = 0; step < 4; ++step) {
    Arrays heads;
    {
      const autograd::RecordScope record;
      for (const NDArray& y : net({random_array({4, 5}, step + 1), random_array({2 + step % 2, 5}, step + 9)}))
        heads.push_back(sum(y * y * y));
    }
    autograd::backward(heads);
    trainer.step(6);
    seen.push_back((heads[0] + heads[1]).item<float>());
  }
  CHECK((net.hybrid_traces() > 0) == hybrid);
  for (const auto& [name, parameter] : net.collect_params())
    for (const float value : values(parameter.data()))
      seen.push_back(value);
  return seen;
}

}  // namespace

TEST_CASE("Parts of a batch are normalised as the whole, with gradients and statistics", "[gluon][layers][norms]") {
  const std::vector<std::vector<std::int64_t>> splits{{4, 4}, {1, 7}, {2, 1, 5}, {3, 0, 5}, {8}};
  for (const auto& sizes : splits) {
    CAPTURE(sizes);
    Pair pair(sizes.size());
    for (int step = 0; step < 2; ++step)
      check_training(pair, random_array({8, k_channels, 2, 3}, step + 1, -2, 5), sizes);
  }
}

TEST_CASE("Parts are normalised along any axis, with every option", "[gluon][layers][norms]") {
  const nn::BatchNormOptions each[] = {
      {.axis = -1, .momentum = 0.3, .epsilon = 0.5},
      {.axis = -1, .momentum = 0, .center = false, .scale = false},
      {.axis = 2, .momentum = 1},
      {.axis = -1, .use_global_stats = true}};
  for (const nn::BatchNormOptions& options : each) {
    Pair pair(2, options);
    check_training(pair, random_array({5, 2, k_channels}, 3, -1, 4), {2, 3});
  }
  Pair flat(2);
  check_training(flat, random_array({6, k_channels}, 4), {1, 5});
}

TEST_CASE("Variances of parts whose means lie apart and far from 0 do not cancel", "[gluon][layers][norms]") {
  Pair pair(2, {.epsilon = 1e-9});
  const NDArray x =
      concat({random_array({4, k_channels}, 1, 3000, 3001), random_array({4, k_channels}, 2, 3001, 3003)});
  check_training(pair, x, {4, 4}, 2e-3);
}

TEST_CASE("Parts of half types have statistics of float32, of float64 float64", "[gluon][layers][norms]") {
  for (const DType dtype : {float16, bfloat16}) {
    Pair pair(2);
    pair.parts.cast(dtype);
    CHECK(pair.parts.own_parameter("gamma").dtype() == float32);
    check_training(pair, random_array({6, k_channels, 4}, 2).astype(dtype), {2, 4}, dtype == float16 ? 5e-3 : 3e-2);
  }
  Pair wide(2);
  wide.whole.cast(float64);
  wide.parts.cast(float64);
  CHECK(
      wide.parts({ones({1, k_channels}, {.dtype = float64}), zeros({2, k_channels}, {.dtype = float64})})[0].dtype() ==
      float64);
}

TEST_CASE("A part alone, a transposed and a broadcast one count as what they hold", "[gluon][layers][norms]") {
  Pair pair(3);
  const NDArray a = random_array({2, 4, k_channels}, 1), b = random_array({1, k_channels, 1}, 2);
  const Arrays parts{
      a.swapaxes(1, 2), b.broadcast_to({3, k_channels, 4}), random_array({4, k_channels, 4}, 3).slice(0, 1, 4, 2)};
  const autograd::TrainScope training;
  const NDArray wanted = pair.whole(concat(parts));
  const Arrays found = pair.parts.call(parts);
  check_near(values(concat(found)), values(wanted));
  pair.check_parameters();
}

TEST_CASE("Second derivatives through the statistics are those of the whole batch", "[gluon][layers][norms]") {
  Pair pair(2);
  const NDArray x = random_array({5, k_channels}, 1), weight = random_array({5, k_channels}, 2);
  const auto penalty = [&](const std::function<NDArray(const NDArray&)>& layer) {
    const NDArray at = variable(x);
    const autograd::RecordScope record;
    const NDArray first = autograd::grad(sum(layer(at) * weight), at, {.create_graph = true});
    sum(first * first).backward();
    return values(at.grad());
  };
  const auto by_parts = [&](const NDArray& at) { return concat(pair.parts({at.slice(0, 0, 2), at.slice(0, 2, 5)})); };
  check_near(penalty(by_parts), penalty([&](const NDArray& at) { return pair.whole(at); }), 1e-4);
}

TEST_CASE(
    "Otherwise than in training any number of parts is normalised by running statistics", "[gluon][layers][norms]") {
  Pair pair(4);
  const NDArray x = random_array({5, k_channels, 2}, 1);
  CHECK(values(pair.parts(x)) == values(pair.whole(x)));
  CHECK(values(concat(pair.parts.call(parts_of(x, {2, 3})))) == values(pair.whole(x)));
  pair.check_parameters();
}

TEST_CASE("Empty batches leave SyncBatchNorm's statistics as BatchNorm's", "[gluon][layers][norms]") {
  Pair pair(2);
  const autograd::TrainScope training;
  const NDArray none = zeros({0, k_channels, 2});
  CHECK(pair.whole(none).shape() == none.shape());
  for (const NDArray& part : pair.parts({none, none}))
    CHECK(part.shape() == none.shape());
  pair.check_parameters();
}

TEST_CASE("Parts that are missing or do not go together are named, and change nothing", "[gluon][layers][norms]") {
  CHECK_THROWS_AS(nn::SyncBatchNorm(0), ValueError);
  CHECK_THROWS_AS(nn::SyncBatchNorm(2, {.momentum = 2}), ValueError);
  Pair pair(2);
  const autograd::TrainScope training;
  const NDArray x = ones({2, k_channels, 2});
  CHECK_THROWS_WITH(pair.parts(x), contains("has 2 replicas, but 1 parts came"));
  CHECK_THROWS_AS(pair.parts({x, x, x}), ValueError);
  CHECK_THROWS_AS(pair.parts.call({}), ValueError);
  CHECK_THROWS_WITH(pair.parts({x, ones({2, 4, 2})}), contains("part 1 of shape (2, 4, 2)"));
  CHECK_THROWS_AS(pair.parts({x, ones({2, k_channels})}), ShapeError);
  CHECK_THROWS_WITH(pair.parts({x, x.astype(float16)}), contains("part 1 is float16"));
  CHECK_THROWS_AS(pair.parts({x.astype(int32), x.astype(int32)}), DTypeError);
  CHECK_THROWS_AS(pair.parts({ones({3}), ones({3})}), IndexError);
  CHECK_THROWS_AS(pair.parts({ones({2, 4}), ones({2, 4})}), Error);  // of other channels than the parameters
  pair.check_parameters();
}

TEST_CASE("Replicas that meet in SyncBatchNorm train as graphs as they do by hand", "[gluon][layers][norms][graph]") {
  CHECK(trained(true) == trained(false));
}

TEST_CASE("An error of one part is the error of all, and of no statistics", "[gluon][layers][norms]") {
  Engine engine({.seed = 3});
  const EngineScope scope(engine);
  Pair pair(2);
  const NDArray x = random_array({2, k_channels}, 1);
  const std::vector<float> before = values(pair.parts.own_parameter("running_mean").data());
  Arrays found;
  {
    const autograd::RecordScope record;
    const NDArray bad = take(x, array<std::int32_t>({0, 7}), 0);
    found = pair.parts({x, bad});
  }
  for (const NDArray& part : found) {
    try {
      part.wait_to_read();
      FAIL("a part without what was lost");
    } catch (const IndexError& error) {
      engine.forgive(error);
    }
  }
  CHECK(values(pair.parts.own_parameter("running_mean").data()) == before);
  check_training(pair, random_array({5, k_channels}, 2), {2, 3});
}

TEST_CASE("NaN of one part is in all results and in no other channel", "[gluon][layers][norms]") {
  Pair pair(2);
  NDArray x = random_array({3, k_channels}, 1);
  x.slice(1, 1, 2).slice(0, 2, 3).assign(std::nan(""));
  const autograd::TrainScope training;
  for (const NDArray& part : pair.parts({x, random_array({2, k_channels}, 2)})) {
    const std::vector<float> all = values(part);
    for (std::size_t i = 0; i < all.size(); ++i)
      CHECK(std::isnan(all[i]) == (i % k_channels == 1));
  }
}

TEST_CASE("BatchNorm's files are SyncBatchNorm's, and its tasks bear the user's line", "[gluon][layers][norms]") {
  const TemporaryFolder folder;
  Pair pair(2);
  pair.whole.own_parameter("gamma").set_data(full({k_channels}, 7));
  pair.whole.save_parameters(folder / "norm.npz");
  nn::SyncBatchNorm norm(2);
  norm.load_parameters(folder / "norm.npz");
  CHECK(values(norm.own_parameter("gamma").data()) == std::vector<float>(k_channels, 7));
  const autograd::TrainScope training;
  CHECK_THROWS_WITH(norm({ones({2, 4}), ones({2, 4})}), contains("test_sync_batch_norm.cpp"));
}

TEST_CASE("Parts on a CPU and a GPU are normalised together", "[gluon][layers][norms][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const auto& [home, hybrid] :
       {std::pair(cpu(), false), std::pair(gpu(0), false), std::pair(cpu(), true), std::pair(gpu(0), true)}) {
    CAPTURE(home, hybrid);
    Pair pair(2);
    pair.parts.to(home);
    pair.parts.hybridize(hybrid);
    const NDArray x = random_array({6, k_channels, 4}, 1);
    const NDArray whole = variable(x);
    Arrays parts = parts_of(x, {2, 4});
    parts[1] = parts[1].to(gpu(0));
    for (NDArray& part : parts)
      part.attach_grad();
    NDArray wanted;
    Arrays found, heads;
    {
      const autograd::RecordScope record;
      wanted = pair.whole(whole);
      found = pair.parts.call(parts);
      sum(wanted * wanted * wanted).backward();
      for (const NDArray& part : found)
        heads.push_back(sum(part * part * part).to(cpu()));
    }
    autograd::backward(heads);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(found[i].device() == parts[i].device());
      check_near(values(found[i]), values(parts_of(wanted, {2, 4})[i]), 1e-4);
      check_near(values(parts[i].grad()), values(parts_of(whole.grad(), {2, 4})[i]), 1e-4);
    }
    pair.check_parameters(1e-4);
  }
}
