#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include <sluice/engine/device.h>
#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>

namespace sluice {

/// What is known of one failed task. One record is shared by every Var and every exception that the failure reaches.
struct FailureRecord {
  std::string task = {};
  SourceLocation site = {};
  std::uint64_t push_number = 0;
  std::atomic<bool> forgiven{false};
  std::atomic<bool> reported{false};
};

/// Base of everything that Sluice throws. `what()` holds the message and, for a failure inside a task, the task's
/// name and the file and line of its push.
class SLUICE_API Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)), what_(message_) {}

  const char* what() const noexcept override { return what_.c_str(); }
  const std::string& message() const noexcept { return message_; }

  /// The failed task; null when the error was thrown to the caller without passing through a task.
  const std::shared_ptr<FailureRecord>& record() const noexcept { return record_; }

  /// Gives the error its task, before the error is published to other threads. A second call changes nothing.
  void attach(std::shared_ptr<FailureRecord> record);
  /// Adds a line to what(): where in the user's program the error arose. For errors on their way to who called. Nothing
  /// changes where an inner call has said so already, or the error comes from a task, which others may be reading.
  void locate(const std::string& where);

 private:
  std::string message_;
  std::string what_;
  bool located_ = false;
  std::shared_ptr<FailureRecord> record_;
};

/// Shapes that do not fit each other or the operator.
class SLUICE_API ShapeError : public Error {
  using Error::Error;
};
/// Element types that the operator does not take.
class SLUICE_API DTypeError : public Error {
  using Error::Error;
};
/// Operands on different devices, or a device that is not there.
class SLUICE_API DeviceError : public Error {
  using Error::Error;
};
/// An argument outside its range, an unknown name, an uninitialised parameter.
class SLUICE_API ValueError : public Error {
  using Error::Error;
};
/// An index outside an axis.
class SLUICE_API IndexError : public Error {
  using Error::Error;
};
/// A missing, truncated or foreign file.
class SLUICE_API FileError : public Error {
  using Error::Error;
};
/// An operator without a kernel for this device and element type.
class SLUICE_API UnsupportedError : public Error {
  using Error::Error;
};
/// A library that is loaded when it is first needed (cuDNN, cuBLASLt) and is not there, or lacks what is needed of it.
/// The message names the library, the operator that asked, what was tried and what to install.
class SLUICE_API LibraryError : public Error {
  using Error::Error;
};
/// Misuse of the tape: backward without a recording, a value changed between forward and backward.
class SLUICE_API AutogradError : public Error {
  using Error::Error;
};
/// A push after the engine stopped, or on an engine that is gone.
class SLUICE_API EngineStopped : public Error {
  using Error::Error;
};
/// A wait that could never end: a task waiting for what it holds itself, bodies for each other, or more bodies that
/// wait in one another than threads and stacks can hold.
class SLUICE_API Deadlock : public Error {
  using Error::Error;
};
/// A thread that the system does not give: an engine without any cannot run tasks.
class SLUICE_API ThreadError : public Error {
  using Error::Error;
};
/// A cancelled task, as seen by those who wait for what it should have written.
class SLUICE_API Cancelled : public Error {
  using Error::Error;
};
/// A task whose TaskCompletion was dropped before it had ended the task.
class SLUICE_API AbandonedCompletion : public Error {
  using Error::Error;
};
/// In a child process: what was under way in the parent when it forked, a GPU, or an engine whose own task forked.
class SLUICE_API Forked : public Error {
  using Error::Error;
};
/// A task whose body threw something that is not an Error; the original is nested (std::rethrow_if_nested).
class SLUICE_API TaskFailed : public Error, public std::nested_exception {
  using Error::Error;
};

/// Memory could not be had, even after caches were trimmed and pending work was waited for.
class SLUICE_API OutOfMemory : public Error {
 public:
  OutOfMemory(std::string message, std::size_t requested) : Error(std::move(message)), requested_(requested) {}
  /// Bytes that were asked for.
  std::size_t requested() const noexcept { return requested_; }

 private:
  std::size_t requested_;
};

/// A failed call of CUDA or of one of its libraries; the message names the call and the library's own text.
class SLUICE_API CudaError : public Error {
 public:
  CudaError(std::string message, int code) : Error(std::move(message)), code_(code) {}
  int code() const noexcept { return code_; }

 private:
  int code_;
};

/// A GPU that has failed for good (an illegal address in a kernel, an uncorrectable memory error). The message names
/// the tasks that it may have been. Whatever uses that GPU in this process fails; CPUs and other GPUs go on.
class SLUICE_API DeviceLost : public CudaError {
  using CudaError::CudaError;
};

/// Joins its arguments as `<<` prints them; for error texts, which are built on failure only.
template <class... Parts>
std::string message(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

/// Throws E(text()) unless `holds`; `text` is called on failure only.
template <class E = ValueError, class Text>
inline void require(bool holds, Text&& text) {
  if (!holds) [[unlikely]]
    throw E(std::forward<Text>(text)());
}

}  // namespace sluice
