// Rows for indices as a layer.
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

const std::vector<std::int32_t> k_numbers = {1, 0, 2, 2};

NDArray numbers() {
  return array(k_numbers, {2, 2});
}

}  // namespace

TEST_CASE("Embedding gives rows, and gradients to the rows it took but the one of padding", "[gluon][embedding]") {
  for (const bool hybrid : {false, true}) {
    nn::Embedding net(3, 2, {.padding = -1});
    net.initialize();
    if (hybrid)
      net.hybridize();
    const NDArray weight = net.collect_params().begin()->second.data();
    weight.detach().assign(array<float>({1, 2, 3, 4, 5, 6}).reshape({3, 2}));
    NDArray y;
    {
      const autograd::RecordScope record;
      y = net(numbers());
    }
    CHECK(y.shape() == Shape{2, 2, 2});
    CHECK(values(y) == std::vector<float>{3, 4, 1, 2, 5, 6, 5, 6});
    y.backward(full({2, 2, 2}, 2.0f));
    CHECK(values(weight.grad()) == std::vector<float>{2, 2, 2, 2, 0, 0});
    CHECK(net(numbers().slice(0, 0, 0)).shape() == Shape{0, 2, 2});
  }
}

TEST_CASE("What Embedding cannot be or take is a typed error", "[gluon][embedding]") {
  CHECK_THROWS_AS(nn::Embedding(0, 2), ValueError);
  CHECK_THROWS_AS(nn::Embedding(3, 0), ValueError);
  CHECK_THROWS_AS(nn::Embedding(3, 2, {.padding = 3}), IndexError);
  CHECK_THROWS_AS(nn::Embedding(3, 2, {.padding = -4}), IndexError);
  nn::Embedding net(3, 2);
  net.initialize();
  CHECK_THROWS_AS(net(array<std::int32_t>({3})).wait_to_read(), IndexError);
  CHECK_THROWS_AS(net(array<float>({1})), DTypeError);
}
