#include "samples/support/session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "samples/support/interrupt.h"
#include "samples/support/progress.h"
#include "samples/support/safe_file.h"
#include "samples/support/terminal.h"

namespace samples {

namespace {
constexpr int k_most_forgiven = 64;  // failed batches under way when the first is told
}  // namespace

using namespace sluice;
using gluon::data::DataLoader;
using gluon::data::vision::ToTensor;

namespace {

constexpr std::int64_t k_validation_batch = 250;

gluon::Trainer make_trainer(Model& model, const TrainingOptions& options) {
  model.net.initialize(gluon::init::Xavier(), options.device);
  return gluon::Trainer(model.net.collect_params(), options.make_optimizer());
}

std::optional<DataLoader> make_train_loader(const Images& images, const TrainingOptions& options) {
  if (!images.training)
    return std::nullopt;
  return DataLoader(
      images.training->transform_first(ToTensor()),
      {.batch_size = options.batch_size, .shuffle = true, .device = options.device});
}

std::string advice(const TrainingOptions& options) {
  return fmt::format(
      "Try a smaller learning rate (--lr {:.2g}; it was {:.3g}){}, and look at the data.",
      options.rate() / 10,
      options.rate(),
      options.optimizer == "sgd" && options.momentum > 0 ? ", less momentum (--momentum)" : "");
}

}  // namespace

Session::Session(const TrainingOptions& options, const Images& images, Model model, const Checkpoint* resumed)
    : options_(options),
      model_(std::move(model)),
      trainer_(make_trainer(model_, options)),
      train_loader_(make_train_loader(images, options)),
      test_loader_(
          images.testing.transform_first(ToTensor()), {.batch_size = k_validation_batch, .device = options.device}),
      steps_an_epoch_(train_loader_ ? train_loader_->size() : 0),
      images_(images.training ? checksum(*images.training) : 0),
      steps_(resumed == nullptr ? 0 : resumed->state.progress.total_batches),
      watch_(advice(options), resumed == nullptr ? 0 : resumed->first_loss),
      sums_(options.device, steps_, options.losses, watch_),
      pace_(
          steps_in_all() - steps_,
          resumed == nullptr ? 0 : resumed->seconds,
          resumed == nullptr ? 0 : resumed->epoch_seconds) {
  options.mixed.prepare(trainer_);
  if (resumed != nullptr)
    resume(*resumed);
  else if (!options.load.empty())
    set_parameters(model_.net, read_parameters(options.load), options.load, options.device);
  if (options.hybrid) {
    const graph::PlanOptions plan = options.plan_options();
    model_.net.hybridize(true, {.plan = plan});
    graph_step_.emplace(model_.net, *model_.loss, trainer_, gluon::TrainStepOptions{.plan = plan});
  }
}

void Session::resume(const Checkpoint& from) {
  const std::string file = message("--resume ", options_.resume.string());
  set_parameters(model_.net, from.state.parameters, options_.resume, options_.device);
  require<FileError>(trainer_.scaler() == nullptr || from.state.optimizer.contains("loss_scale"), [&] {
    return message(file, ": has no scale of losses");
  });
  trainer_.load_states(from.state.optimizer, file);
  history_ = from.history;
  if (train_loader_)
    resume_loader(from);
  sums_.begin_epoch(from.epoch);
  Engine::current().set_random_state(from.state.random);
}

void Session::resume_loader(const Checkpoint& from) {
  const std::string file = message("--resume ", options_.resume.string());
  const std::int64_t before = from.state.loader.num_samples, images = train_loader_->num_samples();
  require(before == images && from.images == images_, [&] {
    return message(
        file,
        ": was trained on other images",
        before == images ? "" : message(" (", before, "; here there are ", images, ")"),
        "; --data FOLDER names those (--load takes the parameters alone)");
  });
  const std::int64_t open = steps_ - static_cast<std::int64_t>(history_.size()) * steps_an_epoch_;
  require<FileError>(open >= 0 && open <= steps_an_epoch_, [&] {
    return message(
        file, ": its ", steps_, " steps cannot be, with ", history_.size(), " epochs of ", steps_an_epoch_, " done");
  });
  try {
    train_loader_->load_state(from.state.loader);
  } catch (const Error& error) {
    throw FileError(message(file, ": ", error.message()));
  }
}

gluon::estimator::TrainingState Session::state() const {
  gluon::estimator::TrainingState to{
      .optimizer = trainer_.states(),
      .learning_rate = trainer_.learning_rate(),
      .random = Engine::current().random_state(),
      .has_loader = train_loader_.has_value(),
      .epoch_size = steps_an_epoch_};
  if (train_loader_)
    to.loader = train_loader_->state();
  for (const auto& [name, parameter] : model_.net.collect_params())
    to.parameters.emplace(name, parameter.data());
  gluon::estimator::Progress& at = to.progress;
  at.fits = 1;
  at.epochs = at.total_epochs = std::ssize(history_);
  at.batches = at.total_batches = steps_;
  at.batch_in_epoch = steps_ - at.epochs * steps_an_epoch_;
  return to;
}

Checkpoint Session::checkpoint() const {
  const bool epoch_is_open = steps_ > static_cast<std::int64_t>(history_.size()) * steps_an_epoch_;
  return {
      .state = state(),
      .settings = options_.settings(),
      .images = images_,
      .first_loss = watch_.first_loss(),
      .seconds = pace_.elapsed(),
      .epoch = epoch_is_open ? sums_.sums() : Sums(),
      .epoch_seconds = epoch_is_open ? pace_.epoch_seconds() : 0,
      .history = history_};
}

// The learning rate falls evenly over all steps.
double Session::rate_of_step(std::int64_t step) const {
  const auto last = static_cast<double>(std::max<std::int64_t>(steps_in_all() - 1, 1));
  return options_.rate() * (1 - (1 - options_.final_rate) * static_cast<double>(step) / last);
}

bool Session::epoch_is_trained() const {
  return steps_ == (static_cast<std::int64_t>(history_.size()) + 1) * steps_an_epoch_;
}

void Session::run() {
  if (steps_ >= steps_in_all() && history_.size() >= static_cast<std::size_t>(options_.epochs))
    say(fmt::format("nothing is left to train: {} epochs are done (--epochs N goes on to N)", history_.size()));
  try {
    while (history_.size() < static_cast<std::size_t>(options_.epochs) && !interrupted())
      run_epoch();
  } catch (const Diverged& error) {
    throw Diverged(
        error.message() + (options_.save.empty() ? ""
                           : last_saved_.empty() ? " Nothing was saved."
                                                 : " The last good epoch's parameters are in " + last_saved_.string()));
  } catch (const Error& error) {
    Engine::current().forgive(error);
    save_before_error();
    throw;
  } catch (...) {
    save_before_error();
    throw;
  }
}

// The error is told by who catches it. Parameters that only miss updates, of that batch and perhaps of some behind it,
// are intact; without any update since the start there is nothing that the file does not have.
void Session::save_before_error() {
  for (int left = updated_ ? k_most_forgiven : 0; left > 0; --left) {
    try {
      (void)save();
      return;
    } catch (const Error& error) {
      if (left > 1 && Engine::current().forgive(error))
        continue;
      complain(message("--save failed: ", error.what()));
      return;
    } catch (const std::exception& error) {
      complain(message("--save failed: ", error.what()));
      return;
    }
  }
}

void Session::run_epoch() {
  evaluation_.reset();
  const std::int64_t before = static_cast<std::int64_t>(history_.size()) * steps_an_epoch_;
  Progress progress(
      {.number = static_cast<int>(history_.size()) + 1,
       .of = options_.epochs,
       .steps = steps_an_epoch_,
       .done = steps_ - before,
       .before = sums_.sums()},
      options_.log_every,
      pace_);
  try {
    if (!epoch_is_trained())
      train_epoch(progress);
    if (epoch_is_trained() && !interrupted())
      evaluation();
    if (evaluation_ && evaluation_->complete)
      watch_.look_at_validation(history_.size() + 1, evaluation_->loss);
  } catch (...) {
    progress.stop();  // an error's text begins a line
    throw;
  }
  if (evaluation_ && evaluation_->complete) {
    finish_epoch(progress);
  } else {
    progress.stop();
  }
}

void Session::train_epoch(Progress& progress) {
  pace_.start_training();
  for (const gluon::data::Batch& batch : *train_loader_) {
    train_step(batch, progress);
    if (interrupted())
      break;
  }
  sums_.finish(progress);
  pace_.reach(sums_.steps_read());
  pace_.stop_training();
}

gluon::StepResult Session::compute_step(const gluon::data::Batch& batch) {
  if (graph_step_) {
    const amp::AutocastScope cast = options_.mixed.autocast();
    return (*graph_step_)(batch.data, batch.label);
  }
  NDArray predictions, losses, scaled;
  {
    const amp::AutocastScope cast = options_.mixed.autocast();
    autograd::RecordScope record;
    predictions = model_.net(batch.data);
    losses = (*model_.loss)(predictions, batch.label);
    scaled = to_go_back_from(losses, trainer_);
  }
  scaled.backward();
  trainer_.step(batch.data.shape()[0]);
  return {losses.detach(), predictions.detach()};
}

void Session::train_step(const gluon::data::Batch& batch, Progress& progress) {
  const std::int64_t step = steps_++;  // at once: the loader has given the batch, even if its step fails
  trainer_.set_learning_rate(rate_of_step(step));
  const gluon::StepResult result = compute_step(batch);
  updated_ = true;
  sums_.step(result.losses, batch.label, result.predictions, progress);
  pace_.reach(sums_.steps_read());
  progress.step();
}

void Session::finish_epoch(const Progress& progress) {
  history_.push_back(
      {.learning_rate = rate_of_step(steps_ - 1),
       .loss = sums_.sums().mean_loss(),
       .accuracy = sums_.sums().accuracy(),
       .validation_loss = evaluation_->loss,
       .validation_accuracy = evaluation_->accuracy(),
       .seconds = pace_.epoch_seconds(),
       .images_per_second = progress.images_per_second().value_or(0)});
  progress.finish(history_.back());
  sums_.begin_epoch({});
  pace_.end_epoch();
  tell_cuts();
  const bool last = history_.size() >= static_cast<std::size_t>(options_.epochs);
  if (options_.save_every > 0 && !last && history_.size() % static_cast<std::size_t>(options_.save_every) == 0)
    save_in_passing();
}

// Once, when captures have been tried: why --hybrid brings less than one graph.
void Session::tell_cuts() {
  if (told_cuts_ || !graph_step_)
    return;
  for (const auto& [what, reason] :
       {std::pair("a step", graph_step_->hybrid_reason()), std::pair("a prediction", model_.net.hybrid_reason())}) {
    if (!reason.empty())
      say(fmt::format("--hybrid: {} is not one graph: {}", what, reason));
    told_cuts_ = told_cuts_ || !reason.empty();
  }
}

const Evaluation& Session::evaluation() {
  if (!evaluation_) {
    const amp::AutocastScope cast = options_.mixed.autocast();
    evaluation_ = evaluate(model_.net, *model_.loss, test_loader_);
  }
  return *evaluation_;
}

// What fails here is tried again at the end, elsewhere too.
void Session::save_in_passing() {
  try {
    write_checkpoint(options_.save, checkpoint());
    last_saved_ = options_.save;
  } catch (const FileError& error) {
    complain("--save-every: " + error.message() + "; training goes on");
  }
}

bool Session::export_network(const std::vector<std::string>& classes) const {
  if (options_.export_to.empty())
    return true;
  std::string names;
  for (const std::string& name : classes)
    names += (names.empty() ? "" : "\n") + name;
  const std::filesystem::path wanted = std::filesystem::path(options_.export_to) += ".npz";
  const auto prefix_of = [](std::filesystem::path npz) { return npz.replace_extension(); };
  const Saved saved = save_somewhere(wanted, [&](const std::filesystem::path& path) {
    model_.net.export_to(
        prefix_of(path),
        {zeros({options_.batch_size, 1, 28, 28}, {.device = options_.device})},
        {.inputs = {"image"}, .outputs = {"scores"}, .notes = {{"classes", names}}});
  });
  const std::string files = prefix_of(saved.path).string() + ".json and .npz";
  if (saved.path == wanted) {
    say("network exported to " + files);
    return true;
  }
  complain("--export failed: " + saved.trouble);
  complain(
      saved.path.empty() ? "The network could not be exported anywhere." : "The network is in " + files + " instead.");
  return false;
}

bool Session::save() {
  if (options_.save.empty() || steps_ == 0)
    return true;
  const Checkpoint now = checkpoint();
  const Saved saved =
      save_somewhere(options_.save, [&](const std::filesystem::path& path) { write_checkpoint(path, now); });
  if (!saved.path.empty())
    last_saved_ = saved.path;
  if (saved.path == options_.save) {
    say("parameters saved to " + saved.path.string());
    return true;
  }
  complain("--save failed: " + saved.trouble);
  complain(
      saved.path.empty() ? "The parameters could not be saved anywhere: they are lost."
                         : "The parameters are in " + saved.path.string() + " instead.");
  return false;
}

}  // namespace samples
