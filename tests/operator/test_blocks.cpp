// Squares of pixels against channels: values against loops, gradients, layouts, nothing, by name, and what they refuse.
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/layouts.h"
#include "tests/operator/reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Pair {
  const char *to_depth, *to_space;
  bool channels_first;
};

constexpr Pair k_pairs[] = {{"space_to_depth", "depth_to_space", false}, {"pixel_unshuffle", "pixel_shuffle", true}};

NDArray moved(const char* name, const NDArray& x, std::int64_t block) {
  const Operator& op = *find_operator(name);
  return invoke(op, {&x, 1}, parse_attributes(op, message("block_size=", block)), SourceLocation::current())[0];
}

// What stands at pixel (h, w) of channel c of the image, to its place among the channels.
Dense by_loops(const NDArray& image, std::int64_t block, bool channels_first) {
  const Dense from(image);
  const Shape& x = from.shape;
  Dense to({x[0], x[1] * block * block, x[2] / block, x[3] / block}, 0);
  for (std::size_t i = 0; i < from.values.size(); ++i) {
    const auto at = unravel(x, static_cast<std::int64_t>(i));
    const std::int64_t square = at[2] % block * block + at[3] % block;
    const std::int64_t channel = channels_first ? at[1] * block * block + square : square * x[1] + at[1];
    const std::vector<std::int64_t> place{at[0], channel, at[2] / block, at[3] / block};
    to.values[static_cast<std::size_t>(ravel(to.shape, place))] = from.values[i];
  }
  return to;
}

void check_moves(Device device) {
  const Shape shape{2, 3, 6, 12};
  for (const Pair& pair : k_pairs) {
    for (const auto& [layout, name] : k_layouts) {
      for (const std::int64_t block : {1, 2, 3}) {
        CAPTURE(pair.to_depth, name, block);
        const NDArray x = view_of(layout, random_array(base_shape(layout, shape), 5, -9, 9).to(device), shape);
        const NDArray y = moved(pair.to_depth, x, block);
        const NDArray wanted = by_loops(x, block, pair.channels_first).array(float32);
        CHECK(differences(y.to(cpu()), wanted, {0, 0}) == "");
        const NDArray lying =
            view_of(layout, random_array(base_shape(layout, y.shape()), 6, -9, 9).to(device), y.shape());
        const NDArray back = moved(pair.to_space, lying, block);
        CHECK(back.shape() == shape);
        CHECK(differences(moved(pair.to_depth, back, block), lying, {0, 0}) == "");
      }
    }
  }
}

}  // namespace

TEST_CASE("Squares of pixels become channels and come back", "[operator][view][blocks]") {
  check_moves(cpu());
  const NDArray x = array<int>({0, 1, 2, 3, 4, 5, 6, 7}, {1, 2, 2, 2});
  CHECK(space_to_depth(x, 2).to_vector<int>() == std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7});
  CHECK(pixel_unshuffle(x, 2).to_vector<int>() == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(depth_to_space(space_to_depth(x, 2), 2).to_vector<int>() == x.to_vector<int>());
  CHECK(pixel_shuffle(pixel_unshuffle(x, 2), 2).to_vector<int>() == x.to_vector<int>());
  for (const DType dtype : all_dtypes())
    CHECK(space_to_depth(x.astype(dtype), 2).dtype() == dtype);
}

TEST_CASE("Squares of pixels become channels on a GPU", "[operator][view][blocks][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_moves(gpu());
}

TEST_CASE("Moves of squares have gradients and go through graphs", "[operator][view][blocks][gradient]") {
  const NDArray x = random_array({2, 8, 4, 2}, 1, -1, 1, float64);
  for (const Pair& pair : k_pairs) {
    for (const char* const name : {pair.to_depth, pair.to_space}) {
      const auto f = [=](const std::vector<NDArray>& v) { return moved(name, v[0], 2); };
      CAPTURE(name);
      CHECK(gradient_differences(f, {x}) == "");
      CHECK(traced_differences(f, {x}) == "");
    }
  }
}

TEST_CASE("Moves of squares take images of nothing", "[operator][view][blocks]") {
  for (const Pair& pair : k_pairs) {
    CAPTURE(pair.to_depth);
    CHECK(moved(pair.to_depth, zeros({0, 3, 4, 6}), 2).shape() == Shape{0, 12, 2, 3});
    CHECK(moved(pair.to_depth, zeros({2, 0, 4, 6}), 2).shape() == Shape{2, 0, 2, 3});
    CHECK(moved(pair.to_depth, zeros({2, 3, 0, 6}, {.dtype = bool_}), 2).shape() == Shape{2, 12, 0, 3});
    CHECK(moved(pair.to_space, zeros({2, 0, 2, 3}, {.dtype = uint16}), 2).dtype() == uint16);
    CHECK(moved(pair.to_space, zeros({0, 12, 2, 3}), 2).shape() == Shape{0, 3, 4, 6});
    NDArray none = zeros({2, 4, 0, 6});
    none.attach_grad();
    const autograd::RecordScope record;
    sum(moved(pair.to_space, none, 2)).backward();
    CHECK(none.grad().shape() == Shape{2, 4, 0, 6});
  }
}

TEST_CASE("Moves of squares say what they refuse", "[operator][view][blocks]") {
  for (const Pair& pair : k_pairs) {
    for (const char* const name : {pair.to_depth, pair.to_space}) {
      CHECK_THROWS_WITH(moved(name, zeros({4, 4, 4}), 2), contains(name) && contains("(4, 4, 4)"));
      CHECK_THROWS_AS(moved(name, zeros({4, 4, 4}), 2), ShapeError);
      CHECK_THROWS_AS(moved(name, zeros({1, 4, 4, 4}), 0), ValueError);
      CHECK_THROWS_AS(moved(name, zeros({1, 4, 4, 4}), std::int64_t{1} << 31), ValueError);
      CHECK_THROWS_AS(moved(name, zeros({1, 5, 4, 5}), 2), ShapeError);
      CHECK_THROWS_WITH(moved(name, zeros({1, 5, 4, 5}), 2), contains(name) && contains("(1, 5, 4, 5)"));
      CHECK_THROWS_AS(moved(name, NDArray(), 2), ValueError);
    }
    CHECK_THROWS_AS(moved(pair.to_depth, zeros({1, 1 << 20, 0, 0}), (std::int64_t{1} << 31) - 1), ShapeError);
  }
}

TEST_CASE("Who writes squares of pixels leaves what they were made of as it was", "[operator][blocks]") {
  for (const Pair& pair : k_pairs) {
    for (const auto& [name, shape, block] :
         {std::tuple(pair.to_depth, Shape{1, 1, 2, 2}, 2),
          {pair.to_space, Shape{1, 4, 1, 1}, 2},
          {pair.to_depth, Shape{1, 2, 1, 2}, 1},
          {pair.to_space, Shape{1, 2, 1, 2}, 1}}) {
      CAPTURE(name, shape, block);
      const NDArray x = ones(shape);
      moved(name, x, block).assign(5);
      CHECK(x.to_vector<float>() == std::vector<float>(4, 1));
    }
  }
}
