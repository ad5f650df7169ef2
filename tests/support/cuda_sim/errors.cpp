// Names and texts of errors.
#include <cuda_runtime_api.h>

namespace {

struct Text {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define SIM_ERROR(error, text) \
  { error, #error, text }
constexpr Text k_texts[] = {
    SIM_ERROR(cudaSuccess, "no error"),
    SIM_ERROR(cudaErrorInvalidValue, "invalid argument"),
    SIM_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    SIM_ERROR(cudaErrorInitializationError, "initialization error"),
    SIM_ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    SIM_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    SIM_ERROR(cudaErrorInvalidHostPointer, "invalid host pointer"),
    SIM_ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    SIM_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    SIM_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    SIM_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    SIM_ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    SIM_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    SIM_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    SIM_ERROR(cudaErrorLossyQuery, "attempted introspection would be semantically lossy"),
    SIM_ERROR(cudaErrorNotReady, "device not ready"),
    SIM_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    SIM_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    SIM_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    SIM_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    SIM_ERROR(cudaErrorAssert, "device-side assert triggered"),
    SIM_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    SIM_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    SIM_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    SIM_ERROR(cudaErrorNotSupported, "operation not supported"),
    SIM_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    SIM_ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    SIM_ERROR(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    SIM_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    SIM_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    SIM_ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    SIM_ERROR(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing stream"),
    SIM_ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    SIM_ERROR(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture from another thread"),
    SIM_ERROR(cudaErrorGraphExecUpdateFailure, "the graph update was not performed: constraints were violated"),
    SIM_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef SIM_ERROR

const Text* find(cudaError_t error) {
  for (const Text& text : k_texts) {
    if (text.error == error)
      return &text;
  }
  return nullptr;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  const Text* found = find(error);
  return found == nullptr ? "unrecognized error code" : found->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const Text* found = find(error);
  return found == nullptr ? "unrecognized error code" : found->text;
}
