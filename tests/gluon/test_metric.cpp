#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using gluon::metric::Accuracy;

TEST_CASE("accuracy counts over batches of any size", "[gluon][metric]") {
  Accuracy accuracy;
  CHECK(std::isnan(accuracy.get().second));
  accuracy.update(array<std::int32_t>({1, 0}), array<float>({0, 1, 1, 0}, {2, 2}));
  accuracy.update(array<std::int64_t>({1, 1, 1}), array<float>({0, 1, 3, 2, 5, 4}, {3, 2}));
  const auto [name, share] = accuracy.get();
  CHECK(name == "accuracy");
  CHECK(share == Approx(3.0 / 5));
  CHECK(accuracy.count() == 5);
  accuracy.reset();
  accuracy.update(array<std::int32_t>({3}), array<std::int32_t>({3}));  // classes already
  CHECK(accuracy.get().second == 1);
  CHECK_THROWS_AS(accuracy.update(array<std::int32_t>({1}), zeros({2, 2})), ShapeError);
}

TEST_CASE("accuracy has a name of its own and takes classes along any axis", "[gluon][metric]") {
  Accuracy accuracy({.axis = 0, .name = "hits"});
  accuracy.update(array<std::int32_t>({1, 0, 1}), array<float>({0, 2, 3, 1, 0, 1}, {2, 3}));
  CHECK(accuracy.get() == std::pair<std::string, double>("hits", 2.0 / 3));
  Accuracy last({.axis = -1});
  last.update(array<std::int32_t>({1, 0, 0, 1}, {2, 2}), array<float>({0, 1, 1, 0, 2, 3, 4, 5}, {2, 2, 2}));
  CHECK(last.get().second == 0.75);
  CHECK_THROWS_AS(Accuracy({.axis = 2}).update(array<std::int32_t>({1}), zeros({1, 2})), IndexError);
}

TEST_CASE("accuracy is not recorded", "[gluon][metric]") {
  Accuracy accuracy;
  NDArray x = array<float>({0, 1}, {1, 2});
  x.attach_grad();
  autograd::RecordScope record;
  accuracy.update(array<std::int32_t>({1}), x * 2);
  CHECK(accuracy.get().second == 1);
}

namespace {

using gluon::metric::Composite;
using gluon::metric::Metric;
using gluon::metric::MSE;
using gluon::metric::PearsonCorrelation;

std::shared_ptr<Metric> made(const std::string& name) {
  if (name == "mse")
    return std::make_shared<MSE>();
  if (name == "pearson")
    return std::make_shared<PearsonCorrelation>();
  return std::make_shared<Composite>(std::vector<std::shared_ptr<Metric>>{made("mse"), made("pearson")});
}

void add_batch(Metric& metric, int start) {
  metric.update(pattern_array({5}, start), pattern_array({5}, start * 3 + 1));
}

}  // namespace

TEST_CASE("A metric goes on from the state of another", "[gluon][metric]") {
  for (const char* name : {"mse", "pearson", "both"}) {
    INFO(name);
    const auto whole = made(name), first = made(name), second = made(name);
    add_batch(*whole, 0);
    add_batch(*first, 0);
    add_batch(*second, 9);  // which the state takes the place of
    second->load_state(first->state());
    add_batch(*whole, 4);
    add_batch(*second, 4);
    CHECK(second->get_all() == whole->get_all());
    CHECK(second->count() == 10);
    CHECK(first->count() == 5);
    second->load_state(made(name)->state());
    CHECK(second->count() == 0);
    CHECK(std::isnan(second->get().second));
  }
}

TEST_CASE("A state that is none of a metric's changes nothing", "[gluon][metric]") {
  const auto mse = made("mse"), both = made("both");
  add_batch(*mse, 0);
  add_batch(*both, 0);
  const auto before = both->get_all();
  const NDArray sums = array<double>({1});
  CHECK_THROWS_AS(mse->load_state({.count = -1}), ValueError);
  CHECK_THROWS_AS(mse->load_state({.count = 2}), ValueError);
  CHECK_THROWS_AS(mse->load_state({.count = 2, .arrays = {sums, sums}}), ValueError);
  CHECK_THROWS_AS(mse->load_state({.count = 0, .arrays = {sums}}), ValueError);
  CHECK_THROWS_AS(mse->load_state({.count = 2, .arrays = {NDArray()}}), ValueError);
  CHECK_THROWS_AS(mse->load_state({.count = 2, .arrays = {array<float>({1})}}), ValueError);
  CHECK(mse->count() == 5);
  Metric::State state = both->state();
  const auto with = [&](std::size_t i, NDArray value) {
    Metric::State changed = state;
    changed.arrays[i] = std::move(value);
    return changed;
  };
  CHECK_THROWS_AS(both->load_state(with(0, array<std::int64_t>({5, 900}))), ValueError);
  CHECK_THROWS_AS(both->load_state(with(0, array<std::int64_t>({5, -1}))), ValueError);
  CHECK_THROWS_AS(both->load_state(with(0, sums)), ValueError);
  CHECK_THROWS_AS(both->load_state(with(2, array<std::int64_t>({5, 2}))), ValueError);
  CHECK_THROWS_AS(both->load_state(with(3, array<float>({1}))), ValueError);  // the first was loaded by then
  CHECK_THROWS_AS(both->load_state({}), ValueError);
  state.arrays.push_back(sums);
  CHECK_THROWS_AS(both->load_state(state), ValueError);
  CHECK(both->get_all() == before);
}
