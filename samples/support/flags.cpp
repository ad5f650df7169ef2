#include "samples/support/flags.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>

#include <fmt/format.h>

#include <sluice/engine/error.h>

namespace samples {

using namespace sluice;

void add_device_flag(CLI::App& app, Device& device) {
  const auto read = [&device](const std::string& text) {
    try {
      device = parse_device(text);
    } catch (const Error& error) {
      const std::string said = error.message(), doubled = "device: ";
      throw CLI::ValidationError("--device", said.starts_with(doubled) ? said.substr(doubled.size()) : said);
    }
  };
  app.add_option_function<std::string>("--device", read, "cpu, gpu or gpu:N (default: the first GPU if there is one)")
      ->type_name("DEVICE");
}

CLI::Validator whole_number() {
  const auto check = [](std::string& text) -> std::string {
    std::uint64_t value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool holds = status == std::errc() && end == text.data() + text.size();
    return holds ? std::string() : text + " is not a whole number from 0 to 18446744073709551615";
  };
  return CLI::Validator(check, "whole number");
}

CLI::Validator whole_within(std::int64_t low, std::int64_t high) {
  const std::string what = fmt::format("whole number from {} to {}", low, high);
  const auto check = [low, high, what](std::string& text) -> std::string {
    std::int64_t value = 0;
    const bool holds = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
    return holds ? std::string() : text + " is not a " + what;
  };
  return CLI::Validator(check, what);
}

CLI::Validator a_name() {
  const auto check = [](std::string& text) { return text.empty() ? std::string("the name is empty") : std::string(); };
  return CLI::Validator(check, "name");
}

CLI::Validator finite_within(Span span) {
  const std::string range =
      span.high == std::numeric_limits<double>::max()
          ? fmt::format("{} {}", span.open_low ? "above" : "of at least", span.low)
          : fmt::format("in {}{}, {}{}", span.open_low ? '(' : '[', span.low, span.high, span.open_high ? ')' : ']');
  const auto check = [span, range](std::string& text) -> std::string {
    double value = 0;
    const bool holds = CLI::detail::lexical_cast(text, value) && std::isfinite(value) &&
                       (span.open_low ? value > span.low : value >= span.low) &&
                       (span.open_high ? value < span.high : value <= span.high);
    return holds ? std::string() : fmt::format("{} is not a number {}", text, range);
  };
  return CLI::Validator(check, fmt::format("number {}", range));
}

}  // namespace samples
