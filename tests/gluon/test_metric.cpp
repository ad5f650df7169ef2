#include <cmath>

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
