#include <algorithm>
#include <new>

#include <sluice/engine/cuda/gpu.h>
#include <sluice/engine/detail/core.h>

namespace sluice::detail {

namespace {

constexpr std::size_t k_suspects = 16;

// Errors after which the driver answers every call on the device with the same error.
bool is_for_good(int code) noexcept {
  constexpr cudaError_t errors[] = {
      cudaErrorIllegalAddress,
      cudaErrorLaunchTimeout,
      cudaErrorAssert,
      cudaErrorHardwareStackError,
      cudaErrorIllegalInstruction,
      cudaErrorMisalignedAddress,
      cudaErrorInvalidAddressSpace,
      cudaErrorInvalidPc,
      cudaErrorLaunchFailure,
      cudaErrorECCUncorrectable,
      cudaErrorExternalDevice,
      cudaErrorContained,
      cudaErrorTensorMemoryLeak,
      cudaErrorMpsClientTerminated,
  };
  return std::find(std::begin(errors), std::end(errors), static_cast<cudaError_t>(code)) != std::end(errors);
}

}  // namespace

std::string DeviceLoss::text_of(const CudaError& error) const {
  std::vector<std::string> suspects;
  for (int i = 1; i < gpu_.logical.count(); ++i) {
    const LogicalStream& logical = gpu_.logical.at(static_cast<std::uint16_t>(i));
    if (logical.device() == gpu_.device)
      logical.list_unfinished(suspects, k_suspects);
  }
  std::string text = message(gpu_.device, " is lost: ", error.what(), "; it was one of the tasks under way:");
  for (const std::string& suspect : suspects)
    text += ' ' + suspect;
  if (suspects.size() == k_suspects)
    text += " and more";
  return text;
}

void DeviceLoss::note(const CudaError& error) noexcept {
  const std::lock_guard hold(mutex_);
  if (lost_.load(std::memory_order_relaxed))
    return;
  try {
    text_ = text_of(error);
  } catch (const std::bad_alloc&) {  // lost all the same
  }
  code_ = error.code();
  lost_.store(true, std::memory_order_release);
}

void DeviceLoss::declare(const FailureRef& why) noexcept try {
  try {
    std::rethrow_exception(why->exception);
  } catch (const CudaError& error) {
    note(error);
  } catch (const std::exception& error) {
    note(CudaError(error.what(), cudaErrorUnknown));
  }
} catch (...) {  // no memory for the text
  lost_.store(true, std::memory_order_release);
}

void DeviceLoss::check_alive() {
  if (lost())
    throw_lost();
}

void DeviceLoss::throw_lost() {
  const std::lock_guard hold(mutex_);
  if (text_.empty())
    throw DeviceLost("a GPU is lost", code_ == 0 ? cudaErrorUnknown : code_);
  throw DeviceLost(text_, code_);  // a new one each time: who catches it may write into it (Error::locate)
}

FailureRef DeviceLoss::caught(std::shared_ptr<FailureRecord> record) noexcept {
  try {
    rethrow_if_lost();
  } catch (...) {
    return capture_failure(std::move(record));
  }
}

FailureRef DeviceLoss::caught(const char* name, SourceLocation site, std::uint64_t push_number) noexcept {
  return caught(new_record(name, site, push_number));
}

void DeviceLoss::rethrow_if_lost() {
  try {
    throw;
  } catch (const DeviceLost&) {
    throw;
  } catch (const CudaError& error) {
    if (!is_for_good(error.code()))
      throw;
    note(error);
  }
  throw_lost();
}

void DeviceLoss::note_if_lost() noexcept try { rethrow_if_lost(); } catch (...) {
}

}  // namespace sluice::detail
