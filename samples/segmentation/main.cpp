// Says of each pixel of an image to what it belongs, by DeepLabV3; or trains a small UNet to do so.
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <sluice/sluice.h>

#include "samples/segmentation/image_mask.h"
#include "samples/segmentation/shapes.h"
#include "samples/support/flags.h"
#include "samples/support/interrupt.h"
#include "samples/support/run_main.h"
#include "samples/support/safe_file.h"

namespace {

using namespace sluice;

constexpr std::array k_of_training = {"--steps", "--batch", "--channels", "--lr"};
constexpr std::array k_of_masks = {"--image", "--weights", "--classes"};

struct Options {
  Device device = num_gpus() > 0 ? gpu(0) : cpu();
  std::filesystem::path output;
  std::string model = "unet";
  std::int64_t side = 48;
  std::uint64_t seed = 1;
  samples::ShapesOptions shapes = {};
  samples::MaskOptions mask = {};
};

int run(Options& options, bool with_size) {
  samples::check_target("output", options.output);
  samples::catch_interrupts();
  random::seed(options.seed);
  if (options.model == "unet") {
    options.shapes.device = options.device;
    options.shapes.seed = options.seed;
    options.shapes.side = options.side;
    samples::paint_shapes(options.shapes, options.output);
    return 0;
  }
  options.mask.device = options.device;
  options.mask.model = options.model;
  if (with_size)
    options.mask.side = options.side;
  samples::paint_mask(options.mask, options.output);
  return 0;
}

void add_flags(samples::CommandLine& command, Options& options) {
  std::vector<std::string> models = samples::mask_models();
  models.emplace_back("unet");
  command.add_device_flag(options.device);
  command.add_option("output", options.output, "The PNG to write").required().check({[](const std::string& name) {
    return std::filesystem::path(name).extension() == ".png" ? std::string() : "the picture is a PNG: NAME.png";
  }});
  command.add_option("--model", options.model, "Network; all but unet take --image").one_of(models).with_default();
  command
      .add_option(
          "--size",
          options.side,
          "Pixels of a side: unet's pictures, which 8 divides, 48; the shorter one of an image, 520")
      .check(samples::whole_within(8, 2048));
  command.add_option("--seed", options.seed, "Of all random numbers").check(samples::whole_number()).with_default();
  command.add_option("--image", options.mask.image, "JPEG or PNG to paint a mask of");
  command.add_option(
      "--weights", options.mask.weights, "torchvision's state dict, .safetensors or .npz; without it, random");
  command.add_option("--classes", options.mask.classes, "Classes that the weights know")
      .check(samples::whole_within(1, 256))
      .with_default();
  command.add_option("--steps", options.shapes.steps, "Training steps")
      .check(samples::whole_within(1, 1'000'000))
      .with_default();
  command.add_option("--batch", options.shapes.batch, "Pictures in a batch")
      .check(samples::whole_within(1, 4096))
      .with_default();
  command.add_option("--channels", options.shapes.channels, "Channels at the first level")
      .check(samples::whole_within(1, 256))
      .with_default();
  command.add_option("--lr", options.shapes.learning_rate, "Learning rate")
      .check(samples::finite_within({.low = 0, .high = 1}))
      .with_default();
}

// What would do nothing is told.
void judge(const samples::CommandLine& command, const Options& options) {
  const bool trains = options.model == "unet";
  if (!trains && !command.given("--image"))
    samples::CommandLine::refuse("--model", options.model + " needs --image");
  const auto refuse = [&](const char* flag, const std::string& why) {
    if (command.given(flag))
      samples::CommandLine::refuse(flag, why);
  };
  for (const char* flag : k_of_training) {
    if (!trains)
      refuse(flag, "only unet is trained here, not " + options.model);
  }
  for (const char* flag : k_of_masks) {
    if (trains)
      refuse(flag, "unet sees pictures that are drawn here; --model takes another network");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  samples::CommandLine command(
      "Paints which class each pixel of an image belongs to (DeepLabV3), or trains a UNet on discs and squares.");
  add_flags(command, options);
  command.when_parsed([&] { judge(command, options); });
  return samples::run_main(command, argc, argv, [&] { return run(options, command.given("--size")); });
}
