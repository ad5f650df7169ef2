#include <sstream>

#include <zlib.h>

#include <sluice/gluon/image/image.h>

#include "tests/gluon/encoded_images.h"
#include "tests/gluon/image_support.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using image::DecodeOptions;
using image::EncodeOptions;
using image::ImageFormat;

namespace {

std::uint32_t checksum(const NDArray& pixels) {
  const auto bytes = pixels.to_vector<std::uint8_t>();
  return static_cast<std::uint32_t>(crc32(0, bytes.data(), static_cast<uInt>(bytes.size())));
}

// Sums of neighbouring differences would hide a shift: the largest difference of two images of one shape.
int largest_difference(const NDArray& a, const NDArray& b) {
  REQUIRE(a.shape() == b.shape());
  const auto left = a.to_vector<std::uint8_t>(), right = b.to_vector<std::uint8_t>();
  int largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    largest = std::max(largest, std::abs(int{left[i]} - int{right[i]}));
  return largest;
}

}  // namespace

TEST_CASE("JPEG and PNG files have the pixels that Pillow reads", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  for (const EncodedImage& file : k_encoded_images) {
    INFO(file.name);
    const NDArray pixels = image::imdecode(from_base64(file.base64), {.channels = 0, .orient = true});
    CHECK(pixels.dtype() == uint8);
    CHECK(pixels.shape() == Shape{file.shape[0], file.shape[1], file.shape[2]});
    CHECK(checksum(pixels) == file.checksum);
  }
}

TEST_CASE("an image has as many channels as asked for", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  const std::vector<std::uint8_t> file = encoded_image("png_rgb");
  const auto rgb = image::imdecode(file).to_vector<std::uint8_t>();
  const auto rgba = image::imdecode(file, {.channels = 4}).to_vector<std::uint8_t>();
  const auto grey = image::imdecode(file, {.channels = 1}).to_vector<std::uint8_t>();
  for (std::size_t i = 0; i < grey.size(); ++i) {
    REQUIRE(std::equal(&rgb[3 * i], &rgb[3 * i] + 3, &rgba[4 * i]));
    REQUIRE(rgba[4 * i + 3] == 255);
    REQUIRE(grey[i] == Approx(0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2]).margin(0.51));
  }
  const auto deep = image::imdecode(encoded_image("png_interlaced"), {.channels = 1}).to_vector<std::uint8_t>();
  const auto deep_rgb = image::imdecode(encoded_image("png_interlaced")).to_vector<std::uint8_t>();
  CHECK(deep.back() == Approx(0.299 * deep_rgb[186] + 0.587 * deep_rgb[187] + 0.114 * deep_rgb[188]).margin(0.51));
  CHECK(image::imdecode(encoded_image("png_rgba"), {.channels = 0}).shape() == Shape{5, 7, 4});
  CHECK(image::imdecode(encoded_image("png_rgba"), {.channels = 3}).shape() == Shape{5, 7, 3});
  CHECK(image::imdecode(encoded_image("jpeg_grey"), {.channels = 4}).shape() == Shape{11, 14, 4});
  CHECK_THROWS_AS(image::imdecode(file, {.channels = 2}), ValueError);
  CHECK_THROWS_AS(image::imdecode(file, {.shorter_side = -1}), ValueError);
}

TEST_CASE("an image is turned as its EXIF data asks, by option alone", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  const std::vector<std::uint8_t> file = encoded_image("jpeg_turned");
  const NDArray lying = image::imdecode(file), upright = image::imdecode(file, {.orient = true});
  CHECK(lying.shape() == Shape{11, 14, 3});
  CHECK(upright.shape() == Shape{14, 11, 3});
  // Orientation 6: what is written as the first column from below is the first row.
  const NDArray expected = flip(lying.transpose({1, 0, 2}), 1);
  CHECK(upright.to_vector<std::uint8_t>() == expected.to_vector<std::uint8_t>());
}

TEST_CASE("JPEG comes at the smallest size that has the shorter side asked for", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  const NDArray pixels = smooth_image(64, 96, 3);
  const std::vector<std::uint8_t> file = image::imencode(pixels, {.quality = 100});
  const auto shape = [&](std::int64_t side) { return image::imdecode(file, {.shorter_side = side}).shape(); };
  CHECK(shape(8) == Shape{8, 12, 3});
  CHECK(shape(9) == Shape{16, 24, 3});
  CHECK(shape(16) == Shape{16, 24, 3});
  CHECK(shape(17) == Shape{32, 48, 3});
  CHECK(shape(33) == Shape{64, 96, 3});
  CHECK(shape(1000) == Shape{64, 96, 3});
  CHECK(image::imdecode(image::imencode(pixels, {.format = ImageFormat::png}), {.shorter_side = 8}).shape()[0] == 64);
}

TEST_CASE("what is encoded comes back: PNG exactly, JPEG nearly", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  for (const int channels : {1, 2, 3, 4}) {
    const NDArray pixels = smooth_image(13, 17, channels);
    const std::vector<std::uint8_t> png = image::imencode(pixels, {.format = ImageFormat::png, .compression = 9});
    const NDArray back = image::imdecode(png, {.channels = channels == 2 ? 4 : channels});
    if (channels != 2)
      CHECK(largest_difference(back, pixels) == 0);
    else
      CHECK(back.to_vector<std::uint8_t>()[3] == pixels.to_vector<std::uint8_t>()[1]);
  }
  const NDArray pixels = smooth_image(13, 17, 3);
  const EncodeOptions fine{.quality = 100, .subsampling = false};
  CHECK(largest_difference(image::imdecode(image::imencode(pixels, fine)), pixels) <= 3);
  const NDArray strided = smooth_image(17, 13, 3).transpose({1, 0, 2});
  CHECK(largest_difference(image::imdecode(image::imencode(strided, fine)), strided) <= 3);
  const EncodeOptions progressive{.quality = 90, .progressive = true};
  CHECK(
      largest_difference(
          image::imdecode(image::imencode(pixels, progressive)),
          image::imdecode(image::imencode(pixels, {.quality = 90}))) == 0);
  CHECK(image::imencode(pixels, {.quality = 5}).size() < image::imencode(pixels, {.quality = 95}).size());
}

TEST_CASE("image files are written whole, under names that say their format", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  TemporaryFolder folder;
  const NDArray pixels = smooth_image(9, 7, 3);
  image::imwrite(folder / "a.png", pixels);
  CHECK(largest_difference(image::imread(folder / "a.png"), pixels) == 0);
  image::imwrite(folder / "a.JPG", pixels, {.format = ImageFormat::png, .quality = 100, .subsampling = false});
  CHECK(largest_difference(image::imread(folder / "a.JPG"), pixels) <= 3);
  CHECK_THROWS_AS(image::imwrite(folder / "a.gif", pixels), ValueError);
  CHECK_THROWS_AS(image::imwrite(folder / "absent" / "a.png", pixels), FileError);
}

TEST_CASE("arrays that are no images are not encoded", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  CHECK_THROWS_AS(image::imencode(zeros({3, 4, 3})), DTypeError);
  const auto bytes = [](const Shape& shape) { return zeros(shape, {.dtype = uint8}); };
  CHECK_THROWS_AS(image::imencode(bytes({3, 4})), ShapeError);
  CHECK_THROWS_AS(image::imencode(bytes({3, 4, 4})), ShapeError);  // no JPEG has alpha
  CHECK_THROWS_AS(image::imencode(bytes({3, 4, 5}), {.format = ImageFormat::png}), ShapeError);
  CHECK_THROWS_AS(image::imencode(bytes({0, 4, 3})), ShapeError);
  CHECK_THROWS_AS(image::imencode(bytes({65501, 1, 1})), ShapeError);
  CHECK_THROWS_AS(image::imencode(bytes({3, 4, 3}), {.quality = 0}), ValueError);
  CHECK_THROWS_AS(image::imencode(bytes({3, 4, 3}), {.quality = 101}), ValueError);
  CHECK_THROWS_AS(image::imencode(bytes({3, 4, 3}), {.format = ImageFormat::png, .compression = 10}), ValueError);
  const NDArray longest = bytes({65500, 1, 1});
  CHECK(image::imdecode(image::imencode(longest), {.channels = 1}).shape() == longest.shape());
}
