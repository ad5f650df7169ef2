#include "samples/support/flags.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sluice/engine/error.h>

namespace samples {

using namespace sluice;

Check whole_number() {
  const auto refusal = [](const std::string& text) {
    std::uint64_t value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool holds = status == std::errc() && end == text.data() + text.size();
    return holds ? std::string() : text + " is not a whole number from 0 to 18446744073709551615";
  };
  return {refusal, "whole number"};
}

Check whole_within(std::int64_t low, std::int64_t high) {
  const std::string what = fmt::format("whole number from {} to {}", low, high);
  const auto refusal = [low, high, what](const std::string& text) {
    std::int64_t value = 0;
    const bool holds = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
    return holds ? std::string() : text + " is not a " + what;
  };
  return {refusal, what};
}

Check a_name() {
  return {[](const std::string& text) { return std::string(text.empty() ? "the name is empty" : ""); }, "name"};
}

Check finite_within(Span span) {
  const std::string range =
      span.high == std::numeric_limits<double>::max()
          ? fmt::format("{} {}", span.open_low ? "above" : "of at least", span.low)
          : fmt::format("in {}{}, {}{}", span.open_low ? '(' : '[', span.low, span.high, span.open_high ? ')' : ']');
  const auto refusal = [span, range](const std::string& text) {
    double value = 0;
    const bool holds = CLI::detail::lexical_cast(text, value) && std::isfinite(value) &&
                       (span.open_low ? value > span.low : value >= span.low) &&
                       (span.open_high ? value < span.high : value <= span.high);
    return holds ? std::string() : fmt::format("{} is not a number {}", text, range);
  };
  return {refusal, fmt::format("number {}", range)};
}

Flag& Flag::check(Check check) {
  option_.check(CLI::Validator(std::move(check.refusal), std::move(check.what)));
  return *this;
}

Flag& Flag::one_of(std::vector<std::string> words) {
  option_.check(CLI::IsMember(std::move(words)));
  return *this;
}

Flag& Flag::several(int least, int most) {
  option_.expected(least, most)->delimiter(',');
  return *this;
}

Flag& Flag::required() {
  option_.required();
  return *this;
}

Flag& Flag::needs(const std::string& other) {
  option_.needs(other);
  return *this;
}

Flag& Flag::excludes(const std::string& other) {
  option_.excludes(other);
  return *this;
}

Flag& Flag::value_name(const std::string& name) {
  option_.type_name(name);
  return *this;
}

Flag& Flag::with_default() {
  option_.capture_default_str();
  return *this;
}

CommandLine::CommandLine(const std::string& about) : app_(std::make_unique<CLI::App>(about)) {}

CommandLine::~CommandLine() = default;

template <class T>
Flag CommandLine::add_option(const std::string& name, T& value, const std::string& about) {
  return Flag(*app_->add_option(name, value, about));
}
template Flag CommandLine::add_option(const std::string&, int&, const std::string&);
template Flag CommandLine::add_option(const std::string&, std::int64_t&, const std::string&);
template Flag CommandLine::add_option(const std::string&, std::uint16_t&, const std::string&);
template Flag CommandLine::add_option(const std::string&, unsigned&, const std::string&);
template Flag CommandLine::add_option(const std::string&, std::uint64_t&, const std::string&);
template Flag CommandLine::add_option(const std::string&, double&, const std::string&);
template Flag CommandLine::add_option(const std::string&, std::string&, const std::string&);
template Flag CommandLine::add_option(const std::string&, std::filesystem::path&, const std::string&);
template Flag CommandLine::add_option(const std::string&, std::optional<double>&, const std::string&);
template Flag CommandLine::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Flag CommandLine::add_option(const std::string&, std::vector<int>&, const std::string&);

Flag CommandLine::add_flag(const std::string& name, bool& value, const std::string& about) {
  return Flag(*app_->add_flag(name, value, about));
}

void CommandLine::add_device_flag(Device& device) {
  const auto read = [&device](const std::string& text) {
    try {
      device = parse_device(text);
    } catch (const Error& error) {
      const std::string said = error.message(), doubled = "device: ";
      refuse("--device", said.starts_with(doubled) ? said.substr(doubled.size()) : said);
    }
  };
  app_->add_option_function<std::string>("--device", read, "cpu, gpu or gpu:N (default: the first GPU if there is one)")
      ->type_name("DEVICE");
}

Flag CommandLine::flag(const std::string& name) {
  return Flag(*app_->get_option(name));
}

void CommandLine::when_parsed(std::function<void()> judge) {
  app_->parse_complete_callback(std::move(judge));
}

void CommandLine::refuse(const std::string& flag, const std::string& why) {
  throw CLI::ValidationError(flag, why);
}

std::optional<int> CommandLine::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? 0 : 2;
  }
}

bool CommandLine::has(const std::string& name) const {
  return app_->get_option_no_throw(name) != nullptr;
}

bool CommandLine::given(const std::string& name) const {
  return app_->get_option(name)->count() > 0;
}

std::optional<std::string> CommandLine::give(const std::string& name, const std::string& text) {
  CLI::Option* option = app_->get_option(name);
  try {
    option->add_result(text);
    option->run_callback();
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
}

}  // namespace samples
