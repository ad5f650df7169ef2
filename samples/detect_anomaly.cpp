// An auto-encoder learns what some classes of images look like, and so finds images of other classes among new ones:
// those that it cannot repeat.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sluice/sluice.h>

#include "samples/support/flags.h"
#include "samples/support/images.h"
#include "samples/support/interrupt.h"
#include "samples/support/png_image.h"
#include "samples/support/run_main.h"
#include "samples/support/safe_file.h"

namespace {

using namespace sluice;
namespace nn = gluon::nn;

constexpr std::int64_t k_side = 28, k_pixels = k_side * k_side, k_classes = 10;

struct Options {
  Device device = num_gpus() > 0 ? gpu(0) : cpu();
  std::filesystem::path output;
  std::string folder;
  std::int64_t drawn = 0, epochs = 10, batch = 64, code = 16, worst = 10;
  std::vector<int> normal = {7, 9};  // sneakers and ankle boots
  double learning_rate = 2e-3;
  std::uint64_t seed = 1;
};

/// Images of 28 x 28 shades from 0 to 1, and their classes.
struct Pictures {
  std::vector<float> pixels = {};
  std::vector<std::int32_t> classes = {};

  std::int64_t size() const { return std::ssize(classes); }
  gluon::data::ArrayDataset dataset() const { return {array(pixels, {size(), k_pixels}), array(classes, {size()})}; }
};

bool is_normal(const Options& options, std::int32_t label) {
  return std::find(options.normal.begin(), options.normal.end(), label) != options.normal.end();
}

/// All of a dataset, or those of the normal classes alone.
Pictures chosen(const gluon::data::vision::FashionMNIST& images, const Options& options, bool normal_alone) {
  const Shape shape = images.data_spec().shape;
  require<FileError>(shape[0] == k_side && shape[1] == k_side, [&] {
    return message("images of ", shape[0], " x ", shape[1], " pixels, not ", k_side, " x ", k_side);
  });
  std::vector<std::int64_t> all(static_cast<std::size_t>(images.size()));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  std::vector<std::int32_t> labels(all.size());
  images.read_labels(all, {.data = labels.data(), .shape = {images.size()}, .size = images.size()});
  Pictures taken;
  for (const std::int64_t index : all) {
    const std::int32_t label = labels[static_cast<std::size_t>(index)];
    if (normal_alone && !is_normal(options, label))
      continue;
    const auto* shades = static_cast<const std::uint8_t*>(images.data_row(index));
    for (std::int64_t i = 0; i < k_pixels; ++i)
      taken.pixels.push_back(static_cast<float>(shades[i]) / 255);
    taken.classes.push_back(label);
  }
  return taken;
}

/// Bars on a dark ground, one a class: at its height, 2 pixels thick, from somewhere on the left to somewhere on the
/// right.
Pictures drawn(std::int64_t count, const std::vector<int>& classes, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  Pictures made;
  for (std::int64_t i = 0; i < count; ++i) {
    const int label = classes[static_cast<std::size_t>(i) % classes.size()];
    const auto left = static_cast<std::int64_t>(draw() % 8), right = k_side - static_cast<std::int64_t>(draw() % 8);
    const float shade = 0.6f + static_cast<float>(draw() % 100) / 250;
    for (std::int64_t y = 0; y < k_side; ++y) {
      for (std::int64_t x = 0; x < k_side; ++x)
        made.pixels.push_back(y / 2 - 2 == label && x >= left && x < right ? shade : 0.05f);
    }
    made.classes.push_back(label);
  }
  return made;
}

/// Normal images to learn from, and new ones of all classes.
std::array<Pictures, 2> pictures_of(const Options& options) {
  std::int64_t count = options.drawn;
  if (count == 0) {
    try {
      const samples::Images images = samples::open_images(options.folder);
      return {chosen(*images.training, options, true), chosen(images.testing, options, false)};
    } catch (const FileError&) {
      if (!options.folder.empty() || std::getenv("SLUICE_DATA") != nullptr)
        throw;
      fmt::print("Fashion-MNIST is not here (--data names its folder): images are drawn\n");
      count = 2000;
    }
  }
  std::vector<int> all(k_classes);
  std::iota(all.begin(), all.end(), 0);
  return {drawn(count, options.normal, options.seed), drawn(count, all, options.seed + 1)};
}

nn::Sequential auto_encoder(std::int64_t code) {
  nn::Sequential net;
  net.add(nn::Dense(128, {.activation = "relu", .in_units = k_pixels}), nn::Dense(code, {.in_units = 128}));
  net.add(nn::Dense(128, {.activation = "relu", .in_units = code}));
  net.add(nn::Dense(k_pixels, {.activation = "sigmoid", .in_units = 128}));
  return net;
}

void train(nn::Sequential& net, const Pictures& pictures, const Options& options) {
  if (pictures.size() < options.batch)
    throw std::runtime_error(
        fmt::format("{} normal images are too few for batches of {}", pictures.size(), options.batch));
  gluon::data::DataLoader loader(
      pictures.dataset(),
      {.batch_size = options.batch, .shuffle = true, .device = options.device, .seed = options.seed});
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::Adam({.learning_rate = options.learning_rate}));
  const gluon::loss::L2Loss cost;
  gluon::TrainStep step(net, cost, trainer);
  for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    gluon::metric::Loss mean_loss;
    for (const auto& [x, labels] : loader) {
      mean_loss.update(step(x, x).losses);
      samples::end_if_interrupted();
    }
    fmt::print("epoch {:3}: loss {:.5f}\n", epoch, mean_loss.get().second);
    std::fflush(stdout);
  }
}

/// How far the network is from repeating each image: the mean of squares.
std::vector<float> errors_of(nn::Sequential& net, const Pictures& pictures, const Options& options) {
  gluon::data::DataLoader loader(pictures.dataset(), {.batch_size = 500, .device = options.device});
  net.hybridize();
  std::vector<NDArray> parts;
  for (const auto& [x, labels] : loader)
    parts.push_back(mean(square(net(x) - x), {1}));
  return concat(parts).to_vector<float>();
}

/// Of an unusual image and a normal one the share in which the unusual one has the greater error (the area under the
/// ROC curve): 0.5 for who guesses.
double separation(const std::vector<float>& errors, const Pictures& pictures, const Options& options) {
  std::vector<std::pair<float, bool>> sorted;
  for (std::size_t i = 0; i < errors.size(); ++i)
    sorted.emplace_back(errors[i], !is_normal(options, pictures.classes[i]));
  std::sort(sorted.begin(), sorted.end());
  double normal = 0, pairs = 0, unusual = 0;
  for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    double of_each[2] = {0, 0};  // that have the same error
    for (; end < sorted.size() && sorted[end].first == sorted[begin].first; ++end)
      ++of_each[sorted[end].second ? 1 : 0];
    pairs += of_each[1] * (normal + of_each[0] / 2);
    normal += of_each[0];
    unusual += of_each[1];
  }
  return normal * unusual > 0 ? pairs / (normal * unusual) : 0.5;
}

void print_errors(const std::vector<float>& errors, const Pictures& pictures, const Options& options) {
  for (std::int32_t label = 0; label < k_classes; ++label) {
    double sum = 0, count = 0;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      if (pictures.classes[i] == label) {
        sum += static_cast<double>(errors[i]);
        ++count;
      }
    }
    if (count > 0)
      fmt::print(
          "class {}: {} images, error {:.5f}{}\n",
          label,
          count,
          sum / count,
          is_normal(options, label) ? ", normal" : "");
  }
}

/// A column an image, twice as large: it, and what the network makes of it.
samples::Image painted(const NDArray& images, const NDArray& repeated) {
  const std::int64_t count = images.shape()[0];
  const NDArray both = concat({images, repeated}).reshape({2, count, k_side, k_side}).transpose({0, 2, 1, 3});
  const NDArray shades = clip(both * 255, 0, 255).astype(uint8).reshape({2 * k_side, count * k_side});
  const NDArray large = repeat(repeat(shades, 2, 0), 2, 1);
  return {large.shape()[0], large.shape()[1], 1, large.to_vector<std::uint8_t>()};
}

int run(const Options& options) {
  samples::check_target("output", options.output);
  samples::catch_interrupts();
  random::seed(options.seed);
  const auto [normal, fresh] = pictures_of(options);
  nn::Sequential net = auto_encoder(options.code);
  net.initialize(gluon::init::Xavier(), options.device);
  fmt::print(
      "{} images of classes {} to learn from, {} new ones; on {}\n",
      normal.size(),
      fmt::join(options.normal, ", "),
      fresh.size(),
      to_string(options.device));
  train(net, normal, options);
  const std::vector<float> errors = errors_of(net, fresh, options);
  print_errors(errors, fresh, options);
  fmt::print("unusual images are told from normal ones: {:.4f}\n", separation(errors, fresh, options));

  std::vector<std::int32_t> order(errors.size());
  std::iota(order.begin(), order.end(), 0);
  const auto most = std::min<std::ptrdiff_t>(options.worst, std::ssize(order));
  std::partial_sort(order.begin(), order.begin() + most, order.end(), [&](std::int32_t a, std::int32_t b) {
    const float left = errors[static_cast<std::size_t>(a)], right = errors[static_cast<std::size_t>(b)];
    return std::pair(-left, a) < std::pair(-right, b);
  });
  order.resize(static_cast<std::size_t>(most));
  const NDArray shown =
      take(array(fresh.pixels, {fresh.size(), k_pixels}, options.device), array(order, {most}, options.device), 0);
  samples::write_png(options.output, painted(shown, net(shown)));
  fmt::print("{}: the {} least usual images, and what the network makes of them\n", options.output.string(), most);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  samples::CommandLine command(
      "An auto-encoder finds images unlike those that it learnt from, of Fashion-MNIST or drawn.");
  command.add_device_flag(options.device);
  command.add_option("output", options.output, "The PNG to write").required().check(samples::a_name());
  command.add_option(
      "--data", options.folder, "Folder of Fashion-MNIST's files (default: $SLUICE_DATA, then those of Debian)");
  command.add_option("--drawn", options.drawn, "Draw so many images, in the place of Fashion-MNIST")
      .check(samples::whole_within(10, 100'000))
      .excludes("--data");
  command.add_option("--normal", options.normal, "Classes to learn from")
      .check(samples::whole_within(0, k_classes - 1))
      .several(1, k_classes - 1)
      .with_default();
  command.add_option("--epochs", options.epochs, "Passes over the images").check(samples::whole_within(1, 10'000));
  command.add_option("--batch", options.batch, "Images in a batch").check(samples::whole_within(1, 4096));
  command.add_option("--code", options.code, "Numbers that an image goes through")
      .check(samples::whole_within(1, 4096));
  command.add_option("--worst", options.worst, "Images in the picture").check(samples::whole_within(1, 100));
  command.add_option("--lr", options.learning_rate, "Learning rate")
      .check(samples::finite_within({.low = 0, .high = 1}));
  command.add_option("--seed", options.seed, "Of all random numbers").check(samples::whole_number());
  return samples::run_main(command, argc, argv, [&] { return run(options); });
}
