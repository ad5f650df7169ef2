#include <algorithm>

#include <sluice/gluon/data/ledger.h>

namespace sluice::gluon::data::detail {

namespace {

double seconds(Ledger::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void Ledger::begin_epoch() {
  const std::lock_guard lock(mutex_);
  last_ = Clock::now();
}

void Ledger::reach(Entry* entry, std::int64_t samples) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  figures_.seconds += seconds(now - last_);
  last_ = now;
  if (entry == nullptr)
    return;
  ++figures_.batches;
  figures_.samples += samples;
  if (!entry->made)
    entry->reached = now;
}

void Ledger::finish(Entry& entry, Clock::time_point begun) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  figures_.worked_seconds += seconds(now - begun);
  entry.made = true;
  if (!entry.reached)
    return;
  if (now > last_) {  // the program, which never waits, has gone on
    figures_.seconds += seconds(now - last_);
    last_ = now;
  }
  // Times at which several batches were late count once.
  const Clock::time_point from = std::max(*entry.reached, late_until_);
  if (now > from)
    figures_.waited_seconds += seconds(now - from);
  late_until_ = std::max(late_until_, now);
}

void Ledger::corrupt(std::int64_t index, const std::string& error) {
  constexpr std::size_t k_texts = 1000;
  const std::lock_guard lock(mutex_);
  corrupt_.try_emplace(index, corrupt_.size() < k_texts ? error : std::string());
}

void Ledger::replace() {
  const std::lock_guard lock(mutex_);
  ++figures_.replaced;
}

DataLoaderFigures Ledger::figures() const {
  const std::lock_guard lock(mutex_);
  DataLoaderFigures figures = figures_;
  figures.corrupt = static_cast<std::int64_t>(corrupt_.size());
  return figures;
}

std::vector<CorruptSample> Ledger::corrupt_samples() const {
  const std::lock_guard lock(mutex_);
  std::vector<CorruptSample> samples;
  for (const auto& [index, error] : corrupt_)
    samples.push_back({index, error});
  return samples;
}

}  // namespace sluice::gluon::data::detail
