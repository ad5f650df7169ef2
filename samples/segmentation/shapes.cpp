#include "samples/segmentation/shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sluice/sluice.h>

#include "samples/support/interrupt.h"
#include "samples/support/png_image.h"

namespace samples {

using namespace sluice;

namespace {

enum Class : std::int32_t { k_ground, k_disc, k_square, k_classes };

/// Pictures (N, 3, side, side) and the class of each pixel (N, side, side).
struct Batch {
  NDArray pictures, classes;
};

/// Draws some shapes in each picture, in any colour, on noise.
class Painter {
 public:
  Painter(std::int64_t side, std::uint64_t seed) : side_(side), draw_(seed) {}

  Batch paint(std::int64_t count, Device device) {
    const std::int64_t pixels = side_ * side_;
    std::vector<float> colours(static_cast<std::size_t>(count * 3 * pixels));
    std::vector<std::int32_t> classes(static_cast<std::size_t>(count * pixels), k_ground);
    for (float& colour : colours)
      colour = static_cast<float>(within(0, 0.4));
    for (std::int64_t i = 0; i < count; ++i) {
      for (int shape = 0; shape < 3; ++shape)
        add_shape(&colours[static_cast<std::size_t>(i * 3 * pixels)], &classes[static_cast<std::size_t>(i * pixels)]);
    }
    return {array(colours, {count, 3, side_, side_}, device), array(classes, {count, side_, side_}, device)};
  }

 private:
  double within(double low, double high) { return low + static_cast<double>(draw_() >> 11) * 0x1p-53 * (high - low); }

  void add_shape(float* colours, std::int32_t* classes) {
    const std::int32_t what = draw_() % 2 == 0 ? k_disc : k_square;
    const double size = static_cast<double>(side_), radius = within(0.12, 0.25) * size;
    const double x0 = within(0, size), y0 = within(0, size);
    const std::array<double, 3> colour{within(0.3, 1), within(0.3, 1), within(0.3, 1)};
    for (std::int64_t y = 0; y < side_; ++y) {
      for (std::int64_t x = 0; x < side_; ++x) {
        const double dx = std::abs(static_cast<double>(x) - x0), dy = std::abs(static_cast<double>(y) - y0);
        if (what == k_disc ? std::hypot(dx, dy) > radius : std::max(dx, dy) > radius * 0.85)
          continue;
        classes[y * side_ + x] = what;
        for (std::int64_t channel = 0; channel < 3; ++channel)
          colours[(channel * side_ + y) * side_ + x] =
              static_cast<float>(colour[static_cast<std::size_t>(channel)] + within(-0.2, 0.2));
      }
    }
  }

  std::int64_t side_;
  std::mt19937_64 draw_;
};

void train(const gluon::Block& net, Painter& painter, const ShapesOptions& options) {
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::Adam({.learning_rate = options.learning_rate}));
  // Down at the end: running statistics are those of other weights otherwise.
  trainer.set_schedule(gluon::lr_scheduler::CosineScheduler(
      {.max_update = options.steps, .base_lr = options.learning_rate, .final_lr = options.learning_rate / 100}));
  const gluon::loss::SoftmaxCrossEntropyLoss cost({.axis = 1});
  gluon::TrainStep step(net, cost, trainer);
  gluon::metric::Loss mean_loss;
  const std::int64_t every = std::max<std::int64_t>(options.steps / 5, 1);
  for (std::int64_t i = 1; i <= options.steps; ++i) {
    const Batch batch = painter.paint(options.batch, options.device);
    mean_loss.update(step(batch.pictures, batch.classes).losses);
    end_if_interrupted();
    if (i % every == 0 || i == options.steps) {
      fmt::print("step {:4}: loss {:.3f}\n", i, mean_loss.get().second);
      std::fflush(stdout);
      mean_loss.reset();
    }
  }
}

/// Of each class the pixels that are and are said to be it, by those that are or are said to be.
void print_quality(const std::vector<std::int32_t>& is, const std::vector<std::int32_t>& said) {
  std::array<std::int64_t, k_classes> both{}, any{};
  std::int64_t right = 0;
  for (std::size_t i = 0; i < is.size(); ++i) {
    right += is[i] == said[i] ? 1 : 0;
    both[static_cast<std::size_t>(is[i])] += is[i] == said[i] ? 1 : 0;
    ++any[static_cast<std::size_t>(is[i])];
    any[static_cast<std::size_t>(said[i])] += is[i] == said[i] ? 0 : 1;
  }
  const auto share = [](std::int64_t part, std::int64_t all) {
    return all == 0 ? 1.0 : static_cast<double>(part) / static_cast<double>(all);
  };
  fmt::print(
      "new pictures: {:.1f} % of pixels right; intersection over union: ground {:.3f}, discs {:.3f}, squares {:.3f}\n",
      100 * share(right, static_cast<std::int64_t>(is.size())),
      share(both[k_ground], any[k_ground]),
      share(both[k_disc], any[k_disc]),
      share(both[k_square], any[k_square]));
}

/// A row a picture: it, what is there, what is said.
Image painted(const NDArray& pictures, const std::vector<std::int32_t>& is, const std::vector<std::int32_t>& said) {
  constexpr std::array<std::array<std::uint8_t, 3>, k_classes> colours = {{{0, 0, 0}, {240, 160, 40}, {60, 140, 240}}};
  const std::int64_t count = pictures.shape()[0], side = pictures.shape()[2];
  Image image{count * side, 3 * side, 3, {}};
  image.pixels.resize(static_cast<std::size_t>(image.height * image.width * 3));
  const std::vector<std::uint8_t> seen =
      clip(pictures * 255, 0, 255).astype(uint8).transpose({0, 2, 3, 1}).to_vector<std::uint8_t>();
  for (std::int64_t row = 0; row < image.height; ++row) {
    for (std::int64_t x = 0; x < side; ++x) {
      const auto pixel = static_cast<std::size_t>(row * side + x);
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const auto at = [&](std::int64_t column) -> std::uint8_t& {
          return image.pixels[static_cast<std::size_t>((row * image.width + column) * 3) + channel];
        };
        at(x) = seen[pixel * 3 + channel];
        at(side + x) = colours[static_cast<std::size_t>(is[pixel])][channel];
        at(2 * side + x) = colours[static_cast<std::size_t>(said[pixel])][channel];
      }
    }
  }
  return image;
}

}  // namespace

void paint_shapes(const ShapesOptions& options, const std::filesystem::path& output) {
  gluon::model_zoo::segmentation::UNet net({.classes = k_classes, .channels = options.channels, .levels = 3});
  net.initialize(gluon::init::Xavier(), options.device);
  fmt::print("pictures of {0} x {0}; on {1}\n", options.side, to_string(options.device));
  Painter painter(options.side, options.seed);
  train(net, painter, options);
  const Batch fresh = Painter(options.side, options.seed + 1).paint(4, options.device);
  const std::vector<std::int32_t> is = fresh.classes.to_vector<std::int32_t>();
  const std::vector<std::int32_t> said = argmax(net(fresh.pictures), 1).astype(int32).to_vector<std::int32_t>();
  print_quality(is, said);
  write_png(output, painted(fresh.pictures, is, said));
  fmt::print("{}: pictures, what is there, what the network says\n", output.string());
}

}  // namespace samples
