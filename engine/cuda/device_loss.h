#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <sluice/engine/detail/failure.h>
#include <sluice/engine/error.h>
#include <sluice/engine/source_location.h>

namespace sluice::detail {

struct Gpu;

/// Whether a GPU has failed for good, who may have been it, and what everybody else is told. Owned by Gpu, for any
/// thread.
class DeviceLoss {
 public:
  explicit DeviceLoss(Gpu& gpu) : gpu_(gpu) {}

  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// Throws what is wrong with the device, if it is lost.
  void check_alive();
  /// To be called in a handler: if the exception says that the device is lost, notes that and throws DeviceLost;
  /// otherwise throws it again.
  [[noreturn]] void rethrow_if_lost();
  /// In a handler: notes it, and goes on.
  void note_if_lost() noexcept;
  /// In a handler: the exception as the failure of that task, noted if the device is lost by it. For lack of memory
  /// as capture_failure() says.
  FailureRef caught(std::shared_ptr<FailureRecord> record) noexcept;
  /// The same where there is no task.
  FailureRef caught(const char* name, SourceLocation site = {}, std::uint64_t push_number = 0) noexcept;
  /// Not the driver's word, but ours: it fails at what nobody can do without.
  void declare(const FailureRef& why) noexcept;

 private:
  [[noreturn]] void throw_lost();
  void note(const CudaError& error) noexcept;
  std::string text_of(const CudaError& error) const;

  Gpu& gpu_;
  std::atomic<bool> lost_{false};
  std::mutex mutex_;
  std::string text_;
  int code_ = 0;
};

}  // namespace sluice::detail
