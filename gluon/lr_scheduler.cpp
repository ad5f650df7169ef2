#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include <sluice/engine/error.h>
#include <sluice/gluon/lr_scheduler.h>

namespace sluice::gluon::lr_scheduler {

namespace {

void require_rate(double rate, std::string_view schedule, std::string_view what) {
  require(std::isfinite(rate) && rate >= 0, [&] {
    return message(schedule, ": ", what, " is ", rate, ", it must be finite and at least 0");
  });
}

void require_warmup(const Warmup& warmup, double base_lr, std::string_view schedule) {
  require_rate(base_lr, schedule, "base_lr");
  require_rate(warmup.begin_lr, schedule, "the first rate of warming up");
  require(warmup.steps >= 0, [&] {
    return message(schedule, ": ", warmup.steps, " steps of warming up; there can be none, or some");
  });
  require(warmup.steps == 0 || warmup.begin_lr <= base_lr, [&] {
    return message(schedule, ": warming up from ", warmup.begin_lr, " to ", base_lr, " would be cooling down");
  });
}

void require_factor(double factor, std::string_view schedule) {
  require(factor >= 0 && factor <= 1, [&] {
    return message(schedule, ": factor is ", factor, ", it must be from 0 to 1, lest rates grow");
  });
}

/// A schedule that ends somewhere has steps until then.
void require_end(std::int64_t max_update, const Warmup& warmup, std::string_view schedule) {
  require(max_update > warmup.steps, [&] {
    return message(schedule, ": max_update ", max_update, " is no more than the ", warmup.steps, " of warming up");
  });
}

double warming_up(const Warmup& warmup, double base_lr, std::int64_t number) {
  if (warmup.mode == Warmup::Mode::constant)
    return warmup.begin_lr;
  return warmup.begin_lr +
         (base_lr - warmup.begin_lr) * static_cast<double>(number) / static_cast<double>(warmup.steps);
}

/// Which part of the steps after warming up is over: from 0 to 1.
double part_of(std::int64_t number, std::int64_t max_update, const Warmup& warmup) {
  return static_cast<double>(std::min(number, max_update) - warmup.steps) /
         static_cast<double>(max_update - warmup.steps);
}

/// From `begin` to `end` by half a cosine, or straight.
double between(double begin, double end, double part, bool straight) {
  if (straight)
    return begin + (end - begin) * part;
  return end + (begin - end) / 2 * (1 + std::cos(std::numbers::pi * part));
}

}  // namespace

FactorScheduler::FactorScheduler(FactorOptions options) : options_(options) {
  require_warmup(options_.warmup, options_.base_lr, "FactorScheduler");
  require_factor(options_.factor, "FactorScheduler");
  require_rate(options_.stop_factor_lr, "FactorScheduler", "stop_factor_lr");
  require(options_.step > 0, [&] {
    return message("FactorScheduler: the rate cannot change each ", options_.step, " steps");
  });
}

double FactorScheduler::operator()(std::int64_t number) const {
  if (number < options_.warmup.steps)
    return warming_up(options_.warmup, options_.base_lr, number);
  const std::int64_t times = std::max<std::int64_t>(number - 1, 0) / options_.step;
  const double rate = options_.base_lr * std::pow(options_.factor, static_cast<double>(times));
  return times == 0 ? rate : std::max(rate, options_.stop_factor_lr);
}

MultiFactorScheduler::MultiFactorScheduler(MultiFactorOptions options) : options_(std::move(options)) {
  require_warmup(options_.warmup, options_.base_lr, "MultiFactorScheduler");
  require_factor(options_.factor, "MultiFactorScheduler");
  require(!options_.step.empty(), [] { return "MultiFactorScheduler: needs steps after which the rate changes"; });
  for (std::size_t i = 0; i < options_.step.size(); ++i) {
    require(options_.step[i] > (i == 0 ? 0 : options_.step[i - 1]), [&] {
      return message("MultiFactorScheduler: steps ascend from 1 on, and ", options_.step[i], " does not");
    });
  }
}

double MultiFactorScheduler::operator()(std::int64_t number) const {
  if (number < options_.warmup.steps)
    return warming_up(options_.warmup, options_.base_lr, number);
  const auto passed = std::lower_bound(options_.step.begin(), options_.step.end(), number) - options_.step.begin();
  return options_.base_lr * std::pow(options_.factor, static_cast<double>(passed));
}

PolyScheduler::PolyScheduler(PolyOptions options) : options_(options) {
  require_warmup(options_.warmup, options_.base_lr, "PolyScheduler");
  require_rate(options_.final_lr, "PolyScheduler", "final_lr");
  require_end(options_.max_update, options_.warmup, "PolyScheduler");
  require(std::isfinite(options_.pwr) && options_.pwr >= 0, [&] {
    return message("PolyScheduler: pwr is ", options_.pwr, ", it must be finite and at least 0");
  });
}

double PolyScheduler::operator()(std::int64_t number) const {
  if (number < options_.warmup.steps)
    return warming_up(options_.warmup, options_.base_lr, number);
  if (number >= options_.max_update)
    return options_.final_lr;
  const double left = 1 - part_of(number, options_.max_update, options_.warmup);
  return options_.final_lr + (options_.base_lr - options_.final_lr) * std::pow(left, options_.pwr);
}

CosineScheduler::CosineScheduler(CosineOptions options) : options_(options) {
  require_warmup(options_.warmup, options_.base_lr, "CosineScheduler");
  require_rate(options_.final_lr, "CosineScheduler", "final_lr");
  require_end(options_.max_update, options_.warmup, "CosineScheduler");
}

double CosineScheduler::operator()(std::int64_t number) const {
  if (number < options_.warmup.steps)
    return warming_up(options_.warmup, options_.base_lr, number);
  if (number >= options_.max_update)
    return options_.final_lr;
  return between(options_.base_lr, options_.final_lr, part_of(number, options_.max_update, options_.warmup), false);
}

OneCycleScheduler::OneCycleScheduler(OneCycleOptions options) : options_(options) {
  require_rate(options_.max_lr, "OneCycleScheduler", "max_lr");
  require(options_.total_steps >= 2, [&] {
    return message("OneCycleScheduler: up and down take 2 steps at least, not ", options_.total_steps);
  });
  require(options_.pct_start >= 0 && options_.pct_start <= 1, [&] {
    return message("OneCycleScheduler: pct_start is ", options_.pct_start, ", a share is from 0 to 1");
  });
  const auto is_factor = [](double factor) { return std::isfinite(factor) && factor > 0; };
  require(is_factor(options_.div_factor) && is_factor(options_.final_div_factor), [&] {
    return message(
        "OneCycleScheduler: rates are divided by positive numbers, not by ",
        options_.div_factor,
        " and ",
        options_.final_div_factor);
  });
}

double OneCycleScheduler::operator()(std::int64_t number) const {
  const double first = options_.max_lr / options_.div_factor, last = first / options_.final_div_factor;
  const auto steps = static_cast<double>(options_.total_steps);
  const double at = std::min(static_cast<double>(number), steps) - 1, top = options_.pct_start * steps - 1;
  if (at <= top && top > 0)
    return between(first, options_.max_lr, at / top, options_.linear);
  const double down = steps - 1 - top;
  return between(options_.max_lr, last, down == 0 ? 1 : (at - top) / down, options_.linear);
}

ChainedScheduler::ChainedScheduler(std::vector<Part> parts) : parts_(std::move(parts)) {
  require(!parts_.empty(), [] { return "ChainedScheduler: needs schedules"; });
  for (const Part& part : parts_) {
    require(part.schedule != nullptr && part.steps >= 0, [&] {
      return message("ChainedScheduler: a part has no schedule, or a negative number of steps: ", part.steps);
    });
  }
}

double ChainedScheduler::operator()(std::int64_t number) const {
  for (std::size_t i = 0; i + 1 < parts_.size(); ++i) {
    if (number <= parts_[i].steps)
      return parts_[i].schedule(number);
    number -= parts_[i].steps;
  }
  return parts_.back().schedule(number);
}

}  // namespace sluice::gluon::lr_scheduler
