// Images as arrays, turned: beside the transforms of samples, whose values have references of their own.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <sluice/gluon/data/vision/random_transforms.h>
#include <sluice/gluon/image/arrays.h>

#include "tests/gluon/sample_support.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data::vision::transforms;

namespace {

constexpr double k_angles[] = {0, 30, 90, -270, 200, 360, 45.5, -7};
constexpr RotateOptions k_ways[] = {{}, {.zoom_in = true}, {.zoom_out = true}};

NDArray floats(const HostArray& x) {
  return array(elements<float>(x), x.shape());
}

NDArray image_of_bytes(const HostArray& x) {
  return array(elements<std::uint8_t>(x), x.shape());
}

// A light on the right of a dark square of 41 pixels, 15 from its middle.
NDArray light() {
  std::vector<float> pixels(41 * 41);
  pixels[20 * 41 + 35] = 1;
  return array(pixels, {41, 41, 1});
}

// By how much the light was turned.
double degrees_of(const std::vector<float>& pixels) {
  double x = 0, y = 0;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    x += pixels[i] * (static_cast<double>(i % 41) - 20);
    y += pixels[i] * (20 - static_cast<double>(i / 41));
  }
  return std::atan2(y, x) * 180 / std::numbers::pi;
}

}  // namespace

TEST_CASE("image arrays are turned as samples are", "[gluon][image]") {
  for (const auto& [height, width] : {std::pair{9, 7}, {6, 6}, {1, 6}, {5, 1}, {1, 1}, {20, 31}}) {
    const HostArray x = bytes(height, width, 3), f = numbers(height, width, 2);
    for (const double degrees : k_angles) {
      for (const RotateOptions& how : k_ways) {
        CAPTURE(height, width, degrees, how.zoom_in, how.zoom_out);
        const std::vector<float> expected = elements<float>(applied(Rotate(degrees, how), f));
        check_near(values(image::imrotate(floats(f), degrees, how)), expected, 5e-3);
        const NDArray each = image::imrotate(floats(f), array<float>({static_cast<float>(degrees)}), how);
        REQUIRE(each.shape() == f.shape());
        check_near(values(each), expected, 5e-3);
        const auto bytes_there = image::imrotate(image_of_bytes(x), degrees, how).to_vector<std::uint8_t>();
        const auto bytes_here = elements<std::uint8_t>(applied(Rotate(degrees, how), x));
        for (std::size_t i = 0; i < bytes_here.size(); ++i)
          REQUIRE(std::abs(int{bytes_there[i]} - int{bytes_here[i]}) <= 1);
      }
    }
  }
}

TEST_CASE("each image of a batch is turned by an angle of its own", "[gluon][image]") {
  const NDArray a = floats(numbers(8, 11, 3)), b = multiply(a, 0.25);
  const NDArray batch = stack({a, b, a}, 0), degrees = array<float>({15, -80, 180});
  for (const RotateOptions& how : k_ways) {
    CAPTURE(how.zoom_in, how.zoom_out);
    const NDArray turned = image::imrotate(batch, degrees, how);
    check_near(values(turned[0]), values(image::imrotate(a, 15, how)), 5e-3);
    check_near(values(turned[1]), values(image::imrotate(b, -80, how)), 5e-3);
    check_near(values(turned[2]), values(image::imrotate(a, 180, how)), 5e-3);
  }
  check_near(values(image::imrotate(batch, 15)[1]), values(image::imrotate(b, 15)), 1e-6);
  check_near(values(image::imrotate(batch, degrees.astype(float16))), values(image::imrotate(batch, degrees)), 1e-6);
  for (const DType type : {float16, bfloat16, float64}) {
    const NDArray turned = image::imrotate(multiply(batch, 0.01).astype(type), degrees);
    CHECK(turned.dtype() == type);
    check_near(values(turned.astype(float32)), values(image::imrotate(multiply(batch, 0.01), degrees)), 2e-2);
  }
  // Strided images.
  const NDArray flat = a.transpose({1, 0, 2});
  CHECK(values(image::imrotate(flat, 33)) == values(image::imrotate(flat.contiguous(), 33)));
}

TEST_CASE("random turns are within the limits, each image's its own", "[gluon][image]") {
  Engine engine({.workers = 2, .seed = 4});
  const EngineScope scope(engine);
  const NDArray batch = light().expand_dims(0).broadcast_to({150, 41, 41, 1});
  const NDArray turned = image::random_rotate(batch, {-20, 50});
  std::vector<double> found;
  for (std::int64_t i = 0; i < 150; ++i)
    found.push_back(degrees_of(values(turned[i])));
  std::sort(found.begin(), found.end());
  CHECK(found.front() >= -20.5);
  CHECK(found.back() <= 50.5);
  CHECK(found.front() < -15);
  CHECK(found.back() > 45);
  CHECK(std::abs(found[75] - 15) < 12);
  for (std::size_t i = 1; i < found.size(); ++i)
    REQUIRE(found[i] > found[i - 1]);
  CHECK(degrees_of(values(image::imrotate(light(), 30))) == Approx(30).margin(0.5));

  // Those that are not turned are as they were, to the bit.
  const NDArray some = image::random_rotate(batch, {30, 40}, {}, 0.25);
  std::int64_t still = 0;
  for (std::int64_t i = 0; i < 150; ++i) {
    const std::vector<float> one = values(some[i]);
    if (one == values(light()))
      ++still;
    else
      REQUIRE(std::abs(degrees_of(one) - 35) < 5.5);
  }
  CHECK((still > 90 && still < 135));
  CHECK(values(image::random_rotate(batch, {30, 40}, {}, 0)) == values(batch));
  const NDArray zoomed = image::random_rotate(ones({16, 20, 30, 1}), {0, 90}, {.zoom_in = true});
  CHECK(min(zoomed).item<float>() > 0.999f);
  CHECK(image::random_rotate(ones({4, 5, 3}).astype(uint8), {-10, 10}).dtype() == uint8);
}

TEST_CASE("turned image arrays have gradients, and refuse what cannot be", "[gluon][image]") {
  NDArray x = floats(numbers(5, 5, 1)).copy();
  const NDArray weights = floats(numbers(5, 5, 1));
  x.attach_grad();
  {
    autograd::RecordScope record;
    sum(multiply(image::imrotate(x, 90), weights)).backward();
  }
  check_near(values(x.grad()), values(image::imrotate(weights, -90)), 1e-3);
  const NDArray image = ones({4, 5, 3}), batch = ones({2, 4, 5, 3});
  const RotateOptions both{.zoom_in = true, .zoom_out = true};
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(image::imrotate(image, infinite), ValueError);
  CHECK_THROWS_AS(image::imrotate(image, 1, both), ValueError);
  CHECK_THROWS_AS(image::imrotate(batch, array<float>({1, 2}), both), ValueError);
  CHECK_THROWS_AS(image::imrotate(batch, array<float>({1})), ShapeError);
  CHECK_THROWS_AS(image::imrotate(batch, ones({2, 1})), ShapeError);
  CHECK_THROWS_AS(image::imrotate(batch, ones({2}, {.dtype = int32})), DTypeError);
  CHECK_THROWS_AS(image::imrotate(ones({4, 5}), 1), ShapeError);
  CHECK_THROWS_AS(image::imrotate(ones({4, 5, 1}, {.dtype = int32}), 1), DTypeError);
  CHECK_THROWS_AS(image::random_rotate(image, {2, 1}), ValueError);
  CHECK_THROWS_AS(image::random_rotate(image, {0, infinite}), ValueError);
  CHECK_THROWS_AS(image::random_rotate(image, {0, 1}, {}, 1.5), ValueError);
  CHECK_THROWS_AS(image::random_rotate(image, {0, 1}, both), ValueError);
}

TEST_CASE("image arrays are turned on a GPU as on a CPU", "[gluon][image][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const auto compare = [](const NDArray& host, auto function) {
    Engine::current().seed(3);
    const NDArray a = function(host);
    Engine::current().seed(3);
    const NDArray b = function(host.to(gpu(0)));
    CHECK(b.device() == gpu(0));
    const NDArray apart = abs(a.astype(float32) - b.to(cpu()).astype(float32));
    CHECK(max(apart).item<float>() <= (a.dtype() == uint8 ? 1 : 5e-3f));
    CHECK(max(b.astype(float32)).item<float>() > 1);
  };
  const NDArray image = image_of_bytes(bytes(9, 7, 3)), f = floats(numbers(9, 7, 2)).expand_dims(0);
  for (const RotateOptions& how : k_ways) {
    compare(image, [&](const NDArray& x) { return image::imrotate(x, 33, how); });
    compare(f, [&](const NDArray& x) { return image::imrotate(x, array<float>({-125}, {1}, x.device()), how); });
    compare(f, [&](const NDArray& x) { return image::random_rotate(x, {-40, 40}, how, 0.7); });
  }
}
