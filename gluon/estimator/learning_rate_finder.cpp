#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <iterator>
#include <utility>

#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/estimator/learning_rate_finder.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice::gluon::estimator {

namespace {

constexpr std::size_t k_read_together = 10;

void check_options(const LearningRateOptions& options) {
  require(
      std::isfinite(options.first) && std::isfinite(options.last) && options.first > 0 && options.last > options.first,
      [&] {
        return message(
            "find_learning_rate: rates grow from ", options.first, " to ", options.last, "; 0 < first < last");
      });
  require(options.steps >= 2, [&] { return message("find_learning_rate: ", options.steps, " steps; 2 are least"); });
  require(options.smoothing >= 0 && options.smoothing < 1, [&] {
    return message("find_learning_rate: smoothing is ", options.smoothing, ", a share from 0 to below 1");
  });
  require(options.stop_factor == 0 || options.stop_factor > 1, [&] {
    return message("find_learning_rate: stop_factor is ", options.stop_factor, ", it is 0 or more than 1");
  });
}

/// Steps of which each is taken whatever becomes of the others; the first error counts.
class Attempts {
 public:
  template <class Step>
  void operator()(Step&& step) {
    try {
      step();
    } catch (...) {
      if (failure_ == nullptr)
        failure_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (failure_ != nullptr)
      std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

/// What training changes; put back at the end.
class Kept {
 public:
  Kept(Estimator& estimator, BatchSource& source)
      : estimator_(estimator), source_(source), loader_(source.state()), random_(Engine::current().random_state()) {}
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  void keep_random_numbers() { random_ = Engine::current().random_state(); }
  void keep_network() {
    const autograd::PauseScope pause;
    for (const Block* const block : {static_cast<const Block*>(&estimator_.net()), &estimator_.loss()}) {
      for (const auto& [name, parameter] : block->collect_params()) {
        if (!parameter.is_initialized())  // nothing uses it
          continue;
        const bool adds = parameter.grad_req() == GradReq::add;
        parameters_.push_back({parameter, parameter.data().copy(), adds ? parameter.grad().copy() : NDArray()});
      }
    }
    const optimizer::Optimizer& optimizer = estimator_.trainer().optimizer();
    states_ = estimator_.trainer().states();
    rate_ = optimizer.learning_rate();
    schedule_ = optimizer.schedule();
  }
  void put_back(Attempts& attempt) const {
    const autograd::PauseScope pause;
    for (const Value& kept : parameters_) {
      attempt([&] { kept.parameter.set_data(kept.value); });
      if (kept.gradient.defined())
        attempt([&] { kept.parameter.grad().assign(kept.gradient); });
    }
    optimizer::Optimizer& optimizer = estimator_.trainer().optimizer();
    if (!states_.empty()) {
      attempt([&] { optimizer.set_schedule({}); });
      attempt([&] { optimizer.set_learning_rate(rate_); });
      attempt([&] { estimator_.trainer().load_states(states_, "what was before the sweep"); });
      if (schedule_ != nullptr)  // which may know no rate of so many steps as the sweep had
        attempt([&] { optimizer.set_schedule(schedule_); });
    }
    if (loader_)
      attempt([&] { source_.load_state(*loader_); });
    attempt([&] { Engine::current().set_random_state(random_); });
  }

 private:
  struct Value {
    Parameter parameter;
    NDArray value, gradient;
  };
  Estimator& estimator_;
  BatchSource& source_;
  std::optional<data::DataLoaderState> loader_;
  RandomBlock random_;
  std::vector<Value> parameters_;
  optimizer::Optimizer::States states_;
  double rate_ = 0;
  lr_scheduler::Schedule schedule_;
};

/// The next batch, of an epoch anew after the last one.
const data::Batch& next_of(BatchSource& source) {
  const data::Batch* batch = source.next();
  if (batch == nullptr) {
    source.begin();
    batch = source.next();
  }
  require(batch != nullptr, [] { return "there are no batches to find a learning rate with"; });
  return *batch;
}

/// Losses as they come, a few at a time.
class Losses {
 public:
  Losses(const LearningRateOptions& options, LearningRateSweep& sweep) : options_(options), sweep_(sweep) {}

  void add(double rate, NDArray mean_loss) { waiting_.emplace_back(rate, std::move(mean_loss)); }
  bool is_full() const noexcept { return waiting_.size() >= k_read_together; }
  /// False where the sweep is over.
  bool read() {
    for (const auto& [rate, mean_loss] : std::exchange(waiting_, {})) {
      const double loss = mean_loss.item<double>();
      if (!std::isfinite(loss))
        return false;
      smoothed_ = options_.smoothing * smoothed_ + (1 - options_.smoothing) * loss;
      const double steps = static_cast<double>(sweep_.rates.size()) + 1;
      const double corrected = smoothed_ / (1 - std::pow(options_.smoothing, steps));  // it began at 0
      sweep_.rates.push_back(rate);
      sweep_.losses.push_back(loss);
      sweep_.smoothed.push_back(corrected);
      least_ = sweep_.rates.size() == 1 ? corrected : std::min(least_, corrected);
      if (options_.stop_factor > 0 && corrected > options_.stop_factor * least_ && corrected > 0)
        return false;
    }
    return true;
  }

 private:
  const LearningRateOptions& options_;
  LearningRateSweep& sweep_;
  std::vector<std::pair<double, NDArray>> waiting_;
  double smoothed_ = 0, least_ = 0;
};

// Rates stand at even distances of their logarithms, so that differences are slopes.
std::optional<double> steepest(const LearningRateSweep& sweep) {
  const std::vector<double>& smoothed = sweep.smoothed;
  const auto least = std::min_element(smoothed.begin(), smoothed.end()) - smoothed.begin();
  std::optional<double> found;
  double slope = 0;
  for (std::ptrdiff_t i = 1; i <= least; ++i) {
    const double here = smoothed[static_cast<std::size_t>(i)] - smoothed[static_cast<std::size_t>(i - 1)];
    if (here < slope) {
      slope = here;
      found = sweep.rates[static_cast<std::size_t>(i)];
    }
  }
  return found;
}

/// Steps whose rates grow.
class Sweep {
 public:
  Sweep(Estimator& estimator, BatchSource& source, const LearningRateOptions& options)
      : estimator_(estimator), source_(source), options_(options) {}

  LearningRateSweep run(Kept& kept, SourceLocation site) {
    LearningRateSweep sweep;
    Losses losses(options_, sweep);
    source_.begin();
    const data::Batch* batch = &next_of(source_);
    if (complete(*batch))
      kept.keep_random_numbers();
    kept.keep_network();
    optimizer::Optimizer& optimizer = estimator_.trainer().optimizer();
    optimizer.set_schedule({});
    for (std::int64_t i = 0; i < options_.steps; ++i) {
      const double part = static_cast<double>(i) / static_cast<double>(options_.steps - 1);
      const double rate = options_.first * std::pow(options_.last / options_.first, part);
      if (i > 0)
        batch = &next_of(source_);
      optimizer.set_learning_rate(rate);
      losses.add(rate, mean(estimator_.train_batch(*batch, site).losses.astype(float64)));
      if (losses.is_full() && !losses.read())
        return sweep;
    }
    losses.read();
    return sweep;
  }

 private:
  // Whether parameters had to be given their shapes.
  bool complete(const data::Batch& batch) const {
    const ParameterDict parameters = estimator_.net().collect_params();
    const bool is_complete = std::all_of(
        parameters.begin(), parameters.end(), [](const auto& entry) { return entry.second.is_initialized(); });
    if (!is_complete) {
      const autograd::PauseScope pause;
      estimator_.forward(batch);
    }
    return !is_complete;
  }

  Estimator& estimator_;
  BatchSource& source_;
  const LearningRateOptions& options_;
};

}  // namespace

LearningRateSweep find_learning_rate(
    Estimator& estimator, Batches batches, LearningRateOptions options, SourceLocation site) {
  return gluon::detail::called("find_learning_rate", site, [&] {
    check_options(options);
    require(!estimator.is_fitting(), [] { return "within fit() steps are its own, and so are its batches"; });
    BatchSource& source = batches.source();
    Kept kept(estimator, source);
    LearningRateSweep sweep;
    Attempts attempt;
    attempt([&] { sweep = Sweep(estimator, source, options).run(kept, site); });
    attempt([&] { source.end(); });
    kept.put_back(attempt);
    attempt.rethrow();
    sweep.suggestion = steepest(sweep);
    return sweep;
  });
}

}  // namespace sluice::gluon::estimator
