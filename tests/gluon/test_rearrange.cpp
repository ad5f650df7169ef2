// Layers that move what is there: where each element comes from.
#include <cstdlib>
#include <vector>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

/// What `from(n, c, y, x)` says, for a result of that shape.
template <class From>
std::vector<float> told(const Shape& shape, const From& from) {
  std::vector<float> all;
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      for (std::int64_t y = 0; y < shape[2]; ++y) {
        for (std::int64_t x = 0; x < shape[3]; ++x)
          all.push_back(from(n, c, y, x));
      }
    }
  }
  return all;
}

/// By hand and as a graph, for batches of two sizes.
void check(gluon::Block& layer, const NDArray& x, const std::vector<float>& wanted) {
  CHECK(values(layer(x)) == wanted);
  layer.hybridize();
  CHECK(values(layer(x)) == wanted);
  const std::vector<float> part = values(layer(x.slice(0, 0, 2)));
  CHECK(part == std::vector<float>(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(part.size())));
  CHECK(layer.hybrid_traces() == 1);
}

}  // namespace

TEST_CASE("PixelShuffle2D lays channels out as tiles", "[gluon][layers]") {
  const NDArray x = pattern_array({3, 18, 2, 4});
  const std::vector<float> from = values(x);
  nn::PixelShuffle2D layer(3);
  CHECK(layer(x).shape() == Shape{3, 2, 6, 12});
  check(layer, x, told({3, 2, 6, 12}, [&](std::int64_t n, std::int64_t c, std::int64_t y, std::int64_t column) {
          const std::int64_t channel = (c * 3 + y % 3) * 3 + column % 3;
          return from[static_cast<std::size_t>(((n * 18 + channel) * 2 + y / 3) * 4 + column / 3)];
        }));
  CHECK_THROWS_AS(layer(ones({2, 17, 2, 4})), ShapeError);
  CHECK_THROWS_WITH(nn::PixelShuffle2D(0), contains("factor 0"));
}

TEST_CASE("ReflectionPad2D mirrors rows and columns without the edge", "[gluon][layers]") {
  const NDArray x = pattern_array({3, 3, 4, 5});
  const std::vector<float> from = values(x);
  const auto mirrored = [](std::int64_t at, std::int64_t extent) {
    const std::int64_t inside = std::abs(at - 2);
    return inside < extent ? inside : 2 * (extent - 1) - inside;
  };
  nn::ReflectionPad2D layer(2);
  CHECK(layer(x).shape() == Shape{3, 3, 8, 9});
  check(layer, x, told({3, 3, 8, 9}, [&](std::int64_t n, std::int64_t c, std::int64_t y, std::int64_t column) {
          return from[static_cast<std::size_t>(((n * 3 + c) * 4 + mirrored(y, 4)) * 5 + mirrored(column, 5))];
        }));
  CHECK_THROWS_AS(layer(ones({3, 4, 5})), ShapeError);
  CHECK_THROWS_WITH(nn::ReflectionPad2D(-1), contains("padding -1"));
}

TEST_CASE("Layers of tiles take arrays without elements, by hand and as graphs", "[gluon][layers]") {
  nn::PixelShuffle1D rows(2);
  nn::PixelShuffle2D images(2);
  nn::PixelShuffle3D volumes(2);
  const auto gives = [](gluon::Block& layer, const Shape& from, const Shape& to) {
    CAPTURE(from, to);
    CHECK(layer(zeros(from)).shape() == to);
    layer.hybridize();
    CHECK(layer(zeros(from)).shape() == to);
    layer.hybridize(false);
  };
  gives(rows, {0, 4, 3}, {0, 2, 6});
  gives(rows, {3, 4, 0}, {3, 2, 0});
  gives(rows, {3, 0, 5}, {3, 0, 10});
  gives(images, {3, 4, 0, 2}, {3, 1, 0, 4});
  gives(volumes, {0, 8, 1, 2, 3}, {0, 1, 2, 4, 6});
  gives(volumes, {3, 8, 0, 2, 3}, {3, 1, 0, 4, 6});
  gives(volumes, {3, 0, 1, 2, 3}, {3, 0, 2, 4, 6});
  constexpr std::int64_t k_large = std::int64_t{1} << 32;
  CHECK_THROWS_AS(nn::PixelShuffle3D({k_large, k_large, 1}), ShapeError);
  CHECK_THROWS_AS(nn::PixelShuffle1D(k_large)(zeros({1, 0, k_large})), ShapeError);
  CHECK_THROWS_AS(nn::PixelShuffle3D({k_large, 1, 1})(zeros({1, 0, k_large, 1, 1})), ShapeError);
}

TEST_CASE("Who writes what a layer of tiles gave leaves its input as it was", "[gluon][layers]") {
  const auto keeps = [](const gluon::Block& layer, const Shape& shape) {
    CAPTURE(shape);
    const NDArray x = ones(shape);
    layer(x).assign(5);
    CHECK(values(x) == std::vector<float>(static_cast<std::size_t>(shape.size()), 1));
  };
  keeps(nn::PixelShuffle1D(2), {1, 4, 1});
  keeps(nn::PixelShuffle1D(1), {2, 4, 3});
  keeps(nn::PixelShuffle2D(2), {1, 4, 1, 1});
  keeps(nn::PixelShuffle3D(2), {1, 8, 1, 1, 1});
}
