#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <sluice/engine/error.h>

namespace sluice::detail {

/// A published failure: what a wait rethrows, and the record that it shares with the exception.
struct Failure {
  Failure(std::exception_ptr thrown, std::shared_ptr<FailureRecord> of) noexcept
      : exception(std::move(thrown)), record(std::move(of)) {}
  std::exception_ptr exception;
  std::shared_ptr<FailureRecord> record;
  mutable std::atomic<int> references{0};
};
inline void intrusive_ptr_add_ref(const Failure* failure) noexcept {
  failure->references.fetch_add(1, std::memory_order_relaxed);
}
inline void intrusive_ptr_release(const Failure* failure) noexcept {
  if (failure->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete failure;
}
using FailureRef = boost::intrusive_ptr<const Failure>;

/// What is wrong with a Var. Lost: the value is not what the program says. Stale: intact, but an update is missing.
/// One word: a Var fails without memory.
class Poison {
 public:
  Poison() = default;
  Poison(FailureRef failure, bool lost) noexcept
      : bits_(reinterpret_cast<std::uintptr_t>(failure.detach()) | (lost ? k_lost : 0)) {}
  Poison(const Poison& other) noexcept : Poison(other.failure(), other.lost()) {}
  Poison(Poison&& other) noexcept : bits_(std::exchange(other.bits_, 0)) {}
  Poison& operator=(Poison other) noexcept {
    std::swap(bits_, other.bits_);
    return *this;
  }
  ~Poison() {
    if (const Failure* failure = get())
      intrusive_ptr_release(failure);
  }

  explicit operator bool() const noexcept { return bits_ != 0; }
  FailureRef failure() const noexcept { return FailureRef(get()); }
  bool lost() const noexcept { return (bits_ & k_lost) != 0; }
  /// True while reading the Var must fail.
  bool holds() const noexcept { return bits_ != 0 && (lost() || !get()->record->forgiven.load()); }

 private:
  static constexpr std::uintptr_t k_lost = 1;
  const Failure* get() const noexcept { return reinterpret_cast<const Failure*>(bits_ & ~k_lost); }
  std::uintptr_t bits_ = 0;
};

/// Wraps the exception being handled: an Error gets `record` attached (unless it has one from an earlier task),
/// anything else is nested in TaskFailed. Call inside a catch block, before publishing. Without memory for that, or
/// without a record: no_memory_failure().
FailureRef capture_failure(std::shared_ptr<FailureRecord> record) noexcept;
/// A new record for one failure; null where there is no memory.
std::shared_ptr<FailureRecord> new_record(const char* task, SourceLocation site, std::uint64_t push_number) noexcept;
/// OutOfMemory, for failures of whatever kind for whose description there was no memory: made beforehand, one for all.
/// That one was reported or forgiven says nothing of another. The first call may throw std::bad_alloc.
const FailureRef& no_memory_failure();
/// Throws it at a wait, and notes that somebody knows now.
[[noreturn]] void rethrow(const FailureRef& failure);

}  // namespace sluice::detail
