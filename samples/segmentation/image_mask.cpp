#include "samples/segmentation/image_mask.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <sluice/sluice.h>

#include "samples/support/png_image.h"

namespace samples {

using namespace sluice;
namespace zoo = gluon::model_zoo::segmentation;

namespace {

constexpr std::int64_t k_longest_by_shortest = 4;  // a strip would take memory without end

using Maker = std::function<zoo::SegmentationModel(const zoo::SegmentationOptions&)>;

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> all = {
      {"deeplabv3", [](const auto& options) { return zoo::deeplabv3_resnet(50, options); }},
      {"deeplabv3_resnet101", [](const auto& options) { return zoo::deeplabv3_resnet(101, options); }},
      {"deeplabv3_mobilenet_v3_large", [](const auto& options) { return zoo::deeplabv3_mobilenet_v3_large(options); }},
      {"fcn", [](const auto& options) { return zoo::fcn_resnet(50, options); }},
  };
  return all;
}

// Those of Pascal VOC, which torchvision's weights know.
std::string class_name(std::int64_t number, std::int64_t classes) {
  constexpr std::array<const char*, 21> names = {
      "background", "aeroplane", "bicycle",      "bird",  "boat",  "bottle", "bus",
      "car",        "cat",       "chair",        "cow",   "table", "dog",    "horse",
      "motorbike",  "person",    "potted plant", "sheep", "sofa",  "train",  "monitor"};
  return classes == std::ssize(names) ? names[static_cast<std::size_t>(number)] : fmt::format("class {}", number);
}

// Pascal VOC's: three bits of the number at a time, one a colour, from the strongest of each on.
std::array<std::uint8_t, 3> class_colour(std::int64_t number) {
  std::array<std::uint8_t, 3> colour{};
  for (int bit = 7; number != 0; --bit, number >>= 3) {
    for (std::size_t channel = 0; channel < 3; ++channel)
      colour[channel] = static_cast<std::uint8_t>(colour[channel] | (number >> channel & 1) << bit);
  }
  return colour;
}

// The shorter side becomes `side`, and the longer one follows as far as is sensible.
gluon::data::vision::ImageSize seen_size(std::int64_t height, std::int64_t width, std::int64_t side) {
  const auto [shorter, longer] = std::minmax(height, width);
  const double scale = std::min(
      static_cast<double>(side) / static_cast<double>(shorter),
      static_cast<double>(side * k_longest_by_shortest) / static_cast<double>(longer));
  const auto scaled = [scale](std::int64_t length) {
    return std::max<std::int64_t>(std::llround(static_cast<double>(length) * scale), 1);
  };
  return {scaled(height), scaled(width)};
}

zoo::SegmentationModel network(const MaskOptions& options) {
  zoo::SegmentationModel net = makers().at(options.model)({.classes = options.classes});
  if (options.weights.empty()) {
    net.initialize(gluon::init::Xavier(), options.device);
    return net;
  }
  net.initialize(gluon::init::Zero(), options.device);
  gluon::model_zoo::load_torchvision(net, options.weights);
  return net;
}

// (height, width) of uint8.
NDArray classes_of(const gluon::Block& net, const NDArray& picture, const MaskOptions& options) {
  const std::int64_t height = picture.shape()[0], width = picture.shape()[1];
  const gluon::data::vision::ImageSize seen = seen_size(height, width, options.side);
  fmt::print(
      "{} on {}: {}, {} x {} pixels, seen as {} x {}\n",
      options.model,
      to_string(options.device),
      options.image.string(),
      width,
      height,
      seen.width,
      seen.height);
  const NDArray small = image::resize(picture.to(options.device), seen, {.antialias = true});
  const NDArray x = image::normalize(image::to_tensor(small), {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
  const NDArray mask = argmax(net(x.expand_dims(0)), 1).astype(uint8);  // (1, H, W)
  return image::resize(mask.reshape({seen.height, seen.width, 1}), {height, width}, {.mode = ResizeMode::nearest});
}

// Most pixels first.
void print_classes(const std::vector<std::uint8_t>& mask, std::int64_t classes) {
  std::vector<std::int64_t> pixels(static_cast<std::size_t>(classes)), order(pixels.size());
  for (const std::uint8_t number : mask)
    ++pixels[number];
  std::iota(order.begin(), order.end(), 0);
  const auto count = [&](std::int64_t number) { return pixels[static_cast<std::size_t>(number)]; };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return count(a) > count(b); });
  for (const std::int64_t number : order) {
    if (count(number) > 0)
      fmt::print(
          "{:3} {:14}{:6.2f} % of pixels\n",
          number,
          class_name(number, classes),
          100 * static_cast<double>(count(number)) / static_cast<double>(mask.size()));
  }
}

}  // namespace

std::vector<std::string> mask_models() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : makers())
    names.push_back(name);
  return names;
}

void paint_mask(const MaskOptions& options, const std::filesystem::path& output) {
  const NDArray picture = image::imread(options.image, {.orient = true});
  picture.wait_to_read();  // a damaged file is told before the network is made
  const zoo::SegmentationModel net = network(options);
  Image image{picture.shape()[0], picture.shape()[1], 1, {}, {}};
  image.pixels = classes_of(net, picture, options).to_vector<std::uint8_t>();
  if (options.weights.empty())
    fmt::print("the weights are random: the mask shows nothing that was learnt (--weights takes torchvision's)\n");
  print_classes(image.pixels, options.classes);
  for (std::int64_t number = 0; number < options.classes; ++number)
    image.palette.push_back(class_colour(number));
  write_png(output, image);
  fmt::print("{}: the class of each pixel, painted in {} colours\n", output.string(), options.classes);
}

}  // namespace samples
