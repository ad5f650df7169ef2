// Runs an exported network over images: PREFIX.json and PREFIX.npz, as `mlp --export PREFIX` writes them.
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sluice/sluice.h>

#include "samples/support/flags.h"
#include "samples/support/run_main.h"
#include "samples/support/terminal.h"

namespace {

using namespace sluice;
using gluon::SymbolArray;
using gluon::SymbolBlock;

struct Options {
  Device device = num_gpus() > 0 ? gpu(0) : cpu();
  std::string network, images;
  std::int64_t batch_size = 64;
  std::size_t top = 3;
};

bool is_image(const std::filesystem::path& file) {
  const std::filesystem::path ending = file.extension();
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

std::vector<std::filesystem::path> images_of(const std::filesystem::path& place) {
  if (!std::filesystem::is_directory(place))
    return {place};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(place)) {
    if (is_image(entry.path()))
      files.push_back(entry.path());
  }
  require<FileError>(
      !files.empty(), [&] { return message(place.string(), ": no file in there ends in .png, .jpg or .jpeg"); });
  std::sort(files.begin(), files.end());
  return files;
}

// What the network takes: (N, 1 or 3, height, width) of float32.
SymbolArray image_input(const SymbolBlock& net, const std::string& file) {
  const std::vector<SymbolArray> inputs = net.inputs();
  const bool fits = inputs.size() == 1 && inputs[0].dtype == float32 && inputs[0].shape.ndim() == 4 &&
                    (inputs[0].shape[1] == 1 || inputs[0].shape[1] == 3);
  require(fits, [&] { return message(file, ": is no network of images: it does not take one (N, 1 or 3, H, W)"); });
  return inputs[0];
}

// Planes of numbers from 0 to 1, as ToTensor() makes them; colours become grey, and grey three equal colours.
void append_planes(const std::filesystem::path& path, const Shape& wanted, std::vector<float>& to) {
  const NDArray image = image::imread(path, {.channels = 0, .orient = true});
  const std::int64_t height = image.shape()[0], width = image.shape()[1], channels = image.shape()[2];
  require<FileError>(height == wanted[2] && width == wanted[3], [&] {
    return message(
        path.string(), ": has ", height, " x ", width, " pixels, the network takes ", wanted[2], " x ", wanted[3]);
  });
  const std::vector<std::uint8_t> values = image.to_vector<std::uint8_t>();
  const std::int64_t pixels = height * width, has = channels >= 3 ? 3 : 1;
  for (std::int64_t channel = 0; channel < wanted[1]; ++channel) {
    for (std::int64_t i = 0; i < pixels; ++i) {
      const std::uint8_t* const pixel = &values[static_cast<std::size_t>(i * channels)];
      const bool is_mixed = has == 3 && wanted[1] == 1;
      const float value = is_mixed ? 0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2]
                                   : static_cast<float>(pixel[has == 3 ? channel : 0]);
      to.push_back(value / 255);
    }
  }
}

std::string class_name(const std::vector<std::string>& names, std::size_t number) {
  return number < names.size() ? names[number] : fmt::format("class {}", number);
}

// "a.png: Sneaker 0.9312, Sandal 0.0500": the most probable ones.
std::string line_of(
    const std::filesystem::path& path,
    const float* row,
    std::size_t classes,
    const Options& options,
    const std::vector<std::string>& names) {
  std::vector<std::size_t> order(classes);
  for (std::size_t i = 0; i < classes; ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
  std::string line;
  for (std::size_t i = 0; i < std::min(options.top, classes); ++i)
    line += fmt::format("{} {} {:.4f}", i == 0 ? ":" : ",", class_name(names, order[i]), row[order[i]]);
  return path.filename().string() + line;
}

int infer(const Options& options) {
  const std::filesystem::path file = options.network.ends_with(".json") ? options.network : options.network + ".json";
  const SymbolBlock net = SymbolBlock::imports(file, {}, {}, options.device);
  const SymbolArray input = image_input(net, file.string());
  const std::vector<std::filesystem::path> files = images_of(options.images);
  std::vector<std::string> names;
  if (const auto found = net.notes().find("classes"); found != net.notes().end()) {
    std::istringstream lines(found->second);
    for (std::string name; std::getline(lines, name);)
      names.push_back(name);
  }
  // A network that takes no other batch gets black images behind the last one.
  const std::int64_t rows = input.batch ? options.batch_size : std::max<std::int64_t>(input.shape[0], 1);
  for (std::size_t begin = 0; begin < files.size(); begin += static_cast<std::size_t>(rows)) {
    const std::size_t end = std::min(files.size(), begin + static_cast<std::size_t>(rows));
    Shape shape = input.shape;
    shape[0] = input.batch ? static_cast<std::int64_t>(end - begin) : rows;
    std::vector<float> planes;
    for (std::size_t i = begin; i < end; ++i)
      append_planes(files[i], shape, planes);
    planes.resize(static_cast<std::size_t>(shape.size()));
    const NDArray scores = net.call(Arrays{array(planes, shape, options.device)})[0];
    require(scores.ndim() == 2 && scores.shape()[0] == shape[0], [&] {
      return message(file.string(), ": gives ", scores.shape(), ", not (", shape[0], ", classes)");
    });
    const std::vector<float> chances = softmax(scores).astype(float32).to_vector<float>();
    const auto classes = static_cast<std::size_t>(scores.shape()[1]);
    for (std::size_t i = begin; i < end; ++i)
      samples::say(line_of(files[i], &chances[(i - begin) * classes], classes, options, names));
  }
  samples::say(fmt::format("{} image(s), on {}", files.size(), to_string(options.device)));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  samples::CommandLine command(
      "Runs an exported network (mlp --export PREFIX) on PNG or JPEG images: the likeliest classes.");
  command.add_device_flag(options.device);
  command.add_option("network", options.network, "PREFIX, or PREFIX.json, of the exported network").required();
  command.add_option("images", options.images, "A PNG or JPEG file, or a folder of them").required();
  command.add_option("--top", options.top, "How many classes an image")
      .check(samples::whole_within(1, 1000000))
      .with_default();
  command.add_option("--batch-size", options.batch_size, "Images at a time")
      .check(samples::whole_within(1, 100000))
      .with_default();
  return samples::run_main(command, argc, argv, [&] { return infer(options); });
}
