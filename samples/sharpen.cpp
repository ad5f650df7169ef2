// Sharpens a PNG by a 3x3 convolution: the centre five times, less its four neighbours. Alpha stays as it is.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sluice/operator/conv/conv.h>
#include <sluice/sluice.h>

#include "samples/support/flags.h"
#include "samples/support/png_image.h"
#include "samples/support/run_main.h"

namespace {

using namespace sluice;

// The colour channels as planes (C, 1, H + 2, W + 2); the rim repeats the outermost pixels.
NDArray padded_planes(const samples::Image& image, std::int64_t colours, Device device) {
  const std::int64_t height = image.height + 2, width = image.width + 2;
  std::vector<std::uint8_t> planes(static_cast<std::size_t>(colours * height * width));
  std::size_t next = 0;
  for (std::int64_t c = 0; c < colours; ++c) {
    for (std::int64_t y = 0; y < height; ++y) {
      const std::int64_t row = std::clamp<std::int64_t>(y - 1, 0, image.height - 1) * image.width;
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t column = std::clamp<std::int64_t>(x - 1, 0, image.width - 1);
        planes[next++] = image.pixels[static_cast<std::size_t>((row + column) * image.channels + c)];
      }
    }
  }
  return array(planes, {colours, 1, height, width}, device).astype(float32);
}

samples::Image sharpened(const samples::Image& image, Device device) {
  const std::int64_t colours = image.channels >= 3 ? 3 : 1;
  const NDArray kernel = array<float>({0, -1, 0, -1, 5, -1, 0, -1, 0}, {1, 1, 3, 3}, device);
  const NDArray sharp = convolution(padded_planes(image, colours, device), kernel, NDArray());
  const NDArray bytes = minimum(maximum(sharp, 0), 255).astype(uint8);
  const std::vector<std::uint8_t> planes = bytes.to_vector<std::uint8_t>();
  samples::Image result = image;
  const std::int64_t pixels = image.height * image.width;
  for (std::int64_t c = 0; c < colours; ++c) {
    for (std::int64_t i = 0; i < pixels; ++i)
      result.pixels[static_cast<std::size_t>(i * image.channels + c)] =
          planes[static_cast<std::size_t>(c * pixels + i)];
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  Device device = num_gpus() > 0 ? gpu(0) : cpu();
  std::string input, output;
  samples::CommandLine command(
      "Sharpens an image by a 3x3 convolution: PNG in, PNG out; grey or RGB, with or without alpha.");
  command.add_device_flag(device);
  command.add_option("input", input, "The PNG to read").required();
  command.add_option("output", output, "The PNG to write").required();
  return samples::run_main(command, argc, argv, [&] {
    const samples::Image image = samples::read_png(input);
    samples::write_png(output, sharpened(image, device));
    fmt::print(
        "{}: {} x {}, {} channel(s), sharpened on {}\n",
        output,
        image.width,
        image.height,
        image.channels,
        to_string(device));
    return 0;
  });
}
