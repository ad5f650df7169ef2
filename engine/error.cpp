#include <sluice/engine/detail/failure.h>
#include <sluice/engine/error.h>

namespace sluice {

void Error::attach(std::shared_ptr<FailureRecord> record) {
  if (record_ != nullptr)
    return;
  record_ = std::move(record);
  what_ = sluice::message(
      message_, "\n  in task \"", record_->task, "\" pushed at ", record_->site.file, ":", record_->site.line);
}

namespace detail {

namespace {

// Nests the exception being handled, which is not an Error, in TaskFailed.
FailureRef nested_failure(std::shared_ptr<FailureRecord> record, const std::string& reason) {
  TaskFailed failed("task \"" + record->task + "\" failed: " + reason);
  failed.attach(record);
  return std::make_shared<Failure>(Failure{std::make_exception_ptr(failed), std::move(record)});
}

}  // namespace

void rethrow(const FailureRef& failure) {
  failure->record->reported.store(true);
  std::rethrow_exception(failure->exception);
}

FailureRef capture_failure(std::shared_ptr<FailureRecord> record) {
  try {
    throw;
  } catch (Error& error) {
    // An error that this task met at a wait is published already: it keeps its first task, and is not touched.
    if (error.record() == nullptr)
      error.attach(record);
    return std::make_shared<Failure>(Failure{std::current_exception(), error.record()});
  } catch (const std::exception& other) {
    return nested_failure(std::move(record), other.what());
  } catch (...) {
    return nested_failure(std::move(record), "an exception that is not a std::exception");
  }
}

}  // namespace detail
}  // namespace sluice
