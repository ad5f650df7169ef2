#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/engine/export.h>
#include <sluice/gluon/block.h>
#include <sluice/gluon/estimator/batches.h>
#include <sluice/gluon/estimator/event_handler.h>
#include <sluice/gluon/metric.h>
#include <sluice/gluon/train_step.h>
#include <sluice/gluon/trainer.h>

/// Training loops that need not be written again (Gluon's contrib.estimator).
namespace sluice::gluon::estimator {

/// How a batch becomes predictions and losses (Gluon's BatchProcessor): override it where samples are not one array
/// or the loss takes not all that the network gives. Called within a RecordScope for training, without one for
/// evaluation.
class SLUICE_API BatchProcessor {
 public:
  virtual ~BatchProcessor();
  /// By default loss(net(data), label) of all that the network gives, the first of which are the predictions, and
  /// ValueError for a batch of other than two arrays. Of more than two, StepResult::labels says which metrics are to
  /// compare with.
  virtual StepResult forward(const Block& net, const Block& loss, const data::Batch& batch, SourceLocation site) const;
};

/// How steps are taken.
enum class Steps : std::uint8_t {
  automatic,  // as graphs (TrainStep), from the first that cannot be one on by hand
  graph,      // as graphs; what cannot be one is an error
  by_hand,
};

using Metrics = std::vector<std::shared_ptr<metric::Metric>>;

/// Of an Estimator.
struct EstimatorOptions {
  /// Beside the mean of the losses, "loss", which is always there. Those of validation are objects of their own.
  Metrics train_metrics = {}, validation_metrics = {};
  Steps steps = Steps::automatic;
  TrainStepOptions step = {};
  std::shared_ptr<const BatchProcessor> processor = {};  // null: the default one; another one works by hand
};

/// Of Estimator::fit(). Training ends with what comes first.
struct FitOptions {
  std::optional<std::int64_t> epochs = {};
  std::optional<std::int64_t> batches = {};
  std::optional<Batches> validation = {};  // after each epoch, unless a ValidationHandler says when
  Handlers handlers = {};
  bool log = true;  // by a LoggingHandler, unless there is one
};

/// How far training has come.
struct Progress {
  std::int64_t epochs = 0, batches = 0;  // of this fit, an earlier process included; epochs are those that are over
  std::int64_t batch_in_epoch = 0;       // batches done of the epoch under way
  std::int64_t fits = 0;                 // calls of fit() that did not fail, this one included
  std::int64_t total_epochs = 0, total_batches = 0, total_samples = 0;  // of all fits

  bool operator==(const Progress&) const = default;
};

/// Where a fit that is over left a loader.
struct LeftLoader {
  std::int64_t fit = 0, place = 0;  // 0: the one it trained on; then those of its ValidationHandlers
  data::DataLoaderState state = {};
  const void* identity = nullptr;  // of its BatchSource; null: not known in this process
};

struct TrainingState;

/// Trains and evaluates a network (Gluon's Estimator):
///
///     estimator::Estimator trained(net, loss, optimizer::Adam(), {.train_metrics = {accuracy}});
///     trained.fit(loader, {.epochs = 10, .validation = test_loader});
///
/// Metrics are added up on the device and read when a handler asks, so that the host runs ahead of the device. Network,
/// loss, trainer and ranges of batches must outlive it. One thread at a time.
class SLUICE_API Estimator {
 public:
  /// Throws ValueError for a metric that is null or both of training and of validation.
  Estimator(Block& net, const Block& loss, Trainer& trainer, EstimatorOptions options = {});
  /// With a trainer of its own, of all parameters of the network.
  template <std::derived_from<optimizer::Optimizer> O>
  Estimator(Block& net, const Block& loss, O optimizer, EstimatorOptions options = {})
      : Estimator(
            net, loss, std::make_unique<Trainer>(net.collect_params(), std::move(optimizer)), std::move(options)) {}
  Estimator(const Estimator&) = delete;
  Estimator& operator=(const Estimator&) = delete;
  ~Estimator();

  /// Trains until an end of `options` is reached or a handler stops it. Beside the handlers given there are, unless one
  /// of the kind is among them, a MetricHandler, a ValidationHandler and a LoggingHandler. An epoch that is left before
  /// its end has no event epoch_end. At the end the host waits for the parameters. What network, loss, batches or
  /// handlers throw ends the training and is thrown; then the events train_end came, and what these threw beside stands
  /// in further_errors(). Throws ValueError within a fit, without an end, for the same handler twice, two
  /// GradientUpdateHandlers, batches of training and validation from one range, and an epoch without a batch.
  void fit(Batches train, FitOptions options, SourceLocation site = SourceLocation::current());

  /// The figures of the validation metrics over all batches, without training. The host waits. Throws ValueError for no
  /// batch, and what network, loss and metrics throw.
  std::vector<metric::Figure> evaluate(Batches batches, SourceLocation site = SourceLocation::current());

  /// One step on a batch outside of fit(), uncounted and unseen by handlers and metrics. The host does not wait. Throws
  /// ValueError within fit().
  StepResult train_batch(const data::Batch& batch, SourceLocation site = SourceLocation::current());
  /// What the BatchProcessor makes of a batch: recorded where the caller records. The host does not wait.
  StepResult forward(const data::Batch& batch, SourceLocation site = SourceLocation::current()) const;

  /// Whether fit() is under way.
  bool is_fitting() const noexcept { return run_ != nullptr; }
  /// From a handler: ends the training after the event, for a reason of a few words.
  void stop(std::string reason);
  bool is_stopped() const noexcept { return is_stopped_; }
  /// Why the last fit ended; empty after an error.
  const std::string& stop_reason() const noexcept { return stop_reason_; }
  /// In train_end: whether an error ends the training.
  bool failed() const noexcept { return failed_; }
  /// What was thrown while the error that fit() threw was under way.
  const std::vector<std::string>& further_errors() const noexcept { return further_errors_; }

  const Progress& progress() const noexcept { return progress_; }
  /// Batches of the epoch under way, where that is known.
  std::optional<std::int64_t> epoch_size() const noexcept { return epoch_size_; }
  /// The ends that fit() was given; a handler may show how far it is.
  std::optional<std::int64_t> last_epoch() const noexcept { return last_epoch_; }
  std::optional<std::int64_t> last_batch() const noexcept { return last_batch_; }

  /// Figures of the training metrics of the epoch so far, as "training loss". The host waits, once for each batch.
  const std::vector<metric::Figure>& training_figures();
  /// Those of the last evaluate(), as "validation loss"; empty before.
  const std::vector<metric::Figure>& validation_figures() const noexcept { return validation_figures_; }
  /// Whether figures of validation may come: within fit() if it has validation, or a handler of the user's, which may
  /// evaluate; outside it is true.
  bool may_validate() const noexcept;
  /// How often there was an evaluation.
  std::int64_t validations() const noexcept { return validations_; }
  /// One of them; NaN for one of validation before the first. Throws ValueError, naming those that there are, for one
  /// that there is not. The host waits for those of training.
  double figure(std::string_view name);
  /// All names that figure() knows.
  std::vector<std::string> figure_names();

  /// Whether steps run as graphs.
  bool steps_as_graph() const noexcept { return step_ != nullptr && !updates_elsewhere_; }
  Block& net() const noexcept { return net_; }
  const Block& loss() const noexcept { return loss_; }
  Trainer& trainer() const noexcept { return *trainer_; }
  const Metrics& train_metrics() const noexcept { return train_metrics_; }
  /// Losses and predictions of a batch to its metrics; the host does not wait. Throws ValueError where nobody says
  /// which of more than two arrays are labels.
  static void update_metrics(const Metrics& metrics, const data::Batch& batch, const StepResult& result);
  /// Whether steps add to the metrics of training themselves: in a fit() whose MetricHandler is of no class derived
  /// from that.
  bool adds_up() const noexcept { return adds_up_; }
  /// From whoever updates or resets metrics of training: figures that were read before are read anew.
  void forget_figures() noexcept { read_at_.reset(); }

  /// Writes all that training consists of to an .npz, whole or not at all: from there another process goes on as if
  /// nothing had been between. From batch_end, epoch_end or train_end. The host waits. Throws FileError.
  void save_state(const std::filesystem::path& path);
  /// From train_begin: once all handlers have begun, training goes on from that state, which read_state() gave. Throws
  /// ValueError outside; fit() then throws ValueError, ShapeError, DTypeError, each naming the file, for the state of
  /// another network, optimizer or loader, and nothing has changed.
  void resume_with(TrainingState state);
  /// From train_begin: this fit is one that an earlier process had done with, and ends once all handlers have begun. Of
  /// that state, of a later fit, come parameters, optimizer, random numbers, counts of all fits, figures of validation
  /// and where this fit left its loaders; the later fit, if there is one, goes on with the rest. Throws as
  /// resume_with() does.
  void end_with(TrainingState state, std::string reason);

 private:
  struct Run;
  Estimator(Block& net, const Block& loss, std::unique_ptr<Trainer> trainer, EstimatorOptions options);
  void check_metrics() const;
  Handlers prepared_handlers(const FitOptions& options, const Batches& train) const;
  void run(Run& run);
  void begin_training(Run& run);
  void run_epochs(Run& run);
  void begin_epoch(Run& run);
  bool run_batches(Run& run);
  void run_batch(Run& run, const data::Batch& batch);
  StepResult take_step(const data::Batch& batch, SourceLocation site);
  StepResult step_by_hand(const data::Batch& batch, SourceLocation site);
  void end_training(Run& run) noexcept;
  void await_parameters() const;
  TrainingState state() const;
  void restore(const TrainingState& state, Run& run);
  template <class Undo>
  void restore_network(const TrainingState& state, const Run& run, Undo& undo);
  template <class Undo>
  void restore_loaders(std::vector<LeftLoader>& left, const Run& run, Undo& undo);
  void restore_results(const TrainingState& state, const Run& run);
  void go_on_with_epoch(const TrainingState& state, Run& run);
  void note_loaders(const Run& run);

  Block& net_;
  const Block& loss_;
  std::unique_ptr<Trainer> own_trainer_;
  Trainer* trainer_;
  EstimatorOptions options_;
  Metrics train_metrics_, validation_metrics_;
  std::unique_ptr<TrainStep> step_;  // null: by hand
  bool updates_elsewhere_ = false;   // a GradientUpdateHandler does
  bool adds_up_ = false;

  Progress progress_;
  std::optional<std::int64_t> epoch_size_, last_epoch_, last_batch_;
  std::vector<metric::Figure> training_figures_, validation_figures_;
  std::optional<std::int64_t> read_at_;  // the batch of training_figures_
  std::int64_t validations_ = 0;
  std::vector<LeftLoader> left_loaders_;
  Run* run_ = nullptr;  // the fit under way
  bool is_stopped_ = false, failed_ = false;
  std::string stop_reason_;
  std::vector<std::string> further_errors_;
};

}  // namespace sluice::gluon::estimator
