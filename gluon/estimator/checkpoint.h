#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/estimator/early_stopping.h>
#include <sluice/gluon/estimator/event_handler.h>

namespace sluice::gluon::estimator {

/// What a CheckpointHandler does about checkpoints of its name that are in its folder when training begins.
enum class Existing : std::uint8_t {
  refuse,  // an error, lest two trainings be mixed up
  resume,  // goes on from the newest one that is whole; where there is none, from the beginning
  remove,  // once the first new one is written; the best one, too
};

/// Of a CheckpointHandler.
struct CheckpointOptions {
  std::filesystem::path folder = {};  // is made
  std::string prefix = "model";
  std::int64_t every_epochs = 1;   // 0: not by epochs
  std::int64_t every_batches = 0;  // of this fit; 0: not by batches. Where training is stopped there is always one
  std::int64_t keep_last = 5;      // of all fits
  std::string monitor = {};        // each that is the best by this figure is written and kept, too: "prefix-best.npz"
  MonitorMode mode = MonitorMode::automatic;
  double min_delta = 0;
  Existing existing = Existing::refuse;
  bool go_on_without = false;  // a checkpoint that cannot be written is told to `warn`; otherwise it ends the training
  std::function<void(const std::string& message)> warn = {};  // default: standard error
};

/// Writes all that training consists of now and then (Gluon's CheckpointHandler), so that a process that was killed at
/// any point goes on, with Existing::resume, as if it had not been: parameters, optimizer, random numbers, loader,
/// metrics, other handlers and counts are the same to the last bit. Files, "prefix-00001200.npz" after 1200 batches of
/// all fits, are written beside, brought to the disk and renamed; old ones go when the new one stands. The host waits
/// for the values. A newest one that is damaged is told to `warn`, and the one before counts; where none is whole, that
/// is a FileError, and so is one that cannot be read now, which may be whole. A fit() that failed and is called again
/// goes on from the newest one, too. Those of a later fit() than the one that begins end it at once, with their
/// parameters and optimizer: the program that made them had finished with this one. Block::load_parameters() takes the
/// files with ignore_extra.
class SLUICE_API CheckpointHandler : public EventHandler {
 public:
  /// Throws ValueError for negative numbers, keep_last < 1, an empty folder and a prefix that is empty or a path.
  explicit CheckpointHandler(CheckpointOptions options);

  int priority() const override { return 2000; }
  std::string name() const override { return "CheckpointHandler"; }
  /// Throws FileError where files cannot be made in the folder or one cannot be read, ValueError where Existing says
  /// so, UnsupportedError for a newest one of another format.
  void train_begin(Estimator& estimator) override;
  void train_resumed(Estimator& estimator) override;
  void batch_end(Estimator& estimator, const data::Batch& batch, const StepResult& result) override;
  void epoch_end(Estimator& estimator) override;
  void train_end(Estimator& estimator) override;
  HandlerState state() const override;
  void load_state(const HandlerState& state) override;

  /// Those that are kept, the newest last.
  const std::vector<std::filesystem::path>& files() const noexcept { return files_; }
  std::filesystem::path best_file() const;
  /// Where training went on from; empty if at the beginning.
  const std::filesystem::path& resumed_from() const noexcept { return resumed_from_; }

 private:
  std::filesystem::path file_of(std::int64_t batch) const;
  std::vector<std::filesystem::path> found() const;
  void remove_drafts() const;
  void look_at_best(Estimator& estimator, bool epoch_is_over);
  void write(Estimator& estimator);
  void write_files(Estimator& estimator);
  void keep_best(const std::filesystem::path& file);
  void resume(Estimator& estimator, const std::vector<std::filesystem::path>& files);
  void warn(const std::string& message) const;

  CheckpointOptions options_;
  std::optional<Monitor> monitor_;
  const Estimator* estimator_ = nullptr;              // whose training files_ are of
  std::vector<std::filesystem::path> files_, stale_;  // stale ones go when the next one is written
  std::filesystem::path resumed_from_;
  bool best_is_new_ = false;      // and not written yet
  bool best_is_ours_ = false;     // the file
  std::int64_t written_at_ = -1;  // batch of the last one, or of that which training began with
  std::int64_t best_at_ = -1;     // batch of the best one that was written
};

}  // namespace sluice::gluon::estimator
