#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/estimator/event_handler.h>
#include <sluice/gluon/metric.h>

namespace sluice::gluon::estimator {

/// Of a LoggingHandler.
struct LoggingOptions {
  std::int64_t every_batches = 0;        // a line after so many of an epoch, too; 0: a line an epoch
  double figures_every = 1;              // seconds between readings of figures for the bar, each of which is a wait
  std::optional<bool> is_terminal = {};  // default: whether standard output is one, if `print` is not given
  std::optional<int> columns = {};       // of the terminal; default: as it says itself, else 80. The bar keeps within
  std::function<void(const std::string& text)> print = {};  // default: standard output; what it cannot take is lost
};

/// Says how training goes (Gluon's LoggingHandler): on a terminal a bar that is drawn ten times a second at most,
/// otherwise lines; after each epoch its figures, in the end why training ended.
class SLUICE_API LoggingHandler : public EventHandler {
 public:
  /// Throws ValueError for numbers that are negative, or NaN.
  explicit LoggingHandler(LoggingOptions options = {});

  int priority() const override { return 1000; }
  std::string name() const override { return "LoggingHandler"; }
  void train_begin(Estimator& estimator) override;
  void train_resumed(Estimator& estimator) override;
  void epoch_begin(Estimator& estimator) override;
  void batch_end(Estimator& estimator, const data::Batch& batch, const StepResult& result) override;
  void epoch_end(Estimator& estimator) override;
  void train_end(Estimator& estimator) override;

 private:
  using Clock = std::chrono::steady_clock;
  void print(const std::string& text) const;
  void draw(Estimator& estimator);
  std::size_t room() const;
  std::string begin_of_line(const Estimator& estimator, std::int64_t epoch) const;
  std::string end_of_line() const;

  LoggingOptions options_;
  bool is_terminal_ = false, is_drawn_ = false;
  Clock::time_point began_ = {}, epoch_began_ = {}, drawn_ = {}, read_ = {};
  std::int64_t samples_ = 0;  // of the epoch, by this process
  std::string figures_;       // that were read last
};

/// Of a CSVLogger.
struct CSVLoggerOptions {
  std::filesystem::path path = {};  // its folder is made
  std::int64_t every_batches = 0;   // a row after so many of all batches; 0: a row an epoch
};

/// Writes a row of figures after each epoch (RFC 4180): "epoch,batch,samples,learning_rate" and all figures, of
/// validation those of the last one. A file that is there is written anew. A later fit() of the estimator, and one that
/// goes on from a checkpoint, go on with it if its figures are theirs, without the rows that a killed process wrote
/// after that.
class SLUICE_API CSVLogger : public EventHandler {
 public:
  /// Throws ValueError for an empty path and a negative number.
  explicit CSVLogger(CSVLoggerOptions options);

  int priority() const override { return 1000; }
  std::string name() const override { return "CSVLogger"; }
  /// Throws FileError where the file cannot be written.
  void train_begin(Estimator& estimator) override;
  void train_resumed(Estimator& estimator) override;
  void batch_end(Estimator& estimator, const data::Batch& batch, const StepResult& result) override;
  void epoch_end(Estimator& estimator) override;
  HandlerState state() const override;
  void load_state(const HandlerState& state) override;

 private:
  void write_row(Estimator& estimator, std::int64_t epoch);
  std::int64_t size_of_file() const;
  void append(const std::string& text) const;

  CSVLoggerOptions options_;
  std::int64_t size_ = 0;  // bytes of the file that are ours
};

}  // namespace sluice::gluon::estimator
