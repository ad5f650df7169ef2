#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <sluice/engine/detail/fork_watch.h>

namespace sluice::detail {

/// A table that is read with every call and added to a few times in a process's life. Readers take no lock, so that a
/// fork finds none of theirs taken; who adds writes a copy. Copies are kept, since somebody may still read them: for
/// tables that are never destroyed.
template <class Table>
class Grown {
 public:
  explicit Grown(Table first) : now_(all_.emplace_back(std::make_unique<const Table>(std::move(first))).get()) {}
  Grown(const Grown&) = delete;
  Grown& operator=(const Grown&) = delete;

  /// As it is now; it does not change.
  const Table& now() const noexcept { return *now_.load(std::memory_order_acquire); }

  /// What `add(table)` makes of a copy counts from then on. One thread at a time; if it throws all is as before.
  template <class Add>
  void add(const Add& add) {
    const std::lock_guard hold(mutex_);
    auto next = std::make_unique<Table>(now());
    add(*next);
    const Table* const made = all_.emplace_back(std::move(next)).get();
    now_.store(made, std::memory_order_release);
  }

 private:
  std::mutex mutex_;
  const HeldOverForks held_{mutex_};
  std::vector<std::unique_ptr<const Table>> all_;  // the last one counts
  std::atomic<const Table*> now_;
};

}  // namespace sluice::detail
