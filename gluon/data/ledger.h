#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sluice/engine/detail/fork_watch.h>
#include <sluice/gluon/data/loader.h>

namespace sluice::gluon::data::detail {

/// What a loader counts: by its iterators and by the tasks that make batches.
class Ledger {
 public:
  using Clock = std::chrono::steady_clock;

  /// Whether anybody is to hear of an error in a batch: it has failed, or it was dropped before, unseen.
  enum class Fate : std::uint8_t { open, failed, dropped };

  /// One batch: when the program reached it and when it was made.
  struct Entry {
    std::optional<Clock::time_point> reached;
    bool made = false;
    std::atomic<Fate> fate{Fate::open};
  };

  void begin_epoch();
  /// The program has gone on to a batch, or to the end of the epoch (null).
  void reach(Entry* entry, std::int64_t samples);
  void finish(Entry& entry, Clock::time_point begun);
  void corrupt(std::int64_t index, const std::string& error);
  void replace();

  DataLoaderFigures figures() const;
  std::vector<CorruptSample> corrupt_samples() const;

 private:
  mutable std::mutex mutex_;
  const sluice::detail::HeldOverForks over_forks_{mutex_};
  DataLoaderFigures figures_;
  std::map<std::int64_t, std::string> corrupt_;
  Clock::time_point last_;        // up to when `seconds` are counted
  Clock::time_point late_until_;  // what lies before was counted as waiting
};

/// The figures of one batch, from the beginning of its task to the end, however that comes.
class Working {
 public:
  Working(std::shared_ptr<Ledger> ledger, std::shared_ptr<Ledger::Entry> entry)
      : ledger_(std::move(ledger)), entry_(std::move(entry)), begun_(Ledger::Clock::now()) {}
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;
  ~Working() { ledger_->finish(*entry_, begun_); }

 private:
  std::shared_ptr<Ledger> ledger_;
  std::shared_ptr<Ledger::Entry> entry_;
  Ledger::Clock::time_point begun_;
};

}  // namespace sluice::gluon::data::detail
