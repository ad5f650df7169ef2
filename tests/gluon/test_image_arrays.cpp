// Images as arrays on a device, beside the transforms of samples, whose values have references of their own.
#include <cmath>
#include <numeric>
#include <set>

#include <sluice/gluon/data/vision/random_transforms.h>
#include <sluice/gluon/image/arrays.h>

#include "tests/gluon/sample_support.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data::vision::transforms;

namespace {

NDArray as_array(const HostArray& x) {
  return x.dtype() == uint8 ? array(elements<std::uint8_t>(x), x.shape()) : array(elements<float>(x), x.shape());
}

// The same images twice, behind one another.
NDArray doubled(const NDArray& x) {
  return stack({x, x}, 0);
}

std::vector<float> first_of(const NDArray& batch) {
  return values(batch[0]);
}

NDArray colours() {
  return array<float>({0.2f, 0.5f, 0.3f, 0.6f, 0.4f, 0.7f}, {1, 2, 3});
}
double grey(const float* colour) {
  return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2];
}

}  // namespace

TEST_CASE("functions of image arrays give what transforms of samples give", "[gluon][image]") {
  const HostArray x = bytes(9, 7, 3), f = numbers(9, 7, 3);
  const NDArray a = as_array(x), b = as_array(f);
  CHECK(values(image::to_tensor(a)) == elements<float>(applied(ToTensor(), x)));
  CHECK(image::to_tensor(doubled(a)).shape() == Shape{2, 3, 9, 7});
  check_near(
      values(image::normalize(image::to_tensor(a), {0.1, 0.2, 0.3}, {1, 2, 3})),
      elements<float>(applied(Compose(ToTensor(), Normalize({0.1, 0.2, 0.3}, {1, 2, 3})), x)));
  check_near(
      values(image::normalize(image::to_tensor(a), {0.5}, {2})),
      elements<float>(applied(Compose(ToTensor(), Normalize(0.5, 2)), x)));
  for (const ResizeMode mode : {ResizeMode::nearest, ResizeMode::bilinear, ResizeMode::bicubic}) {
    for (const bool antialias : {false, true}) {
      const gluon::data::vision::InterpolationOptions how{.mode = mode, .antialias = antialias};
      const std::vector<float> expected = elements<float>(applied(Resize({5, 4}, {.interpolation = how}), f));
      check_near(values(image::resize(b, {5, 4}, how)), expected, 1e-4);
      check_near(first_of(image::resize(doubled(b), {5, 4}, how)), expected, 1e-4);
    }
  }
  const auto small = image::resize(a, {5, 4}).to_vector<std::uint8_t>();
  const auto expected = elements<std::uint8_t>(applied(Resize({5, 4}), x));
  for (std::size_t i = 0; i < small.size(); ++i)
    CHECK(std::abs(int{small[i]} - int{expected[i]}) <= 1);
  CHECK(values(image::crop(b, 2, 3, 4, 5)) == elements<float>(applied(CropResize(2, 3, 4, 5), f)));
  CHECK(values(image::center_crop(b, {4, 3})) == elements<float>(applied(CenterCrop({4, 3}), f)));
  CHECK(values(image::flip_left_right(b)) == elements<float>(applied(RandomFlipLeftRight(1), f)));
  CHECK(values(image::flip_top_bottom(b)) == elements<float>(applied(RandomFlipTopBottom(1), f)));
  CHECK(first_of(image::flip_top_bottom(doubled(b))) == values(image::flip_top_bottom(b)));
  // Each image of a batch by itself.
  const NDArray other = multiply(b, 0.25);
  CHECK(values(image::adjust_contrast(stack({other, b}, 0), 0.5)[1]) == values(image::adjust_contrast(b, 0.5)));
  CHECK(values(image::resize(stack({other, b}, 0), 3)[0]) == values(image::resize(other, 3)));
  // Strided and broadcast images.
  const NDArray turned = b.transpose({1, 0, 2});
  CHECK(values(image::resize(turned, {4, 5})) == values(image::resize(turned.contiguous(), {4, 5})));
  const NDArray same = b.expand_dims(0).broadcast_to({3, 9, 7, 3});
  CHECK(values(image::adjust_contrast(same, 0.5)[2]) == values(image::adjust_contrast(b, 0.5)));
}

TEST_CASE("colours of image arrays change as their formulas say", "[gluon][image]") {
  const std::vector<float> x = values(colours());
  const double mean = (grey(&x[0]) + grey(&x[3])) / 2;
  const auto expect = [&](const NDArray& found, auto formula) {
    const std::vector<float> got = values(found);
    for (std::size_t i = 0; i < 6; ++i)
      CHECK(got[i] == Approx(formula(i)).margin(1e-5));
  };
  expect(image::adjust_brightness(colours(), 1.3), [&](std::size_t i) { return 1.3 * x[i]; });
  expect(image::adjust_contrast(colours(), 0.4), [&](std::size_t i) { return 0.4 * x[i] + 0.6 * mean; });
  expect(
      image::adjust_saturation(colours(), 1.6), [&](std::size_t i) { return 1.6 * x[i] - 0.6 * grey(&x[i / 3 * 3]); });
  expect(image::adjust_hue(colours(), 0), [&](std::size_t i) { return x[i]; });
  // As the samples' transform turns it, which has MXNet's matrix to itself.
  SampleRandom drawn;
  const double part = drawn.uniform(-0.5, 0.5);
  check_near(
      values(image::adjust_hue(colours(), part)),
      elements<float>(applied(RandomHue(0.5), HostArray(x, {1, 2, 3}))),
      1e-4);
  // Bytes are rounded and stay bytes; grey has neither hue nor saturation.
  const NDArray pixel = array<std::uint8_t>({250, 3, 129}, {1, 1, 3});
  CHECK(image::adjust_brightness(pixel, 1.5).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{255, 5, 194});
  const NDArray grey_image = array<float>({0.2f, 0.6f}, {1, 2, 1});
  CHECK(values(image::adjust_saturation(grey_image, 3)) == values(grey_image));
  CHECK(values(image::adjust_hue(grey_image, 0.3)) == values(grey_image));
  check_near(values(image::adjust_contrast(grey_image, 0.5)), {0.3f, 0.5f});
  for (const DType type : {float16, bfloat16, float64}) {
    const NDArray result = image::adjust_saturation(colours().astype(type), 0.5);
    CHECK(result.dtype() == type);
    check_near(values(result.astype(float32)), values(image::adjust_saturation(colours(), 0.5)), 2e-2);
  }
}

TEST_CASE("random functions of image arrays draw for each image of a batch", "[gluon][image]") {
  Engine engine({.workers = 2, .seed = 4});
  const EngineScope scope(engine);
  const NDArray batch = colours().expand_dims(0).broadcast_to({64, 1, 2, 3});
  const auto distinct = [](const NDArray& result) {
    std::set<std::vector<float>> seen;
    for (std::int64_t i = 0; i < result.shape()[0]; ++i)
      seen.insert(values(result[i]));
    return seen.size();
  };
  for (const NDArray& result :
       {image::random_brightness(batch, 0.5),
        image::random_contrast(batch, 0.5),
        image::random_saturation(batch, 0.5),
        image::random_hue(batch, 0.5),
        image::random_color_jitter(batch, 0.1, 0.1, 0.1, 0.1),
        image::random_lighting(batch, 0.1)})
    CHECK(distinct(result) == 64);
  CHECK(distinct(image::random_gray(batch, 0.5)) == 2);
  CHECK(distinct(image::random_gray(batch, 1)) == 1);
  CHECK(distinct(image::random_flip_left_right(batch)) == 2);
  CHECK(values(image::random_flip_left_right(batch, 0)) == values(batch));
  CHECK(values(image::random_flip_left_right(colours(), 1)) == values(image::flip_left_right(colours())));
  CHECK(distinct(image::random_flip_top_bottom(batch, 1)) == 1);  // of one row
  for (const float factor : values(image::random_brightness(ones({500, 1, 1, 1}), 0.25)))
    REQUIRE((factor >= 0.75f && factor < 1.25f));
  CHECK(values(image::random_brightness(colours(), 0)) == values(colours()));
}

TEST_CASE("random crops of image arrays lie within each image", "[gluon][image]") {
  Engine engine({.workers = 2, .seed = 4});
  const EngineScope scope(engine);
  const NDArray rows = arange(0, 4).reshape({4, 1, 1}), columns = arange(0, 5).reshape({1, 5, 1});
  const NDArray image = add(multiply(rows, 10), columns);
  const NDArray parts = image::random_crop(image.expand_dims(0).broadcast_to({200, 4, 5, 1}), {2, 3});
  REQUIRE(parts.shape() == Shape{200, 2, 3, 1});
  std::set<float> corners;
  for (std::int64_t i = 0; i < 200; ++i) {
    const std::vector<float> part = values(parts[i]);
    corners.insert(part[0]);
    REQUIRE((part[2] == part[0] + 2 && part[5] == part[0] + 12));
  }
  CHECK(corners == std::set<float>{0, 1, 2, 10, 11, 12, 20, 21, 22});
  CHECK(values(image::random_crop(image, {4, 5})) == values(image));
  // Parts of an image of one pixel with two around it: that pixel is everywhere, and nowhere.
  const NDArray padded = image::random_crop(full({300, 1, 1, 2}, 5), 2, {.pad = 2, .value = -7});
  REQUIRE(padded.shape() == Shape{300, 2, 2, 2});
  std::set<std::vector<float>> kinds;
  for (std::int64_t i = 0; i < 300; ++i)
    kinds.insert(values(padded[i]));
  CHECK(kinds.size() == 5);
  CHECK(kinds.contains(std::vector<float>(8, -7)));
  for (std::size_t at = 0; at < 4; ++at) {
    std::vector<float> kind(8, -7);
    kind[2 * at] = kind[2 * at + 1] = 5;
    CHECK(kinds.contains(kind));
  }
  const NDArray whole = image::random_crop(image, {6, 7}, {.pad = 1, .value = 99});  // the one part of that size
  CHECK(values(whole) == values(pad(image, {{1, 1}, {1, 1}, {0, 0}}, PadMode::constant, 99)));
  const NDArray byte = full({1, 1, 1}, 3, {.dtype = uint8});
  CHECK(max(image::random_crop(byte, 3, {.pad = 1, .value = 300})).item<int>() == 255);
  CHECK(max(image::random_crop(byte, 3, {.pad = 1, .value = 6.6})).item<int>() == 7);
  CHECK(min(image::random_crop(byte, 3, {.pad = 1, .value = -4})).item<int>() == 0);
  const NDArray resized =
      image::random_resized_crop(image.expand_dims(0).broadcast_to({100, 4, 5, 1}), 3, {0.25, 0.25}, {1.25, 1.25});
  for (std::int64_t i = 0; i < 100; ++i) {
    const std::vector<float> part = values(resized[i]);
    REQUIRE(*std::min_element(part.begin(), part.end()) >= 0);
    REQUIRE(*std::max_element(part.begin(), part.end()) <= 34);
    // Half the height and width: 2 rows and 2.5 columns, of which the outermost pixels' middles show two thirds.
    REQUIRE(part[8] - part[2] <= 10 * 4.0f / 3 + 0.01f);
    REQUIRE(part[4] - part[3] <= 2.5f / 3 + 0.01f);
  }
  check_near(values(image::random_resized_crop(image, {4, 5}, {1, 1}, {1.25, 1.25})), values(image), 1e-4);
  CHECK(image::random_resized_crop(image.astype(uint8), 2).dtype() == uint8);
}

TEST_CASE("functions of image arrays have gradients and refuse what is no image", "[gluon][image]") {
  NDArray x = colours().copy();
  x.attach_grad();
  {
    autograd::RecordScope record;
    sum(image::adjust_contrast(image::resize(x, {2, 4}), 0.5)).backward();
  }
  const std::vector<float> gradient = values(x.grad());
  CHECK(std::accumulate(gradient.begin(), gradient.end(), 0.0f) == Approx(24).epsilon(1e-4));
  CHECK_THROWS_AS(image::to_tensor(colours()), DTypeError);
  CHECK_THROWS_AS(image::to_tensor(zeros({3, 4}, {.dtype = uint8})), ShapeError);
  CHECK_THROWS_AS(image::resize(zeros({0, 4, 3}), 2), ShapeError);
  CHECK_THROWS_AS(image::resize(zeros({4, 4, 3}, {.dtype = int32}), 2), DTypeError);
  CHECK_THROWS_AS(image::crop(colours(), 1, 0, 2, 1), ShapeError);
  CHECK_THROWS_AS(image::crop(colours(), -1, 0, 1, 1), ShapeError);
  CHECK_THROWS_AS(image::center_crop(colours(), 2), ShapeError);
  CHECK_THROWS_AS(image::random_crop(colours(), {1, 3}), ShapeError);
  CHECK_THROWS_AS(image::random_crop(colours(), {3, 5}, {.pad = 1}), ShapeError);
  CHECK_THROWS_AS(image::random_crop(colours(), 1, {.pad = -1}), ValueError);
  CHECK_THROWS_AS(image::random_crop(colours(), 1, {.pad = (1 << 20) + 1}), ValueError);
  CHECK_THROWS_AS(image::random_resized_crop(colours(), 1, {0, 1}), ValueError);
  CHECK_THROWS_AS(image::adjust_brightness(zeros({1, 1, 4}), 1), ShapeError);
  CHECK_THROWS_AS(image::random_hue(colours(), 1.01), ValueError);
  CHECK_THROWS_AS(image::random_contrast(colours(), -0.1), ValueError);
  CHECK_THROWS_AS(image::random_gray(colours(), 1.5), ValueError);
  CHECK_THROWS_AS(image::random_lighting(ones({1, 1, 1}), 1), ShapeError);
  CHECK_THROWS_AS(image::normalize(zeros({3, 1, 1}), {0, 0}, {1, 1}), ShapeError);
  CHECK_THROWS_AS(image::normalize(zeros({3, 1, 1}), {0}, {0}), ValueError);
  CHECK_THROWS_AS(image::normalize(zeros({3, 1, 1}, {.dtype = uint8}), {0}, {1}), DTypeError);
  try {
    image::crop(colours(), 1, 0, 2, 1);
  } catch (const Error& error) {
    CHECK(
        std::string(error.what()).find("crop: 1 x 2 pixels from row 0, column 1 of images (1, 2, 3)") !=
        std::string::npos);
  }
}

TEST_CASE("functions of image arrays give on a GPU what they give on a CPU", "[gluon][image][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray host = as_array(bytes(9, 7, 3)).expand_dims(0);
  const NDArray there = host.to(gpu(0));
  const auto compare = [&](auto function) {
    Engine::current().seed(3);
    const NDArray a = function(host);
    Engine::current().seed(3);
    const NDArray b = function(there);
    CHECK(b.device() == gpu(0));
    const NDArray apart = abs(a.astype(float32) - b.to(cpu()).astype(float32));
    CHECK(max(apart).item<float>() <= (a.dtype() == uint8 ? 1 : 1e-4f));
  };
  compare([](const NDArray& x) { return image::to_tensor(x); });
  compare([](const NDArray& x) { return image::resize(x, {5, 4}); });
  compare([](const NDArray& x) { return image::center_crop(x, 3); });
  compare([](const NDArray& x) { return image::flip_left_right(x); });
  compare([](const NDArray& x) { return image::adjust_contrast(x, 0.5); });
  compare([](const NDArray& x) { return image::adjust_hue(x, 0.2); });
  compare([](const NDArray& x) { return image::normalize(image::to_tensor(x), {0.1, 0.2, 0.3}, {1, 2, 3}); });
  compare([](const NDArray& x) { return image::random_crop(x, {4, 3}); });
  compare([](const NDArray& x) { return image::random_crop(x, {9, 7}, {.pad = 4, .value = 11}); });
  compare([](const NDArray& x) { return image::random_resized_crop(x, 4); });
  compare([](const NDArray& x) { return image::random_flip_left_right(x); });
  compare([](const NDArray& x) { return image::random_color_jitter(x, 0.1, 0.1, 0.1, 0.1); });
  compare([](const NDArray& x) { return image::random_lighting(x, 0.1); });
  compare([](const NDArray& x) { return image::random_gray(x); });
}
