#include "tests/bench/support/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <type_traits>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <sluice/engine/error.h>

namespace sluice::bench {

template <class T>
Flag& Flag::range(T least, T most) {
  option_.check(CLI::Range(least, most));
  return *this;
}
template Flag& Flag::range(int least, int most);
template Flag& Flag::range(double least, double most);

Flag& Flag::one_of(std::vector<std::string> words) {
  option_.check(CLI::IsMember(std::move(words)));
  return *this;
}

Flag& Flag::exists() {
  option_.check(CLI::ExistingPath);
  return *this;
}

Flag& Flag::with_default() {
  option_.capture_default_str();
  return *this;
}

Report::Report(std::string name, std::string about)
    : name_(std::move(name)), app_(std::make_unique<CLI::App>(std::move(about))) {
  app_->add_option("--json", options_.json, "Write the measurements to this file too");
  app_->add_option("--filter", options_.filter, "Only workloads and variants that contain this");
  app_->add_option("--repeats", options_.repeats, "Timed blocks; the median is reported")->check(CLI::Range(1, 1000));
  app_->add_option("--device", options_.device_name, "cpu, gpu or gpu:N");
  app_->add_flag("--smoke", options_.smoke, "Tiny sizes: checks results, times mean nothing");
}

Report::~Report() = default;

template <class T>
Flag Report::flag(const std::string& name, T& value, const std::string& about) {
  if constexpr (std::is_same_v<T, bool>)
    return Flag(*app_->add_flag(name, value, about));
  else
    return Flag(*app_->add_option(name, value, about));
}
template Flag Report::flag(const std::string& name, bool& value, const std::string& about);
template Flag Report::flag(const std::string& name, int& value, const std::string& about);
template Flag Report::flag(const std::string& name, unsigned& value, const std::string& about);
template Flag Report::flag(const std::string& name, std::int64_t& value, const std::string& about);
template Flag Report::flag(const std::string& name, double& value, const std::string& about);
template Flag Report::flag(const std::string& name, std::string& value, const std::string& about);
template Flag Report::flag(const std::string& name, std::vector<int>& value, const std::string& about);
template Flag Report::flag(const std::string& name, std::vector<double>& value, const std::string& about);

bool Report::given(const std::string& name) const {
  return app_->get_option(name)->count() > 0;
}

bool Report::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
    options_.device = parse_device(options_.device_name);
    return true;
  } catch (const CLI::ParseError& error) {
    exit_code_ = app_->exit(error);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", name_.c_str(), error.what());
    exit_code_ = 2;
  }
  return false;
}

bool Report::wants(std::string_view workload, std::string_view variant) const {
  return std::string(workload).append(" ").append(variant).find(options_.filter) != std::string::npos;
}

Timing Report::time(
    int steps, int warmup, const std::function<void()>& step, const std::function<void()>& finish) const {
  using Clock = std::chrono::steady_clock;
  const int repeats = options_.smoke ? 2 : options_.repeats;
  if (options_.smoke)
    steps = warmup = 1;
  for (int i = 0; i < warmup; ++i)
    step();
  finish();
  std::vector<double> seconds, computed;
  for (int r = 0; r < repeats; ++r) {
    const std::clock_t used = std::clock();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < steps; ++i)
      step();
    finish();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count() / steps);
    computed.push_back(static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC / steps);
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), *std::min_element(computed.begin(), computed.end())};
}

void Report::add(
    const std::string& workload,
    const std::string& variant,
    const std::string& metric,
    double value,
    const std::string& unit,
    double best) {
  std::printf("%-16s %-28s %-18s %12.4f %s\n", workload.c_str(), variant.c_str(), metric.c_str(), value, unit.c_str());
  std::fflush(stdout);
  lines_.push_back({workload, variant, metric, value, unit, best});
}

void Report::expect(bool good, const std::string& what) {
  if (good)
    return;
  std::fprintf(stderr, "%s: WRONG RESULT: %s\n", name_.c_str(), what.c_str());
  exit_code_ = 1;
}

int Report::finish() {
  if (options_.json.empty())
    return exit_code_;
  nlohmann::json measurements = nlohmann::json::array();
  for (const Line& line : lines_) {
    nlohmann::json entry = {
        {"workload", line.workload},
        {"variant", line.variant},
        {"metric", line.metric},
        {"value", line.value},
        {"unit", line.unit}};
    if (line.best != 0)
      entry["best"] = line.best;
    measurements.push_back(std::move(entry));
  }
  std::ofstream file(options_.json);
  file << nlohmann::json{{"benchmark", name_}, {"device", options_.device_name}, {"measurements", measurements}}.dump(2)
       << "\n";
  if (!file.flush()) {
    std::fprintf(stderr, "%s: cannot write '%s'\n", name_.c_str(), options_.json.c_str());
    exit_code_ = 2;
  }
  return exit_code_;
}

}  // namespace sluice::bench
