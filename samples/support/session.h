#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <sluice/sluice.h>

#include "samples/support/checkpoint.h"
#include "samples/support/divergence.h"
#include "samples/support/evaluation.h"
#include "samples/support/history.h"
#include "samples/support/images.h"
#include "samples/support/model.h"
#include "samples/support/options.h"
#include "samples/support/pace.h"
#include "samples/support/progress.h"
#include "samples/support/step_sums.h"

namespace samples {

/// A model in training: all that a checkpoint holds. Lives within its engine's scope.
class Session {
 public:
  /// Initialises the model, or gives it what --load or `resumed` (may be null) holds.
  Session(const TrainingOptions& options, const Images& images, Model model, const Checkpoint* resumed);

  /// Trains and validates epochs until all are done or the process is interrupted; saves where --save-every says so.
  /// Throws Diverged, naming the last file that was saved. Any other error finds what was trained saved, as save()
  /// does.
  void run();
  /// Validates once more if the last epoch did not.
  const Evaluation& evaluation();
  /// That of the weights as they are, if it is there and whole; null otherwise.
  const Evaluation* finished_evaluation() const {
    return evaluation_ && evaluation_->complete ? &*evaluation_ : nullptr;
  }
  /// Takes the state of everything; the host waits for the values where it is written.
  Checkpoint checkpoint() const;
  /// Writes checkpoint() where --save says, or elsewhere if that cannot be, and says where. False if not there.
  [[nodiscard]] bool save();
  /// Writes the network as a graph where --export says, with the names of the classes as its note "classes", a line
  /// each; or elsewhere if that cannot be, and says where. False if not there. Does nothing without --export.
  [[nodiscard]] bool export_network(const std::vector<std::string>& classes) const;
  /// The file that was written last; empty if none was.
  const std::filesystem::path& last_saved() const { return last_saved_; }

  const History& history() const { return history_; }
  std::int64_t steps() const { return steps_; }
  /// Graphs that training was traced into; 0 without --hybrid.
  std::size_t graphs() const { return graph_step_ ? graph_step_->traced() : 0; }
  std::int64_t steps_in_all() const { return options_.epochs * steps_an_epoch_; }
  double seconds() const { return pace_.elapsed(); }

 private:
  sluice::gluon::estimator::TrainingState state() const;
  void resume(const Checkpoint& from);
  void resume_loader(const Checkpoint& from);
  void run_epoch();
  void train_epoch(Progress& progress);
  sluice::gluon::StepResult compute_step(const sluice::gluon::data::Batch& batch);
  void train_step(const sluice::gluon::data::Batch& batch, Progress& progress);
  void finish_epoch(const Progress& progress);
  void tell_cuts();
  void save_in_passing();
  void save_before_error();
  double rate_of_step(std::int64_t step) const;
  bool epoch_is_trained() const;

  const TrainingOptions& options_;
  Model model_;
  sluice::gluon::Trainer trainer_;
  std::optional<sluice::gluon::TrainStep> graph_step_;           // of --hybrid
  std::optional<sluice::gluon::data::DataLoader> train_loader_;  // none: there is nothing to train
  sluice::gluon::data::DataLoader test_loader_;
  const std::int64_t steps_an_epoch_;
  const std::uint64_t images_;  // checksum

  std::int64_t steps_ = 0;  // of the whole run
  bool updated_ = false;    // since the program started
  bool told_cuts_ = false;
  History history_;
  DivergenceWatch watch_;
  StepSums sums_;
  Pace pace_;
  std::optional<Evaluation> evaluation_;  // of the weights as they are
  std::filesystem::path last_saved_;
};

}  // namespace samples
