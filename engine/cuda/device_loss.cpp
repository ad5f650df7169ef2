// When a GPU fails for good: who may have been it, and what everybody else is told.
#include <algorithm>

#include <sluice/engine/cuda/issuer.h>
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
  };
  return std::find(std::begin(errors), std::end(errors), static_cast<cudaError_t>(code)) != std::end(errors);
}

}  // namespace

void Issuer::lose(const CudaError& error) {
  const std::lock_guard hold(lost_mutex_);
  if (lost_.load(std::memory_order_relaxed))
    return;
  std::vector<std::string> suspects;
  for (int i = 1; i < lanes_.count(); ++i) {
    const Lane& lane = lanes_.at(static_cast<std::uint16_t>(i));
    if (lane.device() == device_)
      lane.list_unfinished(suspects, k_suspects);
  }
  std::string text = message(device_, " is lost: ", error.what(), "; it was one of the tasks under way:");
  for (const std::string& suspect : suspects)
    text += ' ' + suspect;
  if (suspects.size() == k_suspects)
    text += " and more";
  lost_text_ = std::move(text);
  lost_code_ = error.code();
  lost_.store(true, std::memory_order_release);
}

// Not the driver's word, but ours: it fails at what nobody can do without.
void Issuer::lose(const FailureRef& why) noexcept try {
  try {
    std::rethrow_exception(why->exception);
  } catch (const CudaError& error) {
    lose(error);
  } catch (const std::exception& error) {
    lose(CudaError(error.what(), cudaErrorUnknown));
  }
} catch (...) {  // no memory for the text
  lost_.store(true, std::memory_order_release);
}

void Issuer::check_alive() {
  if (!lost())
    return;
  const std::lock_guard hold(lost_mutex_);
  if (lost_text_.empty())
    throw DeviceLost("a GPU is lost", cudaErrorUnknown);
  throw DeviceLost(lost_text_, lost_code_);  // a new one each time: who catches it may write into it (Error::locate)
}

std::shared_ptr<FailureRecord> Issuer::record_named(const char* name, SourceLocation site, std::uint64_t push_number) {
  auto record = std::make_shared<FailureRecord>();
  record->task = name;
  record->site = site;
  record->push_number = push_number;
  return record;
}

// Each task has an exception of its own, which carries its name.
FailureRef Issuer::lost_failure(std::shared_ptr<FailureRecord> record) {
  try {
    throw DeviceLost(lost_text_, lost_code_);
  } catch (...) {
    return capture_failure(std::move(record));
  }
}

// In a handler.
FailureRef Issuer::caught(std::shared_ptr<FailureRecord> record) {
  try {
    throw;
  } catch (const DeviceLost&) {
  } catch (const CudaError& error) {
    if (is_for_good(error.code())) {
      lose(error);
      return lost_failure(std::move(record));
    }
  } catch (...) {
  }
  return capture_failure(std::move(record));
}

void Issuer::rethrow_if_lost() {
  try {
    throw;
  } catch (const DeviceLost&) {
    throw;
  } catch (const CudaError& error) {
    if (!is_for_good(error.code()))
      throw;
    lose(error);
  }
  check_alive();
}

}  // namespace sluice::detail
