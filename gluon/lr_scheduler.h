#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>

/// Learning rates by steps (Gluon's lr_scheduler): functions of the number of a step, counted from 1, without a state
/// of their own, so that training goes on from saved optimizer states as if it had not stopped. Trainer::set_schedule()
/// takes one; a lambda will do. Constructors throw ValueError for rates that are negative or not finite and for numbers
/// of steps that are negative (or 0, where it says how many).
namespace sluice::gluon::lr_scheduler {

/// Anything that gives the learning rate of step `number`: finite and not negative.
using Schedule = std::function<double(std::int64_t number)>;

/// The first steps, before the schedule itself begins: those with a number below `steps`.
struct Warmup {
  enum class Mode : std::uint8_t {
    linear,    // from begin_lr to the schedule's first rate
    constant,  // begin_lr
  };
  std::int64_t steps = 0;
  double begin_lr = 0;
  Mode mode = Mode::linear;
};

/// Of FactorScheduler.
struct FactorOptions {
  std::int64_t step = 1;  // steps between changes
  double factor = 1;
  double base_lr = 0.01;
  double stop_factor_lr = 1e-8;  // rates are this at least
  Warmup warmup = {};
};

/// base_lr * factor^k after k times `step` steps (Gluon's FactorScheduler): the first `step` steps have base_lr.
class SLUICE_API FactorScheduler {
 public:
  /// Throws ValueError for a factor above 1, too.
  explicit FactorScheduler(FactorOptions options);
  double operator()(std::int64_t number) const;

 private:
  FactorOptions options_;
};

/// Of MultiFactorScheduler.
struct MultiFactorOptions {
  std::vector<std::int64_t> step = {};  // after these steps the rate changes
  double factor = 1;
  double base_lr = 0.01;
  Warmup warmup = {};
};

/// base_lr * factor^k after k of the numbers in `step` (Gluon's MultiFactorScheduler, torch's MultiStepLR).
class SLUICE_API MultiFactorScheduler {
 public:
  /// Throws ValueError for a factor above 1, for no steps and for steps that do not ascend, too.
  explicit MultiFactorScheduler(MultiFactorOptions options);
  double operator()(std::int64_t number) const;

 private:
  MultiFactorOptions options_;
};

/// Of PolyScheduler.
struct PolyOptions {
  std::int64_t max_update = 1;  // from this step on the rate is final_lr
  double base_lr = 0.01;
  double pwr = 2;
  double final_lr = 0;
  Warmup warmup = {};
};

/// final_lr + (base_lr - final_lr) (1 - n / N)^pwr with n steps after warming up and N of them until max_update
/// (Gluon's PolyScheduler).
class SLUICE_API PolyScheduler {
 public:
  /// Throws ValueError unless max_update is more than the steps of warming up, and for a pwr below 0, too.
  explicit PolyScheduler(PolyOptions options);
  double operator()(std::int64_t number) const;

 private:
  PolyOptions options_;
};

/// Of CosineScheduler.
struct CosineOptions {
  std::int64_t max_update = 1;  // from this step on the rate is final_lr
  double base_lr = 0.01;
  double final_lr = 0;
  Warmup warmup = {};
};

/// final_lr + (base_lr - final_lr) (1 + cos(pi n / N)) / 2 with n steps after warming up and N of them until max_update
/// (Loshchilov and Hutter, "SGDR", 2017; Gluon's CosineScheduler).
class SLUICE_API CosineScheduler {
 public:
  /// Throws ValueError unless max_update is more than the steps of warming up, too.
  explicit CosineScheduler(CosineOptions options);
  double operator()(std::int64_t number) const;

 private:
  CosineOptions options_;
};

/// Of OneCycleScheduler.
struct OneCycleOptions {
  std::int64_t total_steps = 2;
  double max_lr = 0.1;
  double pct_start = 0.3;         // share of steps on which the rate grows
  double div_factor = 25;         // the first rate is max_lr / div_factor
  double final_div_factor = 1e4;  // the last one the first / final_div_factor
  bool linear = false;            // else half a cosine up, and half a one down
};

/// Up to max_lr and down again to nearly nothing (Smith, "Super-convergence", 2018), as torch's OneCycleLR in two
/// phases; after total_steps the last rate stays.
class SLUICE_API OneCycleScheduler {
 public:
  /// Throws ValueError for fewer than 2 steps, a share outside 0 to 1 and factors that are not positive, too.
  explicit OneCycleScheduler(OneCycleOptions options);
  double operator()(std::int64_t number) const;

 private:
  OneCycleOptions options_;
};

/// One schedule after the other: each for so many steps, which it counts from 1 itself; the last one stays on.
class SLUICE_API ChainedScheduler {
 public:
  struct Part {
    std::int64_t steps = 0;
    Schedule schedule = {};
  };
  /// Throws ValueError for no parts, and for an empty schedule, too.
  explicit ChainedScheduler(std::vector<Part> parts);
  double operator()(std::int64_t number) const;

 private:
  std::vector<Part> parts_;
};

}  // namespace sluice::gluon::lr_scheduler
