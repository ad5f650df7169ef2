#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include <CLI/CLI.hpp>

#include <sluice/engine/device.h>

namespace samples {

/// Gives `app` the flag --device, which sets `device`.
void add_device_flag(CLI::App& app, sluice::Device& device);

/// Takes whole numbers from `low` to `high`, and says so.
CLI::Validator whole_within(std::int64_t low, std::int64_t high);

/// Takes what std::uint64_t holds; CLI11 alone wraps -1 round.
CLI::Validator whole_number();

/// Refuses "", which an unset variable of a shell leaves.
CLI::Validator a_name();

/// Ends of a range of numbers; an open one does not belong to it.
struct Span {
  double low = 0, high = std::numeric_limits<double>::max();
  bool open_low = false, open_high = false;
};
/// Takes finite numbers within the span; CLI11's own checks let NaN through.
CLI::Validator finite_within(Span span);

}  // namespace samples
