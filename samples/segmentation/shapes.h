#pragma once

#include <cstdint>
#include <filesystem>

#include <sluice/engine/device.h>

namespace samples {

struct ShapesOptions {
  sluice::Device device;
  std::int64_t steps = 150, batch = 8, side = 48, channels = 8;
  double learning_rate = 1e-2;
  std::uint64_t seed = 1;
};

/// A UNet learns which pixels belong to discs and which to squares, on pictures that are drawn here, and paints what it
/// sees: the picture, what is there and what it says of it, side by side, a PNG. Throws Interrupted.
void paint_shapes(const ShapesOptions& options, const std::filesystem::path& output);

}  // namespace samples
