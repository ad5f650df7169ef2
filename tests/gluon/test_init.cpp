#include <cmath>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace init = gluon::init;

namespace {

struct Statistics {
  double mean = 0, deviation = 0, least = 0, most = 0;
};

Statistics statistics(const NDArray& array) {
  const std::vector<float> x = values(array);
  Statistics found{.least = x[0], .most = x[0]};
  double squares = 0;
  for (float v : x) {
    found.mean += v / static_cast<double>(x.size());
    squares += static_cast<double>(v) * v / static_cast<double>(x.size());
    found.least = std::min<double>(found.least, v);
    found.most = std::max<double>(found.most, v);
  }
  found.deviation = std::sqrt(squares - found.mean * found.mean);
  return found;
}

NDArray made(const init::Initializer& initializer, const Shape& shape, DType dtype = float32) {
  const NDArray array = empty(shape, {.dtype = dtype});
  initializer(array);
  return array;
}

}  // namespace

TEST_CASE("constant initialisers fill", "[gluon][init]") {
  CHECK(values(made(init::Zero(), {3})) == std::vector<float>{0, 0, 0});
  CHECK(values(made(init::One(), {3})) == std::vector<float>{1, 1, 1});
  CHECK(values(made(init::Constant(2.5), {2}, float64)) == std::vector<float>{2.5, 2.5});
}

TEST_CASE("random initialisers have the spread that they promise", "[gluon][init]") {
  const Statistics uniform = statistics(made(init::Uniform(0.5), {100, 1000}));
  CHECK(uniform.mean == Approx(0).margin(0.005));
  CHECK(uniform.deviation == Approx(0.5 / std::sqrt(3)).epsilon(0.01));
  CHECK(uniform.least >= -0.5);
  CHECK(uniform.most < 0.5);
  const Statistics normal = statistics(made(init::Normal(2), {100, 1000}));
  CHECK(normal.mean == Approx(0).margin(0.03));
  CHECK(normal.deviation == Approx(2).epsilon(0.01));
  CHECK(normal.most > 6);
}

TEST_CASE("Xavier follows MXNet's definition", "[gluon][init]") {
  // fan_in = 50 * 9, fan_out = 100 * 9
  const Shape shape = {100, 50, 3, 3};
  const auto most = [&](const init::XavierOptions& options) {
    return statistics(made(init::Xavier(options), shape)).most;
  };
  CHECK(most({}) == Approx(std::sqrt(3.0 / 675)).epsilon(0.01));
  CHECK(most({.factor_type = "in"}) == Approx(std::sqrt(3.0 / 450)).epsilon(0.01));
  CHECK(most({.factor_type = "out", .magnitude = 2}) == Approx(std::sqrt(2.0 / 900)).epsilon(0.01));
  const Statistics gaussian =
      statistics(made(init::Xavier({.rnd_type = "gaussian", .factor_type = "in", .magnitude = 2}), shape));
  CHECK(gaussian.deviation == Approx(std::sqrt(2.0 / 450)).epsilon(0.02));
}

TEST_CASE("initialisers refuse nonsense", "[gluon][init]") {
  CHECK_THROWS_AS(init::Uniform(-1), ValueError);
  CHECK_THROWS_AS(init::Normal(std::nan("")), ValueError);
  CHECK_THROWS_WITH(init::Xavier({.rnd_type = "cauchy"}), contains("cauchy"));
  CHECK_THROWS_AS(init::Xavier({.factor_type = "both"}), ValueError);
  CHECK_THROWS_AS(init::Xavier({.magnitude = 0}), ValueError);
  CHECK_THROWS_AS(made(init::Xavier(), {3}), ShapeError);
}

TEST_CASE("one seed gives one network", "[gluon][init]") {
  const auto weights = [](std::uint64_t seed) {
    Engine engine({.workers = 2, .seed = seed});
    EngineScope scope(engine);
    gluon::nn::Sequential net;
    net.add(gluon::nn::Dense(8), gluon::nn::Dense(3));
    net.initialize(init::Xavier());
    net(zeros({1, 5}));
    std::vector<float> all;
    for (const auto& [name, parameter] : net.collect_params()) {
      const std::vector<float> one = values(parameter.data());
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  CHECK(weights(3) == weights(3));
  CHECK(weights(3) != weights(4));
}
