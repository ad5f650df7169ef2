// JPEG decoded on a GPU. On the simulated one libjpeg does it in nvJPEG's place.
#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include <sluice/gluon/image/arrays.h>
#include <sluice/gluon/image/detail/gpu_decoding.h>

#include "tests/gluon/image_support.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using image::DecodeOptions;

namespace {

using Bytes = std::vector<std::uint8_t>;

// How far a channel is from libjpeg's, of 255: inverse transform and colours round otherwise, and between the samples
// of colours of half the resolution so does what lies there.
constexpr int k_rounding = 4;

int largest_difference(const NDArray& on_gpu, const NDArray& on_cpu) {
  REQUIRE(on_gpu.shape() == on_cpu.shape());
  CHECK(on_gpu.dtype() == uint8);
  CHECK(on_gpu.is_contiguous());
  const auto left = on_gpu.to_vector<std::uint8_t>(), right = on_cpu.to_vector<std::uint8_t>();
  int largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    largest = std::max(largest, std::abs(int{left[i]} - int{right[i]}));
  return largest;
}

// Waves without edges, of colours too.
NDArray waves(std::int64_t height, std::int64_t width, std::int64_t channels, int number = 0) {
  Bytes pixels;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const double at = static_cast<double>(x + number) / 23 + static_cast<double>(c);
        pixels.push_back(
            static_cast<std::uint8_t>(128 + 50 * std::sin(at) + 50 * std::cos(static_cast<double>(y) / 31)));
      }
    }
  }
  return array(pixels, {height, width, channels});
}

int difference_of(const Bytes& file, const DecodeOptions& options = {}) {
  const NDArray on_gpu = image::imdecode(file, options, gpu(0));
  CHECK(on_gpu.device() == gpu(0));
  return largest_difference(on_gpu, image::imdecode(file, options));
}

// The orientation in EXIF data.
Bytes turned_file(int orientation) {
  Bytes file = encoded_image("jpeg_turned");
  const Bytes entry{0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 6};
  const auto found = std::search(file.begin(), file.end(), entry.begin(), entry.end());
  REQUIRE(found != file.end());
  found[9] = static_cast<std::uint8_t>(orientation);
  return file;
}

// "" where it decodes.
std::string complaint(const Bytes& file, Device device) {
  try {
    image::imdecode(file, {}, device).wait_to_read();
    return "";
  } catch (const FileError& error) {
    return error.message();
  }
}

}  // namespace

#define SLUICE_NEEDS_GPU_AND_IMAGES() \
  SLUICE_NEEDS_IMAGES();              \
  SLUICE_NEEDS_GPUS(1);               \
  SLUICE_NEEDS_GPU_KERNELS()

TEST_CASE("only a GPU decodes on a GPU", "[gluon][image]") {
  CHECK_FALSE(image::decodes_on_gpu(cpu()));
  CHECK_FALSE(image::decodes_on_gpu(gpu(63)));
}

TEST_CASE("a JPEG decoded to the CPU as a device is what it always was", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  const Bytes file = image::imencode(waves(13, 17, 3));
  const NDArray plain = image::imdecode(file), named = image::imdecode(file, {}, cpu());
  CHECK(named.to_vector<std::uint8_t>() == plain.to_vector<std::uint8_t>());
}

TEST_CASE("a GPU's pixels of a JPEG are the CPU's but for rounding", "[gluon][image][gpu]") {
  SLUICE_NEEDS_GPU_AND_IMAGES();
  const std::pair<std::int64_t, std::int64_t> sizes[] = {
      {1, 1}, {8, 8}, {16, 16}, {13, 17}, {1, 40}, {67, 33}, {120, 200}};
  for (const auto& [height, width] : sizes) {
    for (const bool subsampling : {false, true}) {
      for (const bool progressive : {false, true}) {
        for (const int quality : {50, 90}) {
          INFO(height << " x " << width << (subsampling ? ", fewer colours" : "") << (progressive ? ", scans" : ""));
          const Bytes file = image::imencode(
              waves(height, width, 3), {.quality = quality, .subsampling = subsampling, .progressive = progressive});
          CHECK(difference_of(file) <= k_rounding);
          CHECK(difference_of(file, {.channels = 1}) <= k_rounding);
          CHECK(difference_of(file, {.channels = 0}) <= k_rounding);
        }
      }
    }
    INFO(height << " x " << width << " grey");
    const Bytes grey = image::imencode(waves(height, width, 1));
    CHECK(difference_of(grey, {.channels = 0}) <= k_rounding);
    CHECK(difference_of(grey, {.channels = 3}) <= k_rounding);
  }
}

TEST_CASE("sharp edges of full resolution are the CPU's on a GPU but for rounding", "[gluon][image][gpu]") {
  SLUICE_NEEDS_GPU_AND_IMAGES();
  CHECK(difference_of(image::imencode(smooth_image(45, 61, 3), {.subsampling = false})) <= k_rounding);
  CHECK(difference_of(image::imencode(smooth_image(45, 61, 1)), {.channels = 1}) <= k_rounding);
}

TEST_CASE("every kind of image file comes to a GPU", "[gluon][image][gpu]") {
  SLUICE_NEEDS_GPU_AND_IMAGES();
  for (const EncodedImage& file : k_encoded_images) {
    INFO(file.name);
    const std::string name = file.name;
    const bool by_cpu = name.find("png") == 0 || name == "jpeg_cmyk";
    CHECK(difference_of(from_base64(file.base64), {.channels = 0, .orient = true}) <= (by_cpu ? 0 : 32));
  }
  const Bytes file = image::imencode(waves(64, 96, 3));
  CHECK(difference_of(file, {.channels = 4}) == 0);
  CHECK(difference_of(file, {.shorter_side = 20}) == 0);
  CHECK(image::imdecode(file, {.shorter_side = 20}, gpu(0)).shape() == Shape{32, 48, 3});
}

TEST_CASE("a JPEG on a GPU is turned as its EXIF data asks, by option alone", "[gluon][image][gpu]") {
  SLUICE_NEEDS_GPU_AND_IMAGES();
  const NDArray lying = image::imdecode(turned_file(1), {}, gpu(0));
  for (int orientation = 1; orientation <= 8; ++orientation) {
    INFO("orientation " << orientation);
    const Bytes file = turned_file(orientation);
    CHECK(largest_difference(image::imdecode(file, {}, gpu(0)), lying) == 0);
    const NDArray on_gpu = image::imdecode(file, {.orient = true}, gpu(0));
    const NDArray on_cpu = image::imdecode(file, {.orient = true});
    // Noise of a few pixels: far apart where it is turned another way.
    CHECK(largest_difference(on_gpu, on_cpu) <= 32);
    if (orientation > 1 && orientation < 5)
      CHECK(largest_difference(on_gpu, lying) > 32);
  }
}

TEST_CASE("a damaged JPEG is the same error on a GPU as on the CPU", "[gluon][image][gpu]") {
  SLUICE_NEEDS_GPU_AND_IMAGES();
  for (const bool progressive : {false, true}) {
    const NDArray picture = waves(60, 80, 3);
    const Bytes whole = image::imencode(picture, {.progressive = progressive});
    for (std::size_t kept = 0; kept < whole.size(); kept += 1 + whole.size() / 40) {
      INFO(kept << " of " << whole.size() << " bytes");
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(kept));
      const std::string expected = complaint(cut, cpu());
      CHECK_FALSE(expected.empty());
      CHECK(complaint(cut, gpu(0)) == expected);
    }
    CHECK(difference_of(whole) <= k_rounding);
  }
  CHECK_THROWS_AS(image::imdecode(Bytes{1, 2, 3}, {}, gpu(0)), FileError);
  CHECK_THROWS_AS(image::imdecode(Bytes{}, {}, gpu(0)), FileError);
  CHECK_THROWS_AS(image::imdecode(Bytes{}, {.channels = 2}, gpu(0)), ValueError);
  CHECK_THROWS_AS(image::imread("absent.jpg", {}, gpu(0)), FileError);
  CHECK_THROWS_AS(image::imdecode(image::imencode(waves(8, 8, 3)), {}, gpu(63)), DeviceError);
  CHECK_THROWS_AS(image::imdecode(image::imencode(waves(99, 99, 3)), {.most_bytes = 999}, gpu(0)), FileError);
}

TEST_CASE("whatever is changed in a JPEG, a GPU decodes it or says no, and the next one", "[gluon][image][gpu]") {
  SLUICE_NEEDS_GPU_AND_IMAGES();
  std::mt19937 draw(5);
  const Bytes whole = image::imencode(waves(40, 56, 3));
  int refused = 0;
  for (int i = 0; i < 150; ++i) {
    Bytes changed = whole;
    for (int changes = 1 + i % 4; changes > 0; --changes)
      changed[2 + draw() % (changed.size() - 2)] = static_cast<std::uint8_t>(draw());
    try {
      image::imdecode(changed, {.most_bytes = 1 << 24}, gpu(0)).wait_to_read();
    } catch (const FileError&) {
      ++refused;
    } catch (const UnsupportedError&) {
    }
  }
  CHECK(refused > 20);
  CHECK(difference_of(whole) <= k_rounding);
}

TEST_CASE("many JPEGs are on their way to a GPU at a time", "[gluon][image][gpu]") {
  SLUICE_NEEDS_GPU_AND_IMAGES();
  Engine engine({.workers = 3});
  const EngineScope scope(engine);
  std::vector<Bytes> files;
  for (int i = 0; i < 60; ++i)
    files.push_back(image::imencode(waves(20 + i * 3, 90 - i, i % 3 == 0 ? 1 : 3, i), {.progressive = i % 5 == 0}));
  for (int round = 0; round < 2; ++round) {
    std::vector<NDArray> images;
    for (const Bytes& file : files)
      images.push_back(image::imdecode(file, {}, gpu(0)));
    for (std::size_t i = 0; i < files.size(); ++i) {
      INFO("image " << i);
      CHECK(largest_difference(images[i], image::imdecode(files[i])) <= k_rounding);
    }
  }
}

TEST_CASE("threads decode on one GPU, damaged files among theirs", "[gluon][image][gpu]") {
  SLUICE_NEEDS_GPU_AND_IMAGES();
  Engine engine({.workers = 2});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const EngineScope scope(engine);
      const Bytes file = image::imencode(waves(30 + t, 40, 3, t));
      const auto expected = image::imdecode(file).to_vector<std::uint8_t>();
      const Bytes cut(file.begin(), file.end() - 30);
      for (int i = 0; i < 20; ++i) {
        const NDArray bad = image::imdecode(cut, {}, gpu(0));
        const auto found = image::imdecode(file, {}, gpu(0)).to_vector<std::uint8_t>();
        for (std::size_t k = 0; k < found.size(); ++k)
          wrong += std::abs(int{found[k]} - int{expected[k]}) > k_rounding ? 1 : 0;
        try {
          bad.wait_to_read();
          ++wrong;
        } catch (const FileError&) {
        }
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("images and engines go while a GPU decodes", "[gluon][image][gpu]") {
  SLUICE_NEEDS_GPU_AND_IMAGES();
  const Bytes file = image::imencode(waves(60, 90, 3));
  const Bytes cut(file.begin(), file.end() - 30);
  for (int round = 0; round < 4; ++round) {
    Engine engine({.workers = 2, .report_failures = false});
    const EngineScope scope(engine);
    NDArray kept;
    for (int i = 0; i < 20; ++i) {
      kept = image::imdecode(file, {}, gpu(0));  // the one before goes
      image::imdecode(cut, {}, gpu(0));
    }
    if (round % 2 == 1)
      CHECK(largest_difference(kept, image::imdecode(file)) <= k_rounding);
  }
}

// Whatever the largest difference is: -s shows it.
TEST_CASE("photographs' sizes are the CPU's pixels on a GPU but for rounding", "[gluon][image][gpu][hardware]") {
  SLUICE_NEEDS_GPU_AND_IMAGES();
  if (!image::decodes_on_gpu(gpu(0)))
    SLUICE_SKIP("needs nvJPEG");
  for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{375, 500}, {1500, 2003}}) {
    for (const bool progressive : {false, true}) {
      for (const bool subsampling : {false, true}) {
        INFO(height << " x " << width << (subsampling ? ", fewer colours" : "") << (progressive ? ", scans" : ""));
        const Bytes file =
            image::imencode(waves(height, width, 3), {.subsampling = subsampling, .progressive = progressive});
        CHECK(difference_of(file) <= k_rounding);
      }
    }
    CHECK(difference_of(image::imencode(smooth_image(height, width, 3), {.subsampling = false})) <= k_rounding);
    CHECK(difference_of(image::imencode(smooth_image(height, width, 1)), {.channels = 1}) <= k_rounding);
  }
}

TEST_CASE("codes that end too soon before the end mark are an error on a GPU", "[gluon][image][gpu][hardware]") {
  SLUICE_NEEDS_GPU_AND_IMAGES();
  if (!image::decodes_on_gpu(gpu(0)))
    SLUICE_SKIP("needs nvJPEG");
  for (const bool progressive : {false, true}) {
    const Bytes whole = image::imencode(waves(120, 160, 3), {.progressive = progressive});
    for (const std::size_t kept : {whole.size() / 2, whole.size() * 3 / 4, whole.size() - 40}) {
      INFO(kept << " of " << whole.size() << " bytes" << (progressive ? ", scans" : ""));
      Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(kept));
      cut.insert(cut.end(), {0xff, 0xd9});
      CHECK(complaint(cut, gpu(0)) == complaint(cut, cpu()));
    }
  }
}

TEST_CASE("what follows on a GPU takes the pixels of a JPEG in order", "[gluon][image][gpu]") {
  SLUICE_NEEDS_GPU_AND_IMAGES();
  const Bytes file = image::imencode(waves(32, 40, 3));
  for (int i = 0; i < 10; ++i) {
    const NDArray small = image::resize(image::imdecode(file, {}, gpu(0)), {16, 20});
    CHECK(largest_difference(small, image::resize(image::imdecode(file), {16, 20})) <= k_rounding + 1);
  }
}

TEST_CASE("files of all sizes are one batch of images", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  const std::vector<Bytes> files{
      image::imencode(waves(20, 30, 3)), image::imencode(waves(16, 24, 1)), encoded_image("png_rgb")};
  const NDArray batch = image::imdecode_batch(files, {16, 24}, {}, cpu());
  REQUIRE(batch.shape() == Shape{3, 16, 24, 3});
  for (std::size_t i = 0; i < files.size(); ++i) {
    const NDArray expected = image::resize(image::imdecode(files[i]), {16, 24});
    CHECK(batch[static_cast<std::int64_t>(i)].to_vector<std::uint8_t>() == expected.to_vector<std::uint8_t>());
  }
  CHECK_THROWS_AS(image::imdecode_batch({}, {16, 24}, {}, cpu()), ValueError);
  CHECK_THROWS_AS(image::imdecode_batch(files, {16, 24}, {.channels = 0}, cpu()), ValueError);
  CHECK_THROWS_AS(image::imdecode_batch(std::vector<Bytes>{{1, 2}}, {16, 24}, {}, cpu()), FileError);
}

TEST_CASE("a GPU's batch of images is the CPU's but for rounding", "[gluon][image][gpu]") {
  SLUICE_NEEDS_GPU_AND_IMAGES();
  std::vector<Bytes> files{encoded_image("png_rgb")};
  for (int i = 0; i < 6; ++i)
    files.push_back(image::imencode(waves(24 + 3 * i, 40 - i, i % 2 == 0 ? 3 : 1, i)));
  const NDArray on_gpu = image::imdecode_batch(files, {24, 32}, {}, gpu(0));
  CHECK(on_gpu.device() == gpu(0));
  CHECK(largest_difference(on_gpu, image::imdecode_batch(files, {24, 32}, {}, cpu())) <= k_rounding + 1);
}

TEST_CASE("a JPEG that ends with its mark, restart marks in order, is whole", "[gluon][image]") {
  const auto is_whole = [](const Bytes& rest) {
    Bytes file{0xff, 0xd8, 0xff, 0xe0, 0, 3, 7, 0xff, 0xff, 0xda, 0, 2, 1, 0xff, 0, 2};
    file.insert(file.end(), rest.begin(), rest.end());
    return image::detail::is_whole_jpeg(file);
  };
  CHECK(is_whole({0xff, 0xd9}));
  CHECK(is_whole({0xff, 0xd9, 5, 5}));
  CHECK(is_whole({0xff, 0xff, 0xd9}));
  CHECK(is_whole({0xff, 0xd0, 1, 0xff, 0xd1, 1, 0xff, 0xd9}));
  CHECK(is_whole({0xff, 0xda, 0, 2, 9, 0xff, 0xd9}));
  CHECK_FALSE(is_whole({}));
  CHECK_FALSE(is_whole({0xff}));
  CHECK_FALSE(is_whole({0xff, 0xd1, 1, 0xff, 0xd9}));
  CHECK_FALSE(is_whole({0xff, 0xd0, 1, 0xff, 0xd2, 1, 0xff, 0xd9}));
  CHECK_FALSE(is_whole({0xff, 0xc4, 0, 9, 0xff, 0xd9}));
  CHECK_FALSE(is_whole({0xff, 0xc4, 0, 1, 0xff, 0xd9}));
  CHECK_FALSE(is_whole({0xff, 0xc4, 0}));
  CHECK_FALSE(is_whole({0xff, 0xc4, 0, 2, 7, 0xff, 0xd9}));
  CHECK_FALSE(image::detail::is_whole_jpeg({}));
}
