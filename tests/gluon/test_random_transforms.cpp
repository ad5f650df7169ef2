// Random transforms of images: their values where the numbers drawn are known, their ranges where they are not.
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "tests/gluon/sample_support.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;
using namespace gluon::data::vision::transforms;

namespace {

const HostArray k_two_pixels(std::vector<float>{0.2f, 0.5f, 0.3f, 0.6f, 0.4f, 0.7f}, {1, 2, 3});
constexpr double k_grey[] = {0.299, 0.587, 0.114};

double grey(const float* colour) {
  return k_grey[0] * colour[0] + k_grey[1] * colour[1] + k_grey[2] * colour[2];
}

// Row 10 y + x of each pixel: a crop shows where it was taken.
HostArray places(std::int64_t height, std::int64_t width) {
  HostArray x({.shape = {height, width, 1}, .dtype = float32});
  for (std::int64_t i = 0; i < height * width; ++i)
    x.writable<float>()[i] = static_cast<float>(10 * (i / width) + i % width);
  return x;
}

}  // namespace

TEST_CASE("flips turn images of any type with their probability", "[gluon][transform]") {
  const HostArray x(std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  CHECK(
      elements<std::int64_t>(applied(RandomFlipLeftRight(1), x)) == std::vector<std::int64_t>{3, 4, 1, 2, 7, 8, 5, 6});
  CHECK(
      elements<std::int64_t>(applied(RandomFlipTopBottom(1), x)) == std::vector<std::int64_t>{5, 6, 7, 8, 1, 2, 3, 4});
  CHECK(elements<std::int64_t>(applied(RandomFlipLeftRight(0), x)) == elements<std::int64_t>(x));
  CHECK(elements<std::int64_t>(applied(RandomFlipTopBottom(0), x)) == elements<std::int64_t>(x));
  int turned = 0;
  for (std::uint64_t place = 0; place < 400; ++place)
    turned += elements<std::int64_t>(applied(RandomFlipLeftRight(0.25), x, SampleRandom({5, 0}, place)))[0] == 3;
  CHECK(turned > 60);
  CHECK(turned < 140);
  CHECK_THROWS_AS(RandomFlipLeftRight(1.01), ValueError);
  CHECK_THROWS_AS(RandomFlipTopBottom(-0.01), ValueError);
  CHECK_THROWS_AS(RandomFlipTopBottom(std::nan("")), ValueError);
  CHECK_THROWS_AS(RandomFlipTopBottom().output_spec({.shape = {2, 2}, .dtype = uint8}), ShapeError);
}

TEST_CASE("RandomCrop takes every place in the padded image and no other", "[gluon][transform]") {
  std::set<float> corners, padded;
  for (std::uint64_t place = 0; place < 300; ++place) {
    const HostArray part = applied(RandomCrop({2, 3}), places(4, 5), SampleRandom({1, 0}, place));
    REQUIRE(part.shape() == Shape{2, 3, 1});
    const float* p = part.as<float>();
    corners.insert(p[0]);
    REQUIRE((p[1] == p[0] + 1 && p[2] == p[0] + 2 && p[3] == p[0] + 10 && p[5] == p[0] + 12));
    const HostArray beyond =
        applied(RandomCrop(2, {.pad = 2, .pad_value = -7}), places(1, 1), SampleRandom({1, 0}, place));
    const std::vector<float> found = elements<float>(beyond);
    const auto at = std::find(found.begin(), found.end(), 0.0f);  // the only pixel, if it is in
    padded.insert(static_cast<float>(at - found.begin()));
    REQUIRE(std::count(found.begin(), found.end(), -7.0f) == (at == found.end() ? 4 : 3));
  }
  CHECK(corners == std::set<float>{0, 1, 2, 10, 11, 12, 20, 21, 22});
  CHECK(padded == std::set<float>{0, 1, 2, 3, 4});
  // Too small: the whole image, stretched.
  CHECK(
      elements<float>(applied(RandomCrop({6, 7}), places(4, 5))) ==
      elements<float>(applied(Resize({6, 7}), places(4, 5))));
  CHECK(elements<std::uint8_t>(applied(RandomCrop(3, {.pad = 1, .pad_value = 300}), bytes(1, 1, 1)))[0] == 255);
  CHECK_THROWS_AS(RandomCrop(2, {.pad = -1}), ValueError);
  CHECK_THROWS_AS(RandomCrop({2, 0}), ValueError);
}

TEST_CASE("RandomResizedCrop takes parts of the area and ratio asked for", "[gluon][transform]") {
  // A plane: two pixels of the result tell where the part begins and how large it is.
  HostArray x({.shape = {60, 80, 2}, .dtype = float32});
  for (std::int64_t i = 0; i < 60 * 80; ++i) {
    x.writable<float>()[2 * i] = static_cast<float>(i / 80) + 0.5f;
    x.writable<float>()[2 * i + 1] = static_cast<float>(i % 80) + 0.5f;
  }
  const RandomResizedCrop crop(3, {.scale = {0.2, 0.5}, .ratio = {0.5, 2}});
  double least_area = 1, most_area = 0, least_ratio = 9, most_ratio = 0;
  for (std::uint64_t place = 0; place < 300; ++place) {
    const HostArray part = applied(crop, x, SampleRandom({3, 0}, place));
    const float* p = part.as<float>();
    const float* last = p + 2 * 8;
    const double height = (last[0] - p[0]) * 1.5, width = (last[1] - p[1]) * 1.5;
    const double top = p[0] - height / 6, left = p[1] - width / 6;
    REQUIRE((top > -0.01 && left > -0.01 && top + height < 60.01 && left + width < 80.01));
    REQUIRE(std::abs(top - std::round(top)) < 0.01);
    least_area = std::min(least_area, height * width / 4800);
    most_area = std::max(most_area, height * width / 4800);
    least_ratio = std::min(least_ratio, width / height);
    most_ratio = std::max(most_ratio, width / height);
  }
  CHECK(least_area > 0.18);
  CHECK(least_area < 0.23);
  CHECK(most_area < 0.52);
  CHECK(most_area > 0.46);
  CHECK(least_ratio > 0.48);
  CHECK(least_ratio < 0.6);
  CHECK(most_ratio < 2.1);
  CHECK(most_ratio > 1.7);
}

TEST_CASE("RandomResizedCrop takes the middle where nothing else fits", "[gluon][transform]") {
  // Of a strip no part of half its area is as high as wide.
  const HostArray strip = places(1, 9);
  const RandomResizedCrop square(1, {.scale = {0.5, 1}, .ratio = {1, 1}});
  CHECK(elements<float>(applied(square, strip)) == std::vector<float>{4});
  const HostArray column = places(9, 1);
  CHECK(elements<float>(applied(square, column)) == std::vector<float>{40});
  CHECK_THROWS_AS(RandomResizedCrop(2, {.scale = {0, 1}}), ValueError);
  CHECK_THROWS_AS(RandomResizedCrop(2, {.scale = {0.5, 1.01}}), ValueError);
  CHECK_THROWS_AS(RandomResizedCrop(2, {.scale = {0.5, 0.4}}), ValueError);
  CHECK_THROWS_AS(RandomResizedCrop(2, {.ratio = {1, std::numeric_limits<double>::infinity()}}), ValueError);
  CHECK_THROWS_AS(RandomResizedCrop(0), ValueError);
}

TEST_CASE("brightness, contrast and saturation are those of torchvision", "[gluon][transform]") {
  for (std::uint64_t place = 0; place < 20; ++place) {
    const SampleRandom random({2, 0}, place);
    const float* x = k_two_pixels.as<float>();
    const double mean = (grey(x) + grey(x + 3)) / 2;
    SampleRandom same = random;
    const double factor = same.uniform(0.4, 1.6);
    const auto expect = [&](const RandomColorJitter& transform, auto formula) {
      const HostArray found = applied(transform, k_two_pixels, random);
      for (int i = 0; i < 6; ++i)
        REQUIRE(found.as<float>()[i] == Approx(formula(i)).margin(1e-6));
    };
    expect(RandomBrightness(0.6), [&](int i) { return factor * x[i]; });
    expect(RandomContrast(0.6), [&](int i) { return factor * x[i] + (1 - factor) * mean; });
    expect(RandomSaturation(0.6), [&](int i) { return factor * x[i] + (1 - factor) * grey(x + i / 3 * 3); });
  }
  const HostArray flat = applied(RandomContrast(0), k_two_pixels);
  CHECK(elements<float>(flat) == elements<float>(k_two_pixels));
}

TEST_CASE("hue keeps brightness and grey, and comes back after a whole turn", "[gluon][transform]") {
  const HostArray greys(std::vector<float>{0.25f, 0.25f, 0.25f}, {1, 1, 3});
  bool changed = false;
  for (std::uint64_t place = 0; place < 30; ++place) {
    const SampleRandom random({4, 0}, place);
    const HostArray found = applied(RandomHue(1), k_two_pixels, random);
    for (int i = 0; i < 6; i += 3)
      CHECK(grey(found.as<float>() + i) == Approx(grey(k_two_pixels.as<float>() + i)).margin(2e-3));
    changed |= std::abs(found.as<float>()[0] - 0.2f) > 0.05f;
    check_near(elements<float>(applied(RandomHue(1), greys, random)), elements<float>(greys));
  }
  CHECK(changed);
  // MXNet's matrix for a turn of 0.3: I and Q turned by 0.3 pi.
  SampleRandom fixed({0, 0}, 0);
  const double part = fixed.uniform(-0.5, 0.5), u = std::cos(part * M_PI), w = std::sin(part * M_PI);
  const HostArray red(std::vector<float>{1, 0, 0}, {1, 1, 3});
  const double i = 0.596 * u - 0.211 * w, q = 0.596 * w + 0.211 * u;
  const std::vector<float> found = elements<float>(applied(RandomHue(0.5), red, SampleRandom({0, 0}, 0)));
  CHECK(found[0] == Approx(0.299 + 0.956 * i + 0.621 * q).margin(3e-3));
  CHECK(found[1] == Approx(0.299 - 0.272 * i - 0.647 * q).margin(3e-3));
  CHECK(found[2] == Approx(0.299 - 1.107 * i + 1.705 * q).margin(3e-3));
}

TEST_CASE("colours of bytes are rounded and kept within a byte", "[gluon][transform]") {
  const HostArray x(std::vector<std::uint8_t>{250, 3, 128}, {1, 1, 3});
  SampleRandom drawn({9, 0}, 1);
  const double factor = drawn.uniform(0, 2);
  REQUIRE(factor > 1.05);
  const auto found = elements<std::uint8_t>(applied(RandomBrightness(1), x, SampleRandom({9, 0}, 1)));
  CHECK(
      found == std::vector<std::uint8_t>{
                   255,
                   static_cast<std::uint8_t>(std::lround(3 * factor)),
                   static_cast<std::uint8_t>(std::min(255L, std::lround(128 * factor)))});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(applied(RandomBrightness(1), HostArray(std::vector<float>{nan}, {1, 1, 1})).as<float>()[0]));
}

TEST_CASE("RandomColorJitter makes all changes in orders of all kinds, of grey images too", "[gluon][transform]") {
  const RandomColorJitter jitter(0.4, 0.4, 0.4, 0.1);
  std::set<float> results;
  for (std::uint64_t place = 0; place < 50; ++place) {
    const HostArray found = applied(jitter, k_two_pixels, SampleRandom({6, 0}, place));
    results.insert(found.as<float>()[0]);
    for (const float value : elements<float>(found))
      REQUIRE((value > -0.5f && value < 2));
  }
  CHECK(results.size() == 50);
  // Of grey: a factor, and a mixture with the mean.
  const HostArray grey_image(std::vector<float>{0.2f, 0.6f}, {1, 2, 1});
  const std::vector<float> one = elements<float>(applied(jitter, grey_image, SampleRandom({6, 0}, 3)));
  const HostArray three(std::vector<float>{0.2f, 0.2f, 0.2f, 0.6f, 0.6f, 0.6f}, {1, 2, 3});
  check_near(
      {one[0], one[0], one[0], one[1], one[1], one[1]},
      elements<float>(applied(jitter, three, SampleRandom({6, 0}, 3))));
  CHECK_THROWS_AS(RandomColorJitter(-0.1), ValueError);
  CHECK_THROWS_AS(RandomColorJitter(0, 0, 0, 1.01), ValueError);
  CHECK_THROWS_AS(RandomSaturation(std::nan("")), ValueError);
  CHECK_THROWS_AS(jitter.output_spec({.shape = {2, 2, 4}, .dtype = uint8}), ShapeError);
  CHECK_THROWS_AS(jitter.output_spec({.shape = {2, 2, 3}, .dtype = float64}), DTypeError);
}

TEST_CASE("RandomLighting adds the principal components, RandomGray takes colours away", "[gluon][transform]") {
  SampleRandom same({7, 0}, 2);
  const double a = 0.1 * same.normal(), b = 0.1 * same.normal(), c = 0.1 * same.normal();
  const HostArray zero(std::vector<float>{0, 0, 0}, {1, 1, 3});
  const std::vector<float> light = elements<float>(applied(RandomLighting(0.1), zero, SampleRandom({7, 0}, 2)));
  check_near(
      light,
      {static_cast<float>(-31.47355 * a + 3.4478448 * b + 0.4602332 * c),
       static_cast<float>(-32.211168 * a - 0.021573 * b - 0.934472 * c),
       static_cast<float>(-32.366456 * a - 3.3308712 * b + 0.4825044 * c)});
  CHECK_THROWS_AS(RandomLighting(-1), ValueError);
  CHECK_THROWS_AS(RandomLighting(1).output_spec({.shape = {2, 2, 1}, .dtype = uint8}), ShapeError);
  const std::vector<float> grey_pixels = elements<float>(applied(RandomGray(1), k_two_pixels));
  const auto left = static_cast<float>(grey(k_two_pixels.as<float>())),
             right = static_cast<float>(grey(k_two_pixels.as<float>() + 3));
  check_near(grey_pixels, {left, left, left, right, right, right});
  CHECK(elements<float>(applied(RandomGray(0), k_two_pixels)) == elements<float>(k_two_pixels));
}

TEST_CASE("RandomRotation turns within its limits, RandomApply applies or leaves alone", "[gluon][transform]") {
  SampleRandom same({8, 0}, 4);
  same.chance(1);
  const double degrees = same.uniform(-20, 50);
  const HostArray x = numbers(5, 6, 2), found = applied(RandomRotation({-20, 50}), x, SampleRandom({8, 0}, 4));
  CHECK(elements<float>(found) == elements<float>(applied(Rotate(degrees), x)));
  CHECK(elements<float>(applied(RandomRotation({-20, 50}, {}, 0), x)) == elements<float>(x));
  CHECK_THROWS_AS(RandomRotation({20, 10}), ValueError);
  CHECK_THROWS_AS(RandomRotation({0, 1}, {.zoom_in = true, .zoom_out = true}), ValueError);
  CHECK(elements<float>(applied(RandomApply(Rotate(90), 1), x)) == elements<float>(applied(Rotate(90), x)));
  CHECK(elements<float>(applied(RandomApply(Rotate(90), 0), x)) == elements<float>(x));
  CHECK_THROWS_AS(RandomApply(Resize(3)).output_spec(x.spec()), ShapeError);
  CHECK_THROWS_AS(RandomApply(Cast(uint8)).output_spec(x.spec()), ShapeError);
  CHECK_THROWS_AS(RandomApply(Rotate(1), 2), ValueError);
}

TEST_CASE("chains within chains of the same type keep their pixels", "[gluon][transform]") {
  const RandomFlipLeftRight sideways(1);
  const RandomFlipTopBottom over(1);
  const HostArray x = places(30, 40);
  const std::vector<float> right = elements<float>(applied(Compose(sideways, over, sideways), x));
  const auto some = [](auto transform) { return RandomApply(std::move(transform), 1); };
  CHECK(elements<float>(applied(Compose(some(Compose(some(sideways), some(over))), some(sideways)), x)) == right);
  CHECK(elements<float>(applied(Compose(some(sideways), some(Compose(some(over), some(sideways)))), x)) == right);
}

TEST_CASE("transforms of any kind may be chained and kept as one of any kind", "[gluon][transform]") {
  const HostArray x = places(9, 9);
  const auto chain = Compose(AnyTransform(Resize(3)), AnyTransform(RandomFlipLeftRight(1)));
  const AnyTransform kept(chain);
  CHECK(elements<float>(applied(kept, x)) == elements<float>(applied(chain, x)));
  const ArrayDataset images(zeros({2, 9, 9, 1}), zeros({2}));
  DataLoader loader(images.transform_first(chain), {.batch_size = 2});
  CHECK((*loader.begin()).data.shape() == Shape{2, 3, 3, 1});
}
