// Trains a network of the model zoo on images in folders by class, on CIFAR-10, or on images that it draws itself.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numbers>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/sluice.h>

#include "samples/support/flags.h"
#include "samples/support/mixed_precision.h"
#include "samples/support/run_main.h"
#include "samples/support/saving.h"

namespace {

using namespace sluice;
namespace data = gluon::data;
namespace est = gluon::estimator;
namespace vision = gluon::data::vision;
namespace transforms = vision::transforms;
namespace fs = std::filesystem;

struct Options {
  Device device = num_gpus() > 0 ? gpu(0) : cpu();
  std::string folder, cifar, model = "mobilenet0.25";
  std::int64_t epochs = 15, batch = 24, size = 32, images = 360;
  double learning_rate = 0.01;
  std::uint64_t seed = 1;
  samples::MixedPrecision mixed = {};
  samples::Saving saving = {};
};

/// Gratings at three angles and rings, of all colours and sizes: half of them JPEG, half PNG.
class DrawnFolder {
 public:
  DrawnFolder(std::int64_t count, std::uint64_t seed) : draw_(seed) {
    std::string pattern = (fs::temp_directory_path() / "sluice-drawn-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error(pattern + ": the folder cannot be made");
    path_ = pattern;
    for (const char* name : k_names)
      fs::create_directories(path_ / name);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto kind = static_cast<std::size_t>(i % 4);
      image::imwrite(path_ / k_names[kind] / fmt::format("{:05}.{}", i, i / 4 % 2 == 0 ? "jpg" : "png"), picture(kind));
    }
  }
  DrawnFolder(const DrawnFolder&) = delete;
  DrawnFolder& operator=(const DrawnFolder&) = delete;
  ~DrawnFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  double between(double low, double high) { return std::uniform_real_distribution<double>(low, high)(draw_); }

  NDArray picture(std::size_t kind) {
    const auto height = static_cast<std::int64_t>(between(36, 64)), width = static_cast<std::int64_t>(between(36, 64));
    const double wave = between(0.7, 1.2), phase = between(0, 6),
                 angle = static_cast<double>(kind) * std::numbers::pi / 3;
    double dark[3], light[3];
    for (int c = 0; c < 3; ++c) {
      dark[c] = between(0, 110);
      light[c] = between(140, 255);
    }
    std::vector<std::uint8_t> pixels;
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        const double right = static_cast<double>(x - width / 2), down = static_cast<double>(y - height / 2);
        const double along = kind == 3 ? std::hypot(right, down) : right * std::cos(angle) + down * std::sin(angle);
        const double part = 0.5 + 0.5 * std::sin(wave * along + phase);
        for (int c = 0; c < 3; ++c)
          pixels.push_back(static_cast<std::uint8_t>(dark[c] + part * (light[c] - dark[c])));
      }
    }
    return array(pixels, {height, width, 3});
  }

  static constexpr const char* k_names[] = {"across", "falling", "rising", "rings"};
  std::mt19937_64 draw_;
  fs::path path_;
};

/// A line an epoch.
class Lines : public est::EventHandler {
 public:
  int priority() const override { return 1000; }
  void epoch_end(est::Estimator& estimator) override {
    fmt::print(
        "epoch {:3}: loss {:.3f}, validation accuracy {:.4f}\n",
        estimator.progress().epochs,
        estimator.figure("training loss"),
        estimator.figure("validation accuracy"));
    std::fflush(stdout);
  }
};

/// Images to train on, and to validate.
int train(const std::vector<data::AnyDataset>& parts, std::int64_t classes, const Options& options) {
  if (parts[0].size() < options.batch)
    throw std::runtime_error(fmt::format("{} images are too few for batches of {}", parts[0].size(), options.batch));
  const vision::ToTensor tensor;
  const vision::Normalize normal({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
  const auto training = parts[0].transform_first(transforms::Compose(
      transforms::RandomResizedCrop(options.size, {.scale = {0.5, 1}}),
      transforms::RandomColorJitter(0.2, 0.2, 0.2),
      tensor,
      normal));
  const auto validation =
      parts[1].transform_first(transforms::Compose(transforms::Resize(options.size), tensor, normal));
  data::DataLoader batches(
      training,
      {.batch_size = options.batch,
       .shuffle = true,
       .last_batch = "discard",
       .device = options.device,
       .seed = options.seed,
       .skip_corrupt = true});
  data::DataLoader held_back(validation, {.batch_size = options.batch, .device = options.device, .skip_corrupt = true});
  auto net = gluon::model_zoo::vision::get_model(options.model, {.classes = classes});
  net.initialize(gluon::init::Xavier(), options.device);
  fmt::print(
      "{} on {}: {} classes, {} images to train on, {} to validate\n",
      options.model,
      to_string(options.device),
      classes,
      training.size(),
      validation.size());
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::Adam({.learning_rate = options.learning_rate}));
  options.mixed.prepare(trainer);
  const amp::AutocastScope cast = options.mixed.autocast();
  const gluon::loss::SoftmaxCrossEntropyLoss cost;
  est::Estimator estimator(net, cost, trainer, {.validation_metrics = {std::make_shared<gluon::metric::Accuracy>()}});
  est::Handlers handlers = options.saving.handlers();
  handlers.push_back(std::make_shared<Lines>());
  estimator.fit(
      batches, {.epochs = options.epochs, .validation = held_back, .handlers = std::move(handlers), .log = false});
  options.saving.end_if_interrupted();
  const std::int64_t corrupt = batches.figures().corrupt + held_back.figures().corrupt;
  if (corrupt > 0)
    fmt::print("{} damaged files were passed over\n", corrupt);
  fmt::print("validation accuracy: {:.4f}\n", estimator.figure("validation accuracy"));
  return 0;
}

int run(const Options& options) {
  options.saving.begin();
  random::seed(options.seed);
  if (!options.cifar.empty())
    return train(
        {vision::CIFAR10({.root = options.cifar}), vision::CIFAR10({.root = options.cifar, .train = false})},
        10,
        options);
  std::optional<DrawnFolder> drawn;
  if (options.folder.empty())
    drawn.emplace(options.images, options.seed);
  const fs::path folder = drawn ? drawn->path() : fs::path(options.folder);
  // JPEG files need not be larger than what is cut from them.
  const vision::ImageFolderDataset images(folder, {.decode = {.orient = true, .shorter_side = 2 * options.size}});
  return train(
      data::random_split(images, {0.8, 0.2}, options.seed),
      static_cast<std::int64_t>(images.synsets().size()),
      options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  samples::CommandLine command("Trains a network of the model zoo on JPEG and PNG images in folders by class.");
  command.add_device_flag(options.device);
  command.add_option("--data", options.folder, "Folder of a folder for each class; without it, images are drawn")
      .check(samples::a_name());
  command.add_option("--cifar", options.cifar, "Folder of CIFAR-10's binary files, in the place of --data")
      .check(samples::a_name());
  command.add_option("--model", options.model, "Network, as the model zoo calls it").with_default();
  command.add_option("--epochs", options.epochs, "Passes over the images")
      .check(samples::whole_within(1, 10'000))
      .with_default();
  command.add_option("--batch", options.batch, "Images in a batch")
      .check(samples::whole_within(1, 4096))
      .with_default();
  command.add_option("--size", options.size, "Pixels of a side that the network sees")
      .check(samples::whole_within(8, 1024))
      .with_default();
  command.add_option("--images", options.images, "Images to draw")
      .check(samples::whole_within(8, 100'000))
      .with_default();
  command.add_option("--lr", options.learning_rate, "Learning rate")
      .check(samples::finite_within({.low = 0, .high = 10}))
      .with_default();
  command.add_option("--seed", options.seed, "Of all random numbers").check(samples::whole_number());
  options.mixed.add_to(command);
  options.saving.add_to(command);
  return samples::run_main(command, argc, argv, [&] { return run(options); });
}
