#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <sluice/engine/export.h>
#include <sluice/gluon/estimator/event_handler.h>

namespace sluice::gluon::detail {
class EventFile;
}  // namespace sluice::gluon::detail

namespace sluice::gluon::estimator {

/// Of a TensorBoardHandler.
struct TensorBoardOptions {
  std::filesystem::path folder = {};  // is made
  std::int64_t every_batches = 0;     // figures after so many of all batches; 0: after each epoch
};

/// Writes figures to an event file that TensorBoard shows: "training/loss", "validation/loss", "learning_rate", by the
/// number of batches trained. One that goes on from a checkpoint begins a file of its own and has what a killed process
/// wrote after that left out.
class SLUICE_API TensorBoardHandler : public EventHandler {
 public:
  /// Throws ValueError for an empty folder and a negative number.
  explicit TensorBoardHandler(TensorBoardOptions options);

  int priority() const override { return 1000; }
  std::string name() const override { return "TensorBoardHandler"; }
  /// Makes the file. Throws FileError, as all events do that write.
  void train_begin(Estimator& estimator) override;
  void train_resumed(Estimator& estimator) override;
  void batch_end(Estimator& estimator, const data::Batch& batch, const StepResult& result) override;
  void epoch_end(Estimator& estimator) override;

  /// The file; empty before the first fit.
  std::filesystem::path file() const;

 private:
  void write(Estimator& estimator);

  TensorBoardOptions options_;
  std::shared_ptr<gluon::detail::EventFile> file_;
  std::int64_t seen_validations_ = 0, written_at_ = -1;  // the batch
};

}  // namespace sluice::gluon::estimator
