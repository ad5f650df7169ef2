#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/amp/grad_scaler.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/detail/estimator_run.h>
#include <sluice/gluon/detail/forward_with_loss.h>
#include <sluice/gluon/estimator/estimator.h>
#include <sluice/gluon/metrics.h>
#include <sluice/ndarray/autograd.h>

namespace sluice::gluon::estimator {

namespace {

// The mean of the losses first, unless one of them is that.
Metrics with_loss(const Metrics& metrics) {
  Metrics all = metrics;
  const bool has_loss = std::any_of(all.begin(), all.end(), [](const auto& metric) {
    return dynamic_cast<const metric::Loss*>(metric.get()) != nullptr;
  });
  if (!has_loss)
    all.insert(all.begin(), std::make_shared<metric::Loss>());
  return all;
}

void add_figures(const Metrics& metrics, const char* prefix, std::vector<metric::Figure>& to) {
  for (const auto& metric : metrics) {
    for (const auto& [name, value] : metric->get_all())
      to.emplace_back(prefix + name, value);
  }
}

void check_pair(const data::Batch& batch) {
  require(batch.count == 2 && batch.more.empty(), [&] {
    return message(
        "a batch of ",
        batch.more.empty() ? batch.count : std::max(batch.count, 2 + batch.more.size()),
        " arrays; BatchProcessor takes two, data and labels: EstimatorOptions::processor may be one of your own, whose "
        "forward() says what they are");
  });
}

}  // namespace

BatchSource::~BatchSource() = default;

std::optional<std::int64_t> BatchSource::size() const {
  return {};
}

std::optional<data::DataLoaderState> BatchSource::state() const {
  return {};
}

void BatchSource::load_state(const data::DataLoaderState& /*state*/) {
  throw ValueError("these batches have no state to go on from; they are no data::DataLoader");
}

const void* BatchSource::identity() const noexcept {
  return this;
}

Batches::Batches(std::shared_ptr<BatchSource> source) : source_(std::move(source)) {
  require(source_ != nullptr, [] { return "Batches: the source is null"; });
}

EventHandler::~EventHandler() = default;

std::string EventHandler::name() const {
  return "EventHandler";
}

BatchProcessor::~BatchProcessor() = default;

StepResult BatchProcessor::forward(
    const Block& net, const Block& loss, const data::Batch& batch, SourceLocation site) const {
  check_pair(batch);
  StepResult result = gluon::detail::forward_with_loss(net, loss, {&batch.data, 1}, {&batch.label, 1}, site);
  if (!result.outputs.empty())
    result.predictions = result.outputs.front();
  return result;
}

Estimator::Estimator(Block& net, const Block& loss, Trainer& trainer, EstimatorOptions options)
    : net_(net), loss_(loss), trainer_(&trainer), options_(std::move(options)) {
  check_metrics();
  train_metrics_ = with_loss(options_.train_metrics);
  validation_metrics_ = with_loss(options_.validation_metrics);
  const bool by_hand = options_.steps == Steps::by_hand || options_.processor != nullptr;
  require(options_.steps != Steps::graph || !by_hand, [] {
    return "Estimator: a BatchProcessor of one's own works by hand, not as Steps::graph asks";
  });
  if (options_.processor == nullptr)
    options_.processor = std::make_shared<const BatchProcessor>();
  if (!by_hand)
    step_ = std::make_unique<TrainStep>(net_, loss_, *trainer_, options_.step);
}

Estimator::Estimator(Block& net, const Block& loss, std::unique_ptr<Trainer> trainer, EstimatorOptions options)
    : Estimator(net, loss, *trainer, std::move(options)) {
  own_trainer_ = std::move(trainer);
}

Estimator::~Estimator() = default;

void Estimator::check_metrics() const {
  for (const Metrics* metrics : {&options_.train_metrics, &options_.validation_metrics}) {
    for (const auto& metric : *metrics)
      require(metric != nullptr, [] { return "Estimator: a metric is null"; });
  }
  for (const auto& metric : options_.validation_metrics) {
    const Metrics& others = options_.train_metrics;
    require(std::find(others.begin(), others.end(), metric) == others.end(), [&] {
      return message(
          "Estimator: the metric \"",
          metric->name(),
          "\" is of training and of validation, whose batches it would add up together; make two");
    });
  }
}

void Estimator::stop(std::string reason) {
  is_stopped_ = true;
  if (stop_reason_.empty())
    stop_reason_ = std::move(reason);
}

void Estimator::update_metrics(const Metrics& metrics, const data::Batch& batch, const StepResult& result) {
  const auto labels = [&](const metric::Metric& metric) -> const NDArray& {
    if (result.labels.defined())
      return result.labels;
    require(batch.count <= 2 && batch.more.empty(), [&] {
      return message(
          "metric \"",
          metric.name(),
          "\": which of a batch's arrays are labels BatchProcessor says, in StepResult::labels");
    });
    return batch.label;
  };
  for (const auto& metric : metrics) {
    if (auto* const of_losses = dynamic_cast<metric::Loss*>(metric.get()); of_losses != nullptr)
      of_losses->update(result.losses);
    else
      metric->update(labels(*metric), result.predictions);
  }
}

const std::vector<metric::Figure>& Estimator::training_figures() {
  if (read_at_ != progress_.total_batches) {
    std::vector<metric::Figure> figures;
    add_figures(train_metrics_, "training ", figures);
    training_figures_ = std::move(figures);
    read_at_ = progress_.total_batches;
  }
  return training_figures_;
}

std::vector<std::string> Estimator::figure_names() {
  std::vector<metric::Figure> all;
  add_figures(train_metrics_, "training ", all);
  add_figures(validation_metrics_, "validation ", all);
  std::vector<std::string> names;
  for (const auto& [name, value] : all)
    names.push_back(name);
  return names;
}

double Estimator::figure(std::string_view name) {
  const auto find_in = [&](const std::vector<metric::Figure>& figures) {
    return std::find_if(figures.begin(), figures.end(), [&](const auto& figure) { return figure.first == name; });
  };
  if (const auto found = find_in(validation_figures_); found != validation_figures_.end())
    return found->second;
  if (!name.starts_with("validation ")) {
    if (const auto found = find_in(training_figures()); found != training_figures_.end())
      return found->second;
  }
  const std::vector<std::string> names = figure_names();
  require(std::find(names.begin(), names.end(), name) != names.end(), [&] {
    std::string listed;
    for (const std::string& one : names)
      listed += (listed.empty() ? "'" : ", '") + one + "'";
    return message("Estimator: there is no figure '", name, "'; there are ", listed);
  });
  return std::numeric_limits<double>::quiet_NaN();
}

StepResult Estimator::step_by_hand(const data::Batch& batch, SourceLocation site) {
  StepResult result;
  NDArray scaled;
  {
    const autograd::RecordScope record;
    result = forward(batch, site);
    const amp::GradScaler* const scaler = trainer_->scaler();
    scaled = scaler == nullptr ? result.losses : scaler->scale(result.losses, site);
  }
  scaled.backward(site);
  if (!updates_elsewhere_)
    trainer_->step(batch.data.shape()[0], false, site);
  result.losses = result.losses.detach();
  gluon::detail::detach_all(result.outputs);
  if (result.predictions.defined())
    result.predictions = result.predictions.detach();
  if (adds_up_)
    update_metrics(train_metrics_, batch, result);
  return result;
}

StepResult Estimator::take_step(const data::Batch& batch, SourceLocation site) {
  require(batch.data.defined() && batch.data.ndim() > 0, [] {
    return "Estimator: a batch has no samples along a first axis";
  });
  if (!steps_as_graph())
    return step_by_hand(batch, site);
  check_pair(batch);
  try {
    return (*step_)(batch.data, batch.label, site);
  } catch (const Error& error) {
    const bool may_be_the_graph =
        error.record() == nullptr && (dynamic_cast<const ValueError*>(&error) != nullptr ||
                                      dynamic_cast<const UnsupportedError*>(&error) != nullptr);
    if (options_.steps == Steps::graph || !may_be_the_graph)
      throw;
  }
  // A function: at the end of this one GCC 12 warns of the move of a small vector.
  const auto from_now_on_by_hand = [&] {
    StepResult result = step_by_hand(batch, site);  // throws where it was not the graph
    step_.reset();
    return result;
  };
  return from_now_on_by_hand();
}

StepResult Estimator::train_batch(const data::Batch& batch, SourceLocation site) {
  return gluon::detail::called("Estimator::train_batch", site, [&] {
    require(run_ == nullptr, [] { return "within fit() steps are its own; handlers see them, and take none"; });
    if (step_ != nullptr)
      step_->add_up({});
    return take_step(batch, site);
  });
}

StepResult Estimator::forward(const data::Batch& batch, SourceLocation site) const {
  return options_.processor->forward(net_, loss_, batch, site);
}

std::vector<metric::Figure> Estimator::evaluate(Batches batches, SourceLocation site) {
  return gluon::detail::called("Estimator::evaluate", site, [&] {
    BatchSource& source = batches.source();
    require(run_ == nullptr || source.identity() != run_->source.identity(), [] {
      return "these are the batches that are trained on, in the midst of an epoch; evaluate others";
    });
    const autograd::PauseScope pause;
    for (const auto& metric : validation_metrics_)
      metric->reset();
    std::int64_t count = 0;
    source.begin();
    try {
      for (const data::Batch* batch = source.next(); batch != nullptr; batch = source.next(), ++count)
        update_metrics(validation_metrics_, *batch, forward(*batch, site));
    } catch (...) {
      try {
        source.end();
      } catch (...) {  // the first error is on its way
      }
      throw;
    }
    source.end();
    require(count > 0, [] { return "there is no batch to evaluate"; });
    std::vector<metric::Figure> plain, named;
    add_figures(validation_metrics_, "", plain);
    for (const auto& [name, value] : plain)
      named.emplace_back("validation " + name, value);
    validation_figures_ = std::move(named);
    ++validations_;
    return plain;
  });
}

}  // namespace sluice::gluon::estimator
