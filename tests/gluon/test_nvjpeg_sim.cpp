// How decoders are shared, what happens where nvJPEG fails, and that nothing is lost: on the simulated GPU alone.
#include <thread>

#include <sluice/gluon/image/image.h>

#include "tests/gluon/image_support.h"
#include "tests/gluon/support.h"
#include "tests/support/cuda_sim/sim.h"
#include "tests/support/device_sim/nvjpeg.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr int k_execution_failed = 6, k_bad_jpeg = 3, k_not_supported = 4;

Bytes file_of(std::int64_t height, std::int64_t width) {
  return image::imencode(smooth_image(height, width, 3));
}
Bytes pixels_of(const Bytes& file) {
  return image::imdecode(file).to_vector<std::uint8_t>();
}
int decoded() {
  return device_sim::nvjpeg_figures().decoded;
}
/// What has to be so when an engine of the case has gone: of the default engine's objects there are as many as before.
class Checked {
 public:
  Checked() = default;
  Checked(const Checked&) = delete;
  Checked& operator=(const Checked&) = delete;
  ~Checked() {
    const auto now = device_sim::nvjpeg_figures();
    for (const auto& [kind, count] : now.live) {
      INFO(kind);
      CHECK(count == before_.live[kind]);
    }
    CHECK(now.misuses == before_.misuses);
    CHECK(sim::take_violations().empty());
  }

 private:
  device_sim::NvjpegFigures before_ = device_sim::nvjpeg_figures();
};

}  // namespace

TEST_CASE("JPEG goes by nvJPEG where it can, and all else by the CPU", "[gluon][image][gpu]") {
  SLUICE_NEEDS_IMAGES();
  const Checked checked;
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  CHECK(image::decodes_on_gpu(gpu(0)));
  const int before = decoded();
  const Bytes file = file_of(20, 30);
  CHECK(image::imdecode(file, {}, gpu(0)).to_vector<std::uint8_t>() == pixels_of(file));
  CHECK(image::imdecode(encoded_image("jpeg_turned"), {.orient = true}, gpu(0)).shape() == Shape{14, 11, 3});
  image::imdecode(encoded_image("jpeg_grey"), {.channels = 0}, gpu(0)).wait_to_read();
  image::imdecode(encoded_image("jpeg_progressive"), {}, gpu(0)).wait_to_read();
  CHECK(decoded() == before + 4);
  image::imdecode(encoded_image("jpeg_cmyk"), {}, gpu(0)).wait_to_read();
  image::imdecode(encoded_image("png_rgb"), {}, gpu(0)).wait_to_read();
  image::imdecode(file, {.channels = 4}, gpu(0)).wait_to_read();
  image::imdecode(file, {.shorter_side = 5}, gpu(0)).wait_to_read();
  CHECK(decoded() == before + 4);
}

TEST_CASE("JPEG of other colours than nvJPEG takes them for is left to the CPU", "[gluon][image][gpu]") {
  SLUICE_NEEDS_IMAGES();
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  Bytes file = image::imencode(smooth_image(20, 30, 3), {.subsampling = false});
  const Bytes before_colours = pixels_of(file);
  // Adobe's mark, which says that red, green and blue are stored as they are, in the place of JFIF's.
  const Bytes adobe{0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0};
  REQUIRE(file[3] == 0xe0);
  file.erase(file.begin() + 2, file.begin() + 20);
  file.insert(file.begin() + 2, adobe.begin(), adobe.end());
  REQUIRE(pixels_of(file) != before_colours);
  const int before = decoded();
  CHECK(image::imdecode(file, {}, gpu(0)).to_vector<std::uint8_t>() == pixels_of(file));
  CHECK(decoded() == before);
}

TEST_CASE("without nvJPEG the CPU decodes for a GPU", "[gluon][image][gpu]") {
  SLUICE_NEEDS_IMAGES();
  const Checked checked;
  device_sim::set_nvjpeg_present(false);
  {
    Engine engine({.workers = 2});
    const EngineScope scope(engine);
    const int before = decoded();
    CHECK_FALSE(image::decodes_on_gpu(gpu(0)));
    const Bytes file = file_of(20, 30);
    const NDArray image = image::imdecode(file, {}, gpu(0));
    CHECK(image.device() == gpu(0));
    CHECK(image.to_vector<std::uint8_t>() == pixels_of(file));
    CHECK(decoded() == before);
  }
  device_sim::set_nvjpeg_present(true);
  device_sim::fail_nvjpeg("nvjpegCreateEx", 1, 7);
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  CHECK_FALSE(image::decodes_on_gpu(gpu(0)));
}

TEST_CASE("a few decoders serve all images, one at a time each", "[gluon][image][gpu]") {
  SLUICE_NEEDS_IMAGES();
  const Checked checked;
  const int before = device_sim::nvjpeg_figures().made_states;
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  std::vector<Bytes> files;
  for (int i = 0; i < 8; ++i)
    files.push_back(file_of(10 + 7 * i, 60 - 5 * i));
  std::vector<NDArray> images;
  for (int i = 0; i < 80; ++i)
    images.push_back(image::imdecode(files[static_cast<std::size_t>(i % 8)], {}, gpu(0)));
  for (std::size_t i = 0; i < images.size(); ++i)
    CHECK(images[i].to_vector<std::uint8_t>() == pixels_of(files[i % 8]));
  CHECK(device_sim::nvjpeg_figures().made_states - before <= 4);
}

TEST_CASE("a decoder is used again when the GPU is done with it, not before", "[gluon][image][gpu]") {
  SLUICE_NEEDS_IMAGES();
  const Checked checked;
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  const Bytes file = file_of(24, 32), other = file_of(16, 40);
  image::imdecode(file, {}, gpu(0)).wait_to_read();
  const int before = decoded();
  sim::set_manual(true);
  std::vector<NDArray> images;
  for (int i = 0; i < 12; ++i)
    images.push_back(image::imdecode(i % 2 == 0 ? file : other, {}, gpu(0)));
  while (decoded() < before + 4)  // as many as there are decoders
    std::this_thread::yield();
  // Those behind wait for the GPU; a task of the CPU that has nothing to do with them passes.
  image::imdecode(file).wait_to_read();
  CHECK(decoded() == before + 4);
  sim::set_manual(false);
  for (std::size_t i = 0; i < images.size(); ++i)
    CHECK(images[i].to_vector<std::uint8_t>() == pixels_of(i % 2 == 0 ? file : other));
}

TEST_CASE("idle decoders are not used while the GPU still reads their memory", "[gluon][image][gpu]") {
  SLUICE_NEEDS_IMAGES();
  const Checked checked;
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  const Bytes file = file_of(24, 32);
  const int before = decoded();
  sim::set_manual(true);
  std::vector<NDArray> images;
  // One by one, each issued before the next is pushed: decoders are idle but for the GPU.
  for (int i = 0; i < 3; ++i) {
    images.push_back(image::imdecode(file, {}, gpu(0)));
    while (decoded() < before + i + 1)
      std::this_thread::yield();
  }
  for (int i = 0; i < 6; ++i)
    images.push_back(image::imdecode(file, {}, gpu(0)));
  sim::set_manual(false);
  for (const NDArray& image : images)
    CHECK(image.to_vector<std::uint8_t>() == pixels_of(file));
}

TEST_CASE("whatever call of nvJPEG fails, the CPU decodes or the error is CUDA's", "[gluon][image][gpu]") {
  SLUICE_NEEDS_IMAGES();
  const Checked checked;
  const Bytes file = file_of(20, 30);
  const Bytes expected = pixels_of(file);
  const std::vector<std::string> at_read{
      "nvjpegDecoderCreate",
      "nvjpegDecoderStateCreate",
      "nvjpegBufferPinnedCreate",
      "nvjpegJpegStreamCreate",
      "nvjpegDecodeParamsCreate",
      "nvjpegBufferDeviceCreateV2",
      "nvjpegJpegStreamParse",
      "nvjpegDecoderJpegSupported",
      "nvjpegDecodeJpegHost"};
  const std::vector<std::string> at_write{"nvjpegDecodeJpegTransferToDevice", "nvjpegDecodeJpegDevice"};
  for (const int status : {k_bad_jpeg, k_not_supported, k_execution_failed}) {
    for (const bool late : {false, true}) {
      for (const std::string& function : late ? at_write : at_read) {
        INFO(function << " gives " << status);
        Engine engine({.workers = 1});
        const EngineScope scope(engine);
        const int before = decoded();
        REQUIRE(image::decodes_on_gpu(gpu(0)));
        device_sim::fail_nvjpeg(function, 1, status);
        const NDArray image = image::imdecode(file, {}, gpu(0));
        if (late && status == k_execution_failed)
          CHECK_THROWS_AS(image.wait_to_read(), CudaError);
        else
          CHECK(image.to_vector<std::uint8_t>() == expected);
        CHECK(decoded() == before);
        for (int i = 0; i < 4; ++i)
          CHECK(image::imdecode(file, {}, gpu(0)).to_vector<std::uint8_t>() == expected);
        CHECK(decoded() == before + 4);
      }
    }
  }
}

TEST_CASE("what nvJPEG would take of a damaged file is the CPU's error all the same", "[gluon][image][gpu]") {
  SLUICE_NEEDS_IMAGES();
  const Checked checked;
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  const Bytes file = file_of(60, 80);
  const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(file.size() * 3 / 4));
  const int before = decoded();
  const NDArray image = image::imdecode(cut, {}, gpu(0));
  CHECK_THROWS_AS(image.wait_to_read(), FileError);
  CHECK(decoded() == before);
  try {
    (image + 1).wait_to_read();
    FAIL("a sum of pixels that are not there");
  } catch (const FileError& error) {
    CHECK(std::string(error.what()).find("imdecode") != std::string::npos);
    CHECK(std::string(error.what()).find("test_nvjpeg_sim.cpp") != std::string::npos);
  }
  CHECK(image::imdecode(file, {}, gpu(0)).to_vector<std::uint8_t>() == pixels_of(file));
}

TEST_CASE("cancelled images leave decoders to others", "[gluon][image][gpu]") {
  SLUICE_NEEDS_IMAGES();
  const Checked checked;
  const Bytes file = file_of(20, 30);
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  const int before = decoded();
  sim::set_manual(true);
  {
    std::vector<NDArray> images;
    for (int i = 0; i < 12; ++i)
      images.push_back(image::imdecode(file, {}, gpu(0)));
    while (decoded() < before + 3)
      std::this_thread::yield();
  }
  sim::set_manual(false);
  engine.stop(Stop::cancel);
  engine.restart();
  CHECK(image::imdecode(file, {}, gpu(0)).to_vector<std::uint8_t>() == pixels_of(file));
}
