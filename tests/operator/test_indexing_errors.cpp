// Errors of numbers that kernels find: whose they are.
#include <string>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"

using namespace sluice;

TEST_CASE("A bad number on a GPU is an error of what the program called", "[indexing][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = zeros({2, 3}).to(gpu()), bad = array<int>({0, 7}).to(gpu()), good = array<int>({0, 1}).to(gpu()),
                values = ones({2}).to(gpu());
  const auto names = [](const NDArray& y, const std::string& called) {
    CAPTURE(called);
    CHECK_THROWS_AS(y.wait_to_read(), IndexError);
    CHECK_THROWS_WITH(y.wait_to_read(), sluice::test::contains(called) && sluice::test::contains("index 7"));
    CHECK_THROWS_WITH(y.wait_to_read(), !sluice::test::contains("gather_nd") && !sluice::test::contains("_backward"));
  };
  names(take(x, {good, bad}), "take");
  names(index_add(x, {bad}, values.reshape({2, 1})), "index_add");
  names(index_add(x, {good, bad}, values), "index_add");
  names(embedding(bad, x), "embedding");
  names(put(x, bad, values), "put");
}

TEST_CASE("A bad number that a gradient meets is an error of the gradient", "[indexing]") {
  NDArray x = zeros({2, 3});
  x.attach_grad();
  const NDArray bad = array<int>({0, 7});
  for (const bool puts : {false, true}) {
    NDArray y;
    {
      const autograd::RecordScope record;
      y = puts ? index_update(x, {bad}, full({}, 1)) : take(x, {bad});
    }
    y.backward(ones(y.shape()));
    const char* const said = puts ? "index_update_backward: index 7" : "take_backward: index 7";
    CHECK_THROWS_AS(y.wait_to_read(), IndexError);
    CHECK_THROWS_WITH(x.grad().wait_to_read(), sluice::test::contains(said));
  }
}
