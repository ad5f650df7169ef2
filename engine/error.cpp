#include <memory>
#include <new>

#include <boost/system/system_error.hpp>

#include <sluice/engine/detail/failure.h>
#include <sluice/engine/detail/locate_push.h>
#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>

namespace sluice {

void Error::attach(std::shared_ptr<FailureRecord> record) {
  if (record_ != nullptr)
    return;
  record_ = std::move(record);
  const SourceLocation site = record_->site;
  what_ = sluice::message(
      what_, "\n  in task \"", record_->task, Origin::of(site) == nullptr ? "\" " : "\" of ", describe(site));
}

void Error::locate(const std::string& where) {
  if (located_ || record_ != nullptr)
    return;
  located_ = true;
  what_ += "\n  " + where;
}

namespace detail {

void locate_push(Error& error, SourceLocation site) {
  if (site.line != 0 && Origin::of(site) == nullptr)
    error.locate(message("at ", site.file, ":", site.line));
}

namespace {

// Nests the exception being handled, which is not an Error, in TaskFailed.
FailureRef nested_failure(std::shared_ptr<FailureRecord> record, const std::string& reason) {
  TaskFailed failed("task \"" + record->task + "\" failed: " + reason);
  failed.attach(record);
  return new Failure(std::make_exception_ptr(failed), std::move(record));
}

// Behind what it says Boost puts where in its own headers it was thrown.
std::string reason_of(const boost::system::system_error& error) {
  const std::string text = error.what();
  return text.substr(0, text.rfind(" [" + error.code().to_string()));
}

}  // namespace

void rethrow(const FailureRef& failure) {
  failure->record->reported.store(true);
  std::rethrow_exception(failure->exception);
}

const FailureRef& no_memory_failure() {
  static const auto* made = [] {
    auto record = std::make_shared<FailureRecord>();
    record->task = "(unknown)";
    OutOfMemory error("a task failed, and there was no memory to say how", 0);
    error.attach(record);
    auto failure = std::make_unique<Failure>(std::make_exception_ptr(error), std::move(record));
    auto* kept = new FailureRef;  // leaked: failures may outlive static objects
    *kept = failure.release();
    return kept;
  }();
  return *made;
}

std::shared_ptr<FailureRecord> new_record(const char* task, SourceLocation site, std::uint64_t push_number) noexcept
    try {
  auto record = std::make_shared<FailureRecord>();
  record->task = task;
  record->site = site;
  record->push_number = push_number;
  return record;
} catch (const std::bad_alloc&) {
  return nullptr;
}

namespace {

FailureRef capture(std::shared_ptr<FailureRecord> record) {
  try {
    throw;
  } catch (Error& error) {
    // One that this task met at a wait is published already: attach() leaves it as it is, with its first task.
    error.attach(std::move(record));
    return new Failure(std::current_exception(), error.record());
  } catch (const boost::system::system_error& network) {
    return nested_failure(std::move(record), reason_of(network));
  } catch (const std::exception& other) {
    return nested_failure(std::move(record), other.what());
  } catch (...) {
    return nested_failure(std::move(record), "an exception that is not a std::exception");
  }
}

}  // namespace

FailureRef capture_failure(std::shared_ptr<FailureRecord> record) noexcept {
  try {
    return record == nullptr ? no_memory_failure() : capture(std::move(record));
  } catch (...) {  // the one word to say about it did not find room
    return no_memory_failure();
  }
}

}  // namespace detail
}  // namespace sluice
