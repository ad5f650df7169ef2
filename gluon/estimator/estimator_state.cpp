// What an Estimator writes to checkpoints, and how it goes on from them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/detail/estimator_run.h>
#include <sluice/gluon/estimator/estimator.h>
#include <sluice/gluon/estimator/handlers.h>
#include <sluice/gluon/estimator/training_state.h>
#include <sluice/ndarray/autograd.h>

namespace sluice::gluon::estimator {

namespace {

/// "EarlyStoppingHandler", and of a second one "EarlyStoppingHandler#2".
std::vector<std::string> names_of(const Handlers& handlers) {
  std::map<std::string, int> seen;
  std::vector<std::string> names;
  for (const auto& handler : handlers) {
    const int number = ++seen[handler->name()];
    names.push_back(number == 1 ? handler->name() : message(handler->name(), '#', number));
  }
  return names;
}

std::string key_of(const Metrics& metrics, std::size_t i) {
  return message(i, ' ', metrics[i]->name());
}

void add_parameters(const Block& block, std::map<std::string, NDArray>& to, std::vector<std::string>& without_values) {
  for (const auto& [name, parameter] : block.collect_params()) {
    if (parameter.is_initialized())
      to.emplace(name, parameter.data());
    else
      without_values.push_back(name);
  }
}

void check_parameters(
    const Block& block,
    const std::map<std::string, NDArray>& arrays,
    const std::vector<std::string>& without_values,
    const std::string& file) {
  const ParameterDict parameters = block.collect_params();
  for (const auto& [name, value] : arrays) {
    const std::optional<Parameter> found = parameters.find(name);
    require(found.has_value(), [&, &name = name] {
      return message(file, ": has a parameter '", name, "', which this network lacks; it has ", parameters.names());
    });
    const Shape& shape = found->shape();
    bool fits = shape.ndim() == value.ndim();
    for (int axis = 0; fits && axis < shape.ndim(); ++axis)
      fits = (shape[axis] == 0 && !found->is_initialized()) || shape[axis] == value.shape()[axis];
    require<ShapeError>(fits, [&, &name = name, &value = value] {
      return message(file, ": '", name, "' has shape ", value.shape(), ", the network's has ", shape);
    });
    require<DTypeError>(found->dtype() == value.dtype(), [&, &name = name, &value = value] {
      return message(file, ": '", name, "' is ", value.dtype(), ", the network's is ", found->dtype());
    });
  }
  for (const auto& [name, parameter] : parameters) {
    const bool is_known =
        arrays.contains(name) || std::find(without_values.begin(), without_values.end(), name) != without_values.end();
    require(is_known, [&, &name = name] {
      return message(file, ": has no parameter '", name, "', which this network has");
    });
  }
}

/// What a fit trains on, then what its ValidationHandlers evaluate, in the order of their calls.
std::vector<BatchSource*> sources_of(BatchSource& train, const Handlers& handlers) {
  std::vector<BatchSource*> sources = {&train};
  for (const auto& handler : handlers) {
    if (const auto* const validation = dynamic_cast<const ValidationHandler*>(handler.get()))
      sources.push_back(&validation->batches().source());
  }
  return sources;
}

/// Those of a file, of which this process knows some.
std::vector<LeftLoader> left_loaders_of(const TrainingState& state, const std::vector<LeftLoader>& known) {
  std::vector<LeftLoader> left = state.left_loaders;
  for (LeftLoader& loader : left) {
    for (const LeftLoader& other : known) {
      if (other.fit == loader.fit && other.place == loader.place)
        loader.identity = other.identity;
    }
  }
  return left;
}

/// What is taken back, last first, unless all went well.
class Undo {
 public:
  Undo() = default;
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() {
    while (!steps_.empty()) {
      try {
        steps_.back()();
      } catch (...) {  // the first error is on its way
      }
      steps_.pop_back();
    }
  }
  void add(std::function<void()> step) { steps_.push_back(std::move(step)); }
  void forget() noexcept { steps_.clear(); }

 private:
  std::vector<std::function<void()>> steps_;
};

}  // namespace

TrainingState Estimator::state() const {
  TrainingState state;
  add_parameters(net_, state.parameters, state.without_values);
  add_parameters(loss_, state.loss_parameters, state.loss_without_values);
  state.optimizer = trainer_->states();
  state.learning_rate = trainer_->learning_rate();
  state.random = Engine::current().random_state();
  state.progress = progress_;
  state.epoch_size = epoch_size_.value_or(-1);
  state.validations = validations_;
  state.validation_figures = validation_figures_;
  state.left_loaders = left_loaders_;
  for (std::size_t i = 0; i < train_metrics_.size(); ++i)
    state.metrics.emplace(key_of(train_metrics_, i), train_metrics_[i]->state());
  if (run_ == nullptr)
    return state;
  state.random_of_epoch = run_->random_of_epoch;
  const bool begins = run_->is_at_epoch_begin;  // what begin() drew and read ahead comes again
  if (begins)
    state.random = run_->random_of_epoch;
  if (const std::optional<data::DataLoaderState> loader = begins ? run_->loader_of_epoch : run_->source.state()) {
    state.loader = *loader;
    state.has_loader = true;
  }
  const std::vector<std::string> names = names_of(run_->handlers);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (HandlerState of_handler = run_->handlers[i]->state(); !of_handler.empty())
      state.handlers.emplace(names[i], std::move(of_handler));
  }
  return state;
}

void Estimator::save_state(const std::filesystem::path& path) {
  write_state(path, state());
}

void Estimator::resume_with(TrainingState state) {
  require(run_ != nullptr && run_->begun < run_->handlers.size(), [] {
    return "Estimator::resume_with: only an event train_begin may ask for it";
  });
  run_->resume = std::move(state);
  run_->is_done_elsewhere = false;
}

void Estimator::end_with(TrainingState state, std::string reason) {
  resume_with(std::move(state));
  run_->is_done_elsewhere = true;
  stop(std::move(reason));
}

void Estimator::restore(const TrainingState& state, Run& run) {
  const std::string file = state.path.string();
  check_parameters(net_, state.parameters, state.without_values, file);
  check_parameters(loss_, state.loss_parameters, state.loss_without_values, file);
  Undo undo;
  for (std::size_t i = 0; i < train_metrics_.size(); ++i) {
    const auto found = state.metrics.find(key_of(train_metrics_, i));
    if (found == state.metrics.end())
      continue;
    undo.add([&metric = *train_metrics_[i], before = train_metrics_[i]->state()] { metric.load_state(before); });
    train_metrics_[i]->load_state(found->second);
  }
  const std::vector<std::string> names = names_of(run.handlers);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = state.handlers.find(names[i]);
    if (found == state.handlers.end())
      continue;
    undo.add([&handler = *run.handlers[i], before = run.handlers[i]->state()] { handler.load_state(before); });
    run.handlers[i]->load_state(found->second);
  }
  const std::optional<data::DataLoaderState> loader = run.source.state();
  if (loader && state.has_loader) {
    undo.add([&source = run.source, before = *loader] { source.load_state(before); });
    run.source.load_state(state.loader);
  }
  undo.add([before = Engine::current().random_state()] { Engine::current().set_random_state(before); });
  go_on_with_epoch(state, run);
  std::vector<LeftLoader> left = left_loaders_of(state, left_loaders_);
  restore_network(state, run, undo);
  undo.forget();
  left_loaders_ = std::move(left);
  progress_ = state.progress;
  validations_ = state.validations;
  validation_figures_ = state.validation_figures;
  epoch_size_.reset();
  if (state.epoch_size >= 0)
    epoch_size_ = state.epoch_size;
  Engine::current().set_random_state(state.random);
}

// Network last, since nothing or all of it changes.
template <class Undo>
void Estimator::restore_network(const TrainingState& state, const Run& run, Undo& undo) {
  const autograd::PauseScope pause;
  const std::string file = state.path.string();
  optimizer::Optimizer& optimizer = trainer_->optimizer();
  undo.add([&optimizer, &trainer = *trainer_, before = trainer_->states(), rate = optimizer.learning_rate()] {
    if (optimizer.schedule() == nullptr)
      optimizer.set_learning_rate(rate);
    trainer.load_states(before, "what was before");
  });
  trainer_->load_states(state.optimizer, file, run.site);
  if (optimizer.schedule() == nullptr)
    optimizer.set_learning_rate(state.learning_rate);
  for (const auto& [name, parameter] : loss_.collect_params()) {
    const auto found = state.loss_parameters.find(name);
    if (found == state.loss_parameters.end())
      continue;
    if (parameter.is_initialized())
      undo.add([parameter = parameter, before = parameter.data().copy()] { parameter.set_data(before); });
    parameter.set_data(found->second);
  }
  net_.load_dict(state.parameters, {.allow_missing = true, .ignore_extra = true}, file, run.site);
}

// Where the fit that is skipped left them.
template <class Undo>
void Estimator::restore_loaders(std::vector<LeftLoader>& left, const Run& run, Undo& undo) {
  const std::vector<BatchSource*> sources = sources_of(run.source, run.handlers);
  for (LeftLoader& loader : left) {
    if (loader.fit != progress_.fits || loader.place >= std::ssize(sources))
      continue;
    BatchSource& source = *sources[static_cast<std::size_t>(loader.place)];
    const std::optional<data::DataLoaderState> before = source.state();
    if (!before)
      continue;
    undo.add([&source, before = *before] { source.load_state(before); });
    source.load_state(loader.state);
    loader.identity = source.identity();
  }
}

// A loader that several fits use stands where the last of them left it.
void Estimator::note_loaders(const Run& run) {
  if (run.is_done_elsewhere)
    return;
  const std::vector<BatchSource*> sources = sources_of(run.source, run.handlers);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::optional<data::DataLoaderState> state = sources[i]->state();
    if (!state)
      continue;
    const LeftLoader left{progress_.fits, static_cast<std::int64_t>(i), *state, sources[i]->identity()};
    std::erase_if(left_loaders_, [&](const LeftLoader& other) {
      return other.identity == left.identity || (other.fit == left.fit && other.place == left.place);
    });
    left_loaders_.push_back(left);
  }
}

// Handlers, range and metrics may be others than those of the fit that left the state.
void Estimator::restore_results(const TrainingState& state, const Run& run) {
  const std::string file = state.path.string();
  check_parameters(net_, state.parameters, state.without_values, file);
  check_parameters(loss_, state.loss_parameters, state.loss_without_values, file);
  Undo undo;
  std::vector<LeftLoader> left = left_loaders_of(state, left_loaders_);
  restore_loaders(left, run, undo);
  restore_network(state, run, undo);
  undo.forget();
  left_loaders_ = std::move(left);
  progress_.total_epochs = state.progress.total_epochs;
  progress_.total_batches = state.progress.total_batches;
  progress_.total_samples = state.progress.total_samples;
  validations_ = state.validations;
  validation_figures_ = state.validation_figures;
  Engine::current().set_random_state(state.random);
}

// To the batch behind the last one that was done.
void Estimator::go_on_with_epoch(const TrainingState& state, Run& run) {
  run.random_of_epoch = state.random_of_epoch;
  const std::int64_t done = state.progress.batch_in_epoch;
  run.epoch_is_open = done > 0;
  if (!run.epoch_is_open)
    return;
  run.nothing_left = done == state.epoch_size;
  const bool has_position = state.has_loader && run.source.state().has_value();
  if (run.nothing_left && has_position)
    return;
  Engine::current().set_random_state(state.random_of_epoch);  // what batches drew, they draw again
  run.source_is_open = true;
  run.source.begin();
  for (std::int64_t i = 0; !has_position && i < done; ++i) {
    require(run.source.next() != nullptr, [&] {
      return message(
          state.path.string(),
          ": was written after ",
          done,
          " batches of an epoch, there are ",
          i,
          " now; train on those it was trained on");
    });
  }
}

}  // namespace sluice::gluon::estimator
