#pragma once

#include <exception>
#include <memory>

#include <sluice/engine/error.h>

namespace sluice::detail {

/// A published failure: what a wait rethrows, and the record that it shares with the exception.
struct Failure {
  std::exception_ptr exception;
  std::shared_ptr<FailureRecord> record;
};
using FailureRef = std::shared_ptr<const Failure>;

/// What is wrong with a Var. Lost: the value is not what the program says. Stale: intact, but an update is missing.
struct Poison {
  FailureRef failure;
  bool lost = false;

  /// True while reading the Var must fail.
  bool holds() const noexcept { return failure != nullptr && (lost || !failure->record->forgiven.load()); }
};

/// Wraps the exception being handled: an Error gets `record` attached (unless it has one from an earlier task),
/// anything else is nested in TaskFailed. Call inside a catch block, before publishing.
FailureRef capture_failure(std::shared_ptr<FailureRecord> record);
/// Throws it at a wait, and notes that somebody knows now.
[[noreturn]] void rethrow(const FailureRef& failure);

}  // namespace sluice::detail
