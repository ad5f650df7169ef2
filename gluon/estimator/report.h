#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/class_metrics.h>
#include <sluice/gluon/estimator/event_handler.h>
#include <sluice/gluon/estimator/report_page.h>

namespace sluice::gluon::estimator {

/// Of a ReportHandler.
struct ReportOptions {
  std::filesystem::path folder = {};  // is made; the page is index.html
  std::string title = "Training";
  ReportPage::Pairs settings = {};  // names and values to be shown beside those that the trainer has
  /// One of the estimator's validation metrics: what was taken for what at the last evaluation. Null: not shown.
  std::shared_ptr<const metric::ConfusionMatrix> confusions = {};
  std::vector<std::string> classes = {};  // their names; default: numbers
};

/// Writes a page about the training (ReportPage): curves of all figures, a row an epoch, the confusion matrix with the
/// scores of the classes, settings. The page is written after each epoch and at the end, whole or not at all, so that
/// it can be looked at meanwhile; at the end it says why training ended, also where an error ended it. Epochs of
/// earlier fits, and of the process that a checkpoint is gone on from, are part of it.
class SLUICE_API ReportHandler : public EventHandler {
 public:
  /// Throws ValueError for an empty folder.
  explicit ReportHandler(ReportOptions options);

  int priority() const override { return 1000; }
  std::string name() const override { return "ReportHandler"; }
  /// Makes the folder. Throws FileError where that cannot be, as all events do that write.
  void train_begin(Estimator& estimator) override;
  void train_resumed(Estimator& estimator) override;
  void epoch_begin(Estimator& estimator) override;
  void epoch_end(Estimator& estimator) override;
  void train_end(Estimator& estimator) override;
  HandlerState state() const override;
  void load_state(const HandlerState& state) override;

  /// The page's file.
  std::filesystem::path page() const { return options_.folder / "index.html"; }

 private:
  struct Epoch {
    double samples = 0, seconds = 0, learning_rate = 0;
    std::vector<double> figures = {};  // in the order of names_
  };
  void take_names(std::vector<std::string> names);
  void write(Estimator& estimator, const std::string& note);
  std::vector<Curve> curves() const;
  void add_figures(ReportPage& page) const;
  void add_epochs(ReportPage& page) const;
  void add_settings(ReportPage& page, Estimator& estimator) const;

  ReportOptions options_;
  std::vector<std::string> names_;  // of figures
  std::vector<Epoch> epochs_;
  std::int64_t samples_ = 0;           // trained when the epoch began
  std::int64_t seen_validations_ = 0;  // of the estimator
  std::chrono::steady_clock::time_point began_ = {};
};

}  // namespace sluice::gluon::estimator
