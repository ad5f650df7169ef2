#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/estimator/early_stopping.h>
#include <sluice/gluon/estimator/estimator.h>
#include <sluice/ndarray/create.h>

namespace sluice::gluon::estimator {

namespace {

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

bool larger_is_better(const MonitorOptions& options) {
  if (options.mode != MonitorMode::automatic)
    return options.mode == MonitorMode::max;
  constexpr std::array<std::string_view, 8> k_scores = {
      "acc", "f1", "fbeta", "mcc", "pcc", "pearson", "cos_sim", "top_k"};
  std::string name = options.monitor;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::any_of(
      k_scores.begin(), k_scores.end(), [&](std::string_view score) { return name.find(score) != std::string::npos; });
}

/// Three numbers, or none.
std::vector<double> three_of(const HandlerState& state, const char* entry, const std::string& monitor) {
  const auto found = state.find(entry);
  if (found == state.end())
    return {};
  require(found->second.dtype() == float64 && found->second.ndim() == 1 && found->second.size() == 3, [&] {
    return message("the state of what watches '", monitor, "' is not three numbers");
  });
  return found->second.to_vector<double>();
}

}  // namespace

Monitor::Monitor(MonitorOptions options)
    : options_(std::move(options)), larger_is_better_(estimator::larger_is_better(options_)) {
  require(std::isfinite(options_.min_delta) && options_.min_delta >= 0, [&] {
    return message(
        "'", options_.monitor, "' cannot have to be better by ", options_.min_delta, "; by 0 or more, and finite");
  });
}

void Monitor::begin(Estimator& estimator, std::optional<double> baseline) {
  estimator.figure(options_.monitor);  // is there
  require(!is_of_validation() || estimator.may_validate(), [&] {
    return message("'", options_.monitor, "' is watched, and nothing validates: give fit() FitOptions::validation");
  });
  best_ = baseline.value_or(k_nan);
  last_ = k_nan;
  validations_ = estimator.validations();  // those of an earlier fit are not looked at
}

bool Monitor::is_due(const Estimator& estimator, bool epoch_is_over) const {
  if (is_of_validation())
    return estimator.validations() != validations_;
  return epoch_is_over;
}

bool Monitor::would_be_better(double value) const noexcept {
  if (std::isnan(value) || std::isnan(best_))
    return !std::isnan(value);
  return larger_is_better_ ? value > best_ + options_.min_delta : value < best_ - options_.min_delta;
}

bool Monitor::is_better(Estimator& estimator) {
  last_ = estimator.figure(options_.monitor);
  validations_ = estimator.validations();
  const bool better = would_be_better(last_);
  if (better)
    best_ = last_;
  return better;
}

HandlerState Monitor::state() const {
  return {{"monitor", array<double>({best_, last_, static_cast<double>(validations_)})}};
}

void Monitor::load_state(const HandlerState& state) {
  const std::vector<double> numbers = three_of(state, "monitor", options_.monitor);
  require(numbers.empty() || (numbers[2] >= 0 && numbers[2] < 1e15), [&] {
    return message("the state of what watches '", options_.monitor, "' has seen ", numbers[2], " validations");
  });
  best_ = numbers.empty() ? k_nan : numbers[0];
  last_ = numbers.empty() ? k_nan : numbers[1];
  validations_ = numbers.empty() ? 0 : static_cast<std::int64_t>(numbers[2]);
}

EarlyStoppingHandler::EarlyStoppingHandler(EarlyStoppingOptions options)
    : options_(std::move(options)),
      monitor_({.monitor = options_.monitor, .mode = options_.mode, .min_delta = options_.min_delta}) {
  require(options_.patience >= 0, [&] {
    return message("EarlyStoppingHandler: a patience of ", options_.patience, " is less than none");
  });
  require(!options_.baseline || !std::isnan(*options_.baseline), [] {
    return "EarlyStoppingHandler: no figure is better than a baseline of nan";
  });
}

void EarlyStoppingHandler::train_begin(Estimator& estimator) {
  monitor_.begin(estimator, options_.baseline);
  waited_ = 0;
}

void EarlyStoppingHandler::train_resumed(Estimator& estimator) {
  if (waited_ > 0 && waited_ >= options_.patience)
    stop(estimator);
}

void EarlyStoppingHandler::batch_end(Estimator& estimator, const data::Batch& /*batch*/, const StepResult& /*result*/) {
  look(estimator, false);
}

void EarlyStoppingHandler::epoch_end(Estimator& estimator) {
  look(estimator, true);
}

void EarlyStoppingHandler::look(Estimator& estimator, bool epoch_is_over) {
  if (!monitor_.is_due(estimator, epoch_is_over))
    return;
  waited_ = monitor_.is_better(estimator) ? 0 : waited_ + 1;
  if (waited_ > 0 && waited_ >= options_.patience)
    stop(estimator);
}

void EarlyStoppingHandler::stop(Estimator& estimator) const {
  estimator.stop(message(
      monitor_.name(), " was ", monitor_.last(), ", no better than ", monitor_.best(), " for ", waited_, " times"));
}

HandlerState EarlyStoppingHandler::state() const {
  HandlerState state = monitor_.state();
  state.emplace("waited", array<std::int64_t>({waited_}));
  return state;
}

void EarlyStoppingHandler::load_state(const HandlerState& state) {
  const auto waited = state.find("waited");
  require(waited == state.end() || (waited->second.dtype() == int64 && waited->second.size() == 1), [] {
    return "EarlyStoppingHandler: the state does not say how long it waited";
  });
  const std::int64_t count = waited == state.end() ? 0 : waited->second.item<std::int64_t>();
  require(count >= 0 && count < std::int64_t{1} << 53, [&] {
    return message("EarlyStoppingHandler: it cannot have waited ", count, " times");
  });
  monitor_.load_state(state);
  waited_ = count;
}

}  // namespace sluice::gluon::estimator
