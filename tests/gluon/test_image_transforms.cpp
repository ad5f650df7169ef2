// Transforms of images without random numbers; the expected values are PyTorch's and torchvision's.
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/gluon/sample_support.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;
using namespace gluon::data::vision::transforms;
using vision::ImageSize;

namespace {

void check_values(const HostArray& found, const Shape& shape, const std::vector<float>& expected) {
  CHECK(found.shape() == shape);
  check_near(elements<float>(found), expected, 1e-4);
}

}  // namespace

TEST_CASE("Resize mixes pixels as PyTorch's interpolate", "[gluon][transform]") {
  const HostArray x = numbers(3, 4, 1);
  check_values(
      applied(Resize({5, 3}), x),
      {5, 3, 1},
      {6.1667f,
       55.5f,
       20.667f,
       24.967f,
       54.1f,
       32.733f,
       53.167f,
       52,
       50.833f,
       71.267f,
       49.9f,
       28.533f,
       83.333f,
       48.5f,
       13.667f});
  check_values(
      applied(Resize(2, {.interpolation = {.antialias = true}}), x), {2, 2, 1}, {38.643f, 42.679f, 61.321f, 38.304f});
  check_values(
      applied(Resize({4, 3}, {.interpolation = {.mode = ResizeMode::bicubic}}), x),
      {4, 3, 1},
      {1.1684f, 65.9f, 17.62f, 32.474f, 57.058f, 43.645f, 69.859f, 49.314f, 40.353f, 86.38f, 48.249f, 10.118f});
  check_values(
      applied(Resize(2, {.interpolation = {.mode = ResizeMode::bicubic, .antialias = true}}), x),
      {2, 2, 1},
      {37.5f, 43.657f, 64.644f, 36.233f});
  check_values(
      applied(Resize({5, 3}, {.interpolation = {.mode = ResizeMode::nearest}}), x),
      {5, 3, 1},
      {0, 37, 74, 0, 37, 74, 47, 84, 20, 47, 84, 20, 94, 30, 67});
  // Bytes are the rounded numbers.
  const std::vector<std::uint8_t> rounded = {6, 56, 21, 25, 54, 33, 53, 52, 51, 71, 50, 29, 83, 49, 14};
  CHECK(elements<std::uint8_t>(applied(Resize({5, 3}), bytes(3, 4, 1))) == rounded);
}

TEST_CASE("Resize treats channels apart and keeps what has its size", "[gluon][transform]") {
  for (const std::int64_t channels : {1, 2, 3, 4, 5}) {
    const HostArray x = numbers(7, 6, channels), y = applied(Resize({4, 9}), x);
    const HostArray same = applied(Resize({7, 6}), x);
    CHECK(elements<float>(same) == elements<float>(x));
    for (std::int64_t c = 0; c < channels; ++c) {
      HostArray one({.shape = {7, 6, 1}, .dtype = float32});
      for (std::int64_t i = 0; i < 42; ++i)
        one.writable<float>()[i] = x.as<float>()[i * channels + c];
      const HostArray alone = applied(Resize({4, 9}), one);
      for (std::int64_t i = 0; i < 36; ++i)
        REQUIRE(alone.as<float>()[i] == y.as<float>()[i * channels + c]);
    }
  }
  // From one pixel, and to one.
  CHECK(
      elements<std::uint8_t>(applied(Resize({3, 2}), HostArray(std::vector<std::uint8_t>{9}, {1, 1, 1}))) ==
      std::vector<std::uint8_t>(6, 9));
  CHECK(
      elements<float>(applied(
          Resize(1, {.interpolation = {.antialias = true}}), HostArray(std::vector<float>{1, 3, 5, 7}, {2, 2, 1}))) ==
      std::vector<float>{4});
}

TEST_CASE("Resize keeps the ratio of the sides, rounded down, or refuses", "[gluon][transform]") {
  const Resize shorter(10, {.keep_ratio = true});
  const auto shape = [&](std::int64_t height, std::int64_t width) {
    return shorter.output_spec({.shape = {height, width, 3}, .dtype = uint8}).shape;
  };
  CHECK(shape(30, 40) == Shape{10, 13, 3});
  CHECK(shape(40, 30) == Shape{13, 10, 3});
  CHECK(shape(5, 5) == Shape{10, 10, 3});
  CHECK(shape(1, 200000000) == Shape{10, 2000000000, 3});
  CHECK_THROWS_AS(shape(1, 300000000), ShapeError);
  CHECK_THROWS_AS(Resize({10, 20}, {.keep_ratio = true}), ValueError);
  CHECK_THROWS_AS(Resize(0), ValueError);
  CHECK_THROWS_AS(Resize({1, -1}), ValueError);
  CHECK_THROWS_AS(Resize(3).output_spec({.shape = {4, 4}, .dtype = uint8}), ShapeError);
  CHECK_THROWS_AS(Resize(3).output_spec({.shape = {0, 4, 3}, .dtype = uint8}), ShapeError);
  CHECK_THROWS_AS(Resize(3).output_spec({.shape = {4, 4, 3}, .dtype = int32}), DTypeError);
}

TEST_CASE("CenterCrop takes the middle and stretches sides that are too short", "[gluon][transform]") {
  CHECK(elements<float>(applied(CenterCrop({1, 2}), numbers(3, 4, 1))) == std::vector<float>{84, 20});
  CHECK(elements<float>(applied(CenterCrop({2, 3}), numbers(3, 4, 1))) == std::vector<float>{0, 37, 74, 47, 84, 20});
  const HostArray wide = applied(CenterCrop({6, 2}), numbers(3, 4, 1));
  const HostArray columns = applied(CropResize(1, 0, 2, 3, ImageSize(6, 2)), numbers(3, 4, 1));
  CHECK(elements<float>(wide) == elements<float>(columns));
  CHECK_THROWS_AS(CenterCrop({2, 0}), ValueError);
}

TEST_CASE("CropResize takes a part that lies in the image, as an image of its own", "[gluon][transform]") {
  CHECK(
      elements<float>(applied(CropResize(1, 1, 3, 2), numbers(3, 4, 1))) == std::vector<float>{84, 20, 57, 30, 67, 3});
  // What lies beside the part does not come in.
  const HostArray part(std::vector<float>{84, 20, 30, 67}, {2, 2, 1});
  const HostArray larger = applied(CropResize(1, 1, 2, 2, ImageSize(5)), numbers(3, 4, 1));
  CHECK(elements<float>(larger) == elements<float>(applied(Resize(5), part)));
  CHECK_THROWS_AS(applied(CropResize(2, 1, 3, 2), numbers(3, 4, 1)), ShapeError);
  CHECK_THROWS_AS(applied(CropResize(1, 2, 3, 2), numbers(3, 4, 1)), ShapeError);
  CHECK_THROWS_AS(CropResize(-1, 0, 1, 1), ValueError);
  CHECK_THROWS_AS(CropResize(0, 0, 1, 0), ValueError);
  CHECK_THROWS_AS(CropResize(0, 0, 1, 1, ImageSize(0)), ValueError);
}

TEST_CASE("Rotate turns counter-clockwise around the middle, as torchvision", "[gluon][transform]") {
  check_values(
      applied(Rotate(30), numbers(3, 4, 1)),
      {3, 4, 1},
      {9.9586f, 51.252f, 42.345f, 36.132f, 19.186f, 69.654f, 34.346f, 24.287f, 36.768f, 61.655f, 40.682f, 18.378f});
  const std::vector<std::uint8_t> turned = elements<std::uint8_t>(applied(Rotate(90), bytes(2, 2, 1)));
  CHECK(turned == std::vector<std::uint8_t>{37, 10, 0, 74});  // of {0, 37; 74, 10}
  CHECK(elements<std::uint8_t>(applied(Rotate(-270), bytes(2, 2, 1))) == turned);
  CHECK(elements<float>(applied(Rotate(360), numbers(3, 4, 2))) == elements<float>(numbers(3, 4, 2)));
}

TEST_CASE("Rotate zooms in until nothing is black and out until all shows", "[gluon][transform]") {
  const HostArray ones(std::vector<float>(20 * 30, 1), {20, 30, 1});
  const auto least = [&](const RotateOptions& options, double degrees) {
    const std::vector<float> found = elements<float>(applied(Rotate(degrees, options), ones));
    return *std::min_element(found.begin(), found.end());
  };
  for (const double degrees : {10.0, 45.0, 77.0, 90.0, 200.0}) {
    CAPTURE(degrees);
    CHECK(least({.zoom_in = true}, degrees) > 0.999f);
    CHECK(least({}, degrees) < 0.01f);
    const std::vector<float> all = elements<float>(applied(Rotate(degrees, {.zoom_out = true}), ones));
    // The frame's border stays black or nearly so: the image ends within it.
    const double sum = std::accumulate(all.begin(), all.end(), 0.0);
    const double turn = degrees * 3.14159265358979 / 180, sin = std::abs(std::sin(turn)),
                 cos = std::abs(std::cos(turn));
    const double step = std::max((sin * 30 + cos * 20) / 20, (cos * 30 + sin * 20) / 30);
    CHECK(sum * step * step == Approx(600).epsilon(0.02));  // its area, wholly
  }
  CHECK_THROWS_AS(Rotate(10, {.zoom_in = true, .zoom_out = true}), ValueError);
  CHECK_THROWS_AS(Rotate(std::numeric_limits<double>::infinity()), ValueError);
}

TEST_CASE("Cast gives elements of another type", "[gluon][transform]") {
  CHECK(elements<float>(applied(Cast(), bytes(1, 3, 1))) == std::vector<float>{0, 37, 74});
  const HostArray x(std::vector<float>{-1.75f, 2.5f, 300}, {3});
  CHECK(elements<std::int32_t>(applied(Cast(int32), x)) == std::vector<std::int32_t>{-1, 2, 300});
  CHECK(static_cast<float>(elements<Half>(applied(Cast(float16), x))[1]) == 2.5f);
  CHECK_THROWS_AS(Cast(float32).output_spec({.shape = {3}, .dtype = int64}), DTypeError);
}

TEST_CASE("Lambda makes a transform of a function", "[gluon][transform]") {
  const Lambda doubled([](const TensorView& in, const TensorView& out) {
    for (std::int64_t i = 0; i < in.size; ++i)
      out.as<float>()[i] = 2 * in.as<float>()[i];
  });
  CHECK(elements<float>(applied(doubled, numbers(1, 3, 1))) == std::vector<float>{0, 74, 148});
  const Lambda first(
      [](const TensorView& in, const TensorView& out) { *out.as<float>() = *in.as<float>(); },
      [](const ArraySpec& in) { return ArraySpec{.shape = {1}, .dtype = in.dtype}; });
  CHECK(applied(first, numbers(1, 3, 1)).shape() == Shape{1});
  const Lambda noise([](const TensorView&, const TensorView& out, SampleRandom& random) {
    *out.as<float>() = static_cast<float>(random.uniform());
  });
  static_assert(RandomTransform<decltype(noise)> && PlainTransform<decltype(first)>);
  CHECK(
      elements<float>(applied(noise, numbers(1, 1, 1))) !=
      elements<float>(applied(noise, numbers(1, 1, 1), SampleRandom({1, 0}))));
}

TEST_CASE("a TransformList gives what Compose gives", "[gluon][transform]") {
  const HostArray x = bytes(9, 7, 3);
  const Compose fixed(Resize(5), CenterCrop(3), ToTensor(), Normalize(0.5, 2));
  const TransformList list({Resize(5), CenterCrop(3), ToTensor(), Normalize(0.5, 2)});
  CHECK(elements<float>(applied(list, x)) == elements<float>(applied(fixed, x)));
  const TransformList nested(
      {TransformList({Resize(5), CenterCrop(3)}), TransformList({ToTensor(), Normalize(0.5, 2)})});
  CHECK(elements<float>(applied(nested, x)) == elements<float>(applied(fixed, x)));
  CHECK(elements<float>(applied(TransformList({ToTensor()}), x)) == elements<float>(applied(ToTensor(), x)));
  CHECK_THROWS_AS(TransformList({}), ValueError);
  CHECK_THROWS_AS(TransformList({ToTensor(), Resize(5), ToTensor()}).output_spec(x.spec()), DTypeError);
}
