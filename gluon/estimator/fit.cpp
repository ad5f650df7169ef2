// Estimator::fit(): the order of events, and what happens to errors.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/detail/estimator_run.h>
#include <sluice/gluon/estimator/checkpoint.h>
#include <sluice/gluon/estimator/early_stopping.h>
#include <sluice/gluon/estimator/estimator.h>
#include <sluice/gluon/estimator/handlers.h>
#include <sluice/gluon/estimator/logging.h>
#include <sluice/gluon/estimator/tensorboard.h>

namespace sluice::gluon::estimator {

namespace {

template <class H>
std::ptrdiff_t count_of(const Handlers& handlers) {
  return std::count_if(handlers.begin(), handlers.end(), [](const auto& handler) {
    return dynamic_cast<const H*>(handler.get()) != nullptr;
  });
}

// Of these very types: what derives from one may do more.
template <class... H>
bool is_one_of(const EventHandler& handler) {
  const std::type_info& type = typeid(handler);
  return ((type == typeid(H)) || ...);
}

void check_handlers(const Handlers& handlers) {
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    require(handlers[i] != nullptr, [&] { return message("Estimator: handler ", i, " is null"); });
    require(
        std::find(handlers.begin(), handlers.begin() + static_cast<std::ptrdiff_t>(i), handlers[i]) ==
            handlers.begin() + static_cast<std::ptrdiff_t>(i),
        [&] {
          return message(
              "Estimator: the handler \"", handlers[i]->name(), "\" is there twice; it would see each event twice");
        });
  }
  require(count_of<GradientUpdateHandler>(handlers) <= 1, [] {
    return "Estimator: two GradientUpdateHandlers would update the parameters twice";
  });
  require(count_of<MetricHandler>(handlers) <= 1, [] {
    return "Estimator: two MetricHandlers would add up each batch twice";
  });
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an error of a type that is no std::exception";
  }
}

template <class Event>
void call_each(const Handlers& handlers, const Event& event) {
  for (const auto& handler : handlers)
    event(*handler);
}

}  // namespace

bool Estimator::may_validate() const noexcept {
  return run_ == nullptr || std::any_of(run_->handlers.begin(), run_->handlers.end(), [](const auto& handler) {
           return !is_one_of<
               StoppingHandler,
               MetricHandler,
               GradientUpdateHandler,
               LoggingHandler,
               CSVLogger,
               TensorBoardHandler,
               EarlyStoppingHandler,
               CheckpointHandler>(*handler);
         });
}

Handlers Estimator::prepared_handlers(const FitOptions& options, const Batches& train) const {
  Handlers all = options.handlers;
  check_handlers(all);
  require(options.epochs.value_or(0) >= 0 && options.batches.value_or(0) >= 0, [&] {
    return message(
        "Estimator: ", options.epochs.value_or(0), " epochs, ", options.batches.value_or(0), " batches; none is least");
  });
  require(options.epochs || options.batches || count_of<StoppingHandler>(all) > 0, [] {
    return "Estimator: training has no end; give it epochs, batches or a StoppingHandler";
  });
  require(!options.validation || options.validation->source().identity() != train.source().identity(), [] {
    return "Estimator: training and validation are of the same range of batches; make a loader for each";
  });
  if (options.epochs || options.batches)
    all.push_back(std::make_shared<StoppingHandler>(
        StoppingOptions{.max_epochs = options.epochs, .max_batches = options.batches}));
  if (count_of<MetricHandler>(all) == 0)
    all.push_back(std::make_shared<MetricHandler>());
  if (options.validation && count_of<ValidationHandler>(all) == 0)
    all.push_back(std::make_shared<ValidationHandler>(*options.validation));
  if (options.log && count_of<LoggingHandler>(all) == 0)
    all.push_back(std::make_shared<LoggingHandler>());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->priority() < b->priority(); });
  return all;
}

void Estimator::fit(Batches train, FitOptions options, SourceLocation site) {
  gluon::detail::called("Estimator::fit", site, [&] {
    require(run_ == nullptr, [] { return "Estimator: fit() within fit(); evaluate() is what a handler may call"; });
    Run run{.source = train.source(), .handlers = prepared_handlers(options, train), .site = site};
    last_epoch_ = options.epochs;
    last_batch_ = options.batches;
    this->run(run);
  });
}

void Estimator::run(Run& run) {
  run_ = &run;
  is_stopped_ = failed_ = false;
  stop_reason_.clear();
  further_errors_.clear();
  updates_elsewhere_ = count_of<GradientUpdateHandler>(run.handlers) > 0;
  adds_up_ = std::any_of(
      run.handlers.begin(), run.handlers.end(), [](const auto& handler) { return is_one_of<MetricHandler>(*handler); });
  if (step_ != nullptr)
    step_->add_up(adds_up_ ? train_metrics_ : Metrics());
  progress_.epochs = progress_.batches = progress_.batch_in_epoch = 0;
  const std::int64_t fits_before = progress_.fits;
  ++progress_.fits;
  read_at_.reset();
  epoch_size_.reset();
  std::exception_ptr failure;
  const auto note = [&] {
    failed_ = true;
    if (failure == nullptr)
      failure = std::current_exception();
    else
      further_errors_.push_back(text_of(std::current_exception()));
  };
  try {
    begin_training(run);
    run_epochs(run);
    await_parameters();
  } catch (...) {
    note();
  }
  try {
    if (std::exchange(run.source_is_open, false))
      run.source.end();
  } catch (...) {
    note();
  }
  for (std::size_t i = 0; i < run.begun; ++i) {
    try {
      run.handlers[i]->train_end(*this);
    } catch (...) {
      note();
    }
  }
  try {
    if (failure == nullptr)
      note_loaders(run);
  } catch (...) {
    note();
  }
  run_ = nullptr;
  updates_elsewhere_ = adds_up_ = false;
  read_at_.reset();
  if (failure != nullptr) {
    progress_.fits = fits_before;  // another attempt is the same fit, also for a process that goes on with it
    stop_reason_.clear();
    std::rethrow_exception(failure);
  }
}

void Estimator::begin_training(Run& run) {
  for (const auto& handler : run.handlers) {
    handler->train_begin(*this);
    ++run.begun;
  }
  if (!run.resume)
    return;
  if (run.is_done_elsewhere) {
    restore_results(*run.resume, run);
    run.resume.reset();
    return;
  }
  restore(*run.resume, run);
  run.resume.reset();
  call_each(run.handlers, [&](EventHandler& handler) { handler.train_resumed(*this); });
}

void Estimator::run_epochs(Run& run) {
  while (!is_stopped_) {
    begin_epoch(run);
    const bool is_complete = run_batches(run);
    if (std::exchange(run.source_is_open, false))
      run.source.end();
    if (!is_complete)
      return;
    require(progress_.batch_in_epoch > 0, [&] {
      return message(
          "Estimator: epoch ",
          progress_.epochs + 1,
          progress_.epochs == 0 ? " has no batches"
                                : " has no batches, those before had; can they be gone over again?");
    });
    ++progress_.epochs;
    ++progress_.total_epochs;
    progress_.batch_in_epoch = 0;
    call_each(run.handlers, [&](EventHandler& handler) { handler.epoch_end(*this); });
  }
}

void Estimator::begin_epoch(Run& run) {
  if (!std::exchange(run.epoch_is_open, false)) {
    run.random_of_epoch = Engine::current().random_state();
    epoch_size_ = run.source.size();
    run.loader_of_epoch = run.source.state();
    run.is_at_epoch_begin = true;
    run.source_is_open = true;
    run.source.begin();
  }
  read_at_.reset();
  call_each(run.handlers, [&](EventHandler& handler) { handler.epoch_begin(*this); });
  read_at_.reset();
}

// True at the end of the epoch.
bool Estimator::run_batches(Run& run) {
  if (std::exchange(run.nothing_left, false))
    return true;
  while (!is_stopped_) {
    const data::Batch* const batch = run.source.next();
    if (batch == nullptr)
      return true;
    run_batch(run, *batch);
  }
  return epoch_size_ == progress_.batch_in_epoch;
}

void Estimator::run_batch(Run& run, const data::Batch& batch) {
  run.is_at_epoch_begin = false;
  call_each(run.handlers, [&](EventHandler& handler) { handler.batch_begin(*this, batch); });
  const StepResult result = take_step(batch, run.site);
  if (adds_up_)
    forget_figures();
  ++progress_.batches;
  ++progress_.total_batches;
  ++progress_.batch_in_epoch;
  progress_.total_samples += batch.data.shape()[0];
  call_each(run.handlers, [&](EventHandler& handler) { handler.batch_end(*this, batch, result); });
}

// Errors of tasks are found here at the latest.
void Estimator::await_parameters() const {
  for (const auto& [name, parameter] : net_.collect_params()) {
    if (parameter.is_initialized())
      parameter.data().wait_to_read();
  }
}

}  // namespace sluice::gluon::estimator
