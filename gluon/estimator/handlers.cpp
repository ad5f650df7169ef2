#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/loader_numbers.h>
#include <sluice/gluon/estimator/estimator.h>
#include <sluice/gluon/estimator/handlers.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>

namespace sluice::gluon::estimator {

StoppingHandler::StoppingHandler(StoppingOptions options) : options_(std::move(options)) {
  require(options_.max_epochs || options_.max_batches || options_.stop_when, [] {
    return "StoppingHandler: needs max_epochs, max_batches or stop_when";
  });
  require(options_.max_epochs.value_or(0) >= 0 && options_.max_batches.value_or(0) >= 0, [&] {
    return message(
        "StoppingHandler: cannot stop after ",
        options_.max_epochs.value_or(0),
        " epochs, or ",
        options_.max_batches.value_or(0),
        " batches");
  });
}

void StoppingHandler::look(Estimator& estimator) const {
  const Progress& at = estimator.progress();
  if (options_.max_epochs && at.epochs >= *options_.max_epochs)
    estimator.stop(message(*options_.max_epochs, " epochs are done"));
  if (options_.max_batches && at.batches >= *options_.max_batches)
    estimator.stop(message(*options_.max_batches, " batches are done"));
  if (options_.stop_when && options_.stop_when())
    estimator.stop("it was asked to stop");
}

void StoppingHandler::batch_end(Estimator& estimator, const data::Batch& /*batch*/, const StepResult& /*result*/) {
  look(estimator);
}

void MetricHandler::train_begin(Estimator& estimator) {
  for (const auto& metric : estimator.train_metrics())
    metric->reset();
  estimator.forget_figures();
}

void MetricHandler::epoch_begin(Estimator& estimator) {
  if (estimator.progress().batch_in_epoch == 0)
    train_begin(estimator);
}

void MetricHandler::batch_end(Estimator& estimator, const data::Batch& batch, const StepResult& result) {
  if (estimator.adds_up())
    return;
  Estimator::update_metrics(estimator.train_metrics(), batch, result);
  estimator.forget_figures();  // a handler of less priority may have asked
}

ValidationHandler::ValidationHandler(Batches batches, ValidationOptions options)
    : batches_(std::move(batches)), options_(options) {
  require(
      options_.every_epochs >= 0 && options_.every_batches >= 0 && options_.every_epochs + options_.every_batches > 0,
      [&] {
        return message(
            "ValidationHandler: each ",
            options_.every_epochs,
            " epochs or ",
            options_.every_batches,
            " batches is never; one of them is positive, none negative");
      });
}

void ValidationHandler::train_begin(Estimator& /*estimator*/) {
  validated_at_ = -1;
}

HandlerState ValidationHandler::state() const {
  HandlerState state{{"validated_at", array<std::int64_t>({validated_at_})}};
  if (const std::optional<data::DataLoaderState> loader = batches_.source().state()) {
    const std::vector<std::int64_t> numbers = gluon::detail::numbers_of(*loader);
    state.emplace("loader", array(numbers, {std::ssize(numbers)}));
  }
  return state;
}

void ValidationHandler::load_state(const HandlerState& state) {
  const auto found = state.find("validated_at");
  require(found == state.end() || (found->second.size() == 1 && found->second.dtype() == int64), [] {
    return "ValidationHandler: the state is not the number of a batch";
  });
  const std::int64_t at = found == state.end() ? -1 : found->second.item<std::int64_t>();
  BatchSource& source = batches_.source();
  if (const auto kept = state.find("loader"); kept != state.end() && source.state().has_value()) {
    std::optional<data::DataLoaderState> loader;
    if (kept->second.dtype() == int64 && kept->second.ndim() == 1)
      loader = gluon::detail::loader_state_of(kept->second.to_vector<std::int64_t>());
    require(loader.has_value(), [] { return "ValidationHandler: the state does not say where its loader stood"; });
    source.load_state(*loader);
  }
  validated_at_ = at;
}

void ValidationHandler::validate(Estimator& estimator) {
  const std::int64_t now = estimator.progress().total_batches;
  if (validated_at_ == now)  // at the end of the last batch of the epoch
    return;
  estimator.evaluate(batches_);
  validated_at_ = now;
}

void ValidationHandler::batch_end(Estimator& estimator, const data::Batch& /*batch*/, const StepResult& /*result*/) {
  if (options_.every_batches > 0 && estimator.progress().batches % options_.every_batches == 0)
    validate(estimator);
}

void ValidationHandler::epoch_end(Estimator& estimator) {
  if (options_.every_epochs > 0 && estimator.progress().epochs % options_.every_epochs == 0)
    validate(estimator);
}

GradientUpdateHandler::GradientUpdateHandler(GradientUpdateOptions options) : options_(options) {
  require(options_.every >= 1, [&] {
    return message("GradientUpdateHandler: a step of ", options_.every, " batches cannot be; 1 is least");
  });
}

void GradientUpdateHandler::add_up(const Block& block) {
  for (const auto& [name, parameter] : block.collect_params()) {
    const GradReq before = parameter.grad_req();
    const bool adds_already =
        std::any_of(trained_.begin(), trained_.end(), [&, &parameter = parameter](const Trained& other) {
          return other.parameter.same(parameter);
        });
    if (adds_already || before == GradReq::null || (before == GradReq::write && options_.every == 1))
      continue;
    trained_.push_back({name, parameter, before});
    parameter.set_grad_req(GradReq::add);
  }
}

void GradientUpdateHandler::train_begin(Estimator& estimator) {
  batches_ = samples_ = 0;
  loaded_.clear();
  left_.clear();
  try {
    add_up(estimator.net());
    add_up(estimator.loss());
    forget();
  } catch (...) {
    train_end(estimator);  // which nobody else would call
    throw;
  }
}

void GradientUpdateHandler::train_end(Estimator& /*estimator*/) {
  left_ = state();
  for (const Trained& trained : trained_) {
    trained.parameter.set_grad_req(GradReq::write);  // gradients begin anew; those of left_ are as they were
    trained.parameter.set_grad_req(trained.before);
  }
  trained_.clear();
  batches_ = samples_ = 0;
}

void GradientUpdateHandler::forget() {
  batches_ = samples_ = 0;
  for (const Trained& trained : trained_) {
    if (trained.parameter.is_initialized())
      trained.parameter.zero_grad();
  }
}

void GradientUpdateHandler::step(Estimator& estimator) {
  estimator.trainer().step(samples_);
  forget();
}

void GradientUpdateHandler::batch_end(Estimator& estimator, const data::Batch& batch, const StepResult& /*result*/) {
  ++batches_;
  samples_ += batch.data.shape()[0];
  if (batches_ >= options_.every)
    step(estimator);
}

void GradientUpdateHandler::epoch_end(Estimator& estimator) {
  if (batches_ == 0)
    return;
  if (options_.discard_partial)
    forget();
  else
    step(estimator);
}

HandlerState GradientUpdateHandler::state() const {
  if (batches_ == 0)
    return left_;
  HandlerState state{{"pending", array<std::int64_t>({batches_, samples_})}};
  for (const Trained& trained : trained_) {
    if (trained.parameter.is_initialized())  // otherwise none of the batches used it
      state.emplace("gradient." + trained.name, trained.parameter.grad());
  }
  return state;
}

void GradientUpdateHandler::load_state(const HandlerState& state) {
  std::int64_t batches = 0, samples = 0;
  if (const auto pending = state.find("pending"); pending != state.end()) {
    require(pending->second.dtype() == int64 && pending->second.size() == 2, [] {
      return "GradientUpdateHandler: the state of batches that wait for their step is not two numbers";
    });
    const auto numbers = pending->second.to_vector<std::int64_t>();
    batches = numbers[0];
    samples = numbers[1];
    require(batches >= 0 && batches < options_.every && samples >= batches && samples < std::int64_t{1} << 53, [&] {
      return message(
          "GradientUpdateHandler: ",
          batches,
          " batches of ",
          samples,
          " samples wait for their step, which is of ",
          options_.every);
    });
    for (const auto& [name, parameter, before] : trained_) {
      const auto found = state.find("gradient." + name);
      require(
          !parameter.is_initialized() || (found != state.end() && found->second.shape() == parameter.shape()),
          [&, &name = name] {
            return message("GradientUpdateHandler: the state has no gradient that fits '", name, "'");
          });
    }
  }
  batches_ = batches;
  samples_ = samples;
  loaded_ = batches == 0 ? HandlerState() : state;
}

// Parameters may be other arrays than they were at load_state().
void GradientUpdateHandler::train_resumed(Estimator& /*estimator*/) {
  if (loaded_.empty())
    return;
  const autograd::PauseScope pause;
  for (const Trained& trained : trained_) {
    if (!trained.parameter.is_initialized())
      continue;
    const auto found = loaded_.find("gradient." + trained.name);
    require(found != loaded_.end(), [&] {
      return message("GradientUpdateHandler: the state has no gradient of '", trained.name, "'");
    });
    NDArray gradient = trained.parameter.grad();
    gradient.assign(found->second);
  }
  loaded_.clear();
}

}  // namespace sluice::gluon::estimator
