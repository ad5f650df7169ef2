#include <algorithm>
#include <atomic>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/error.h>
#include <sluice/operator/library/nvrtc.h>

// The one soname of a major version.
#if CUDART_VERSION >= 13000
#define SLUICE_CUDA_MAJOR "13"
#else
#define SLUICE_CUDA_MAJOR "12"
#endif

namespace sluice::detail {

namespace {

// As nvrtc.h declares it, which a toolkit may come without.
using Program = struct OpaqueProgram*;
struct Calls {
  const char* (*nvrtcGetErrorString)(int);
  int (*nvrtcVersion)(int*, int*);
  int (*nvrtcGetNumSupportedArchs)(int*);
  int (*nvrtcGetSupportedArchs)(int*);
  int (*nvrtcCreateProgram)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*nvrtcDestroyProgram)(Program*);
  int (*nvrtcCompileProgram)(Program, int, const char* const*);
  int (*nvrtcGetCUBINSize)(Program, std::size_t*);
  int (*nvrtcGetCUBIN)(Program, char*);
  int (*nvrtcGetProgramLogSize)(Program, std::size_t*);
  int (*nvrtcGetProgramLog)(Program, char*);
};
Calls calls;

void check(int result, const char* call) {
  if (result != 0) [[unlikely]]
    throw LibraryError(message(call, ": ", calls.nvrtcGetErrorString(result)));
}

struct Made {
  Program program = nullptr;
  ~Made() { calls.nvrtcDestroyProgram(&program); }
};

std::string log_of(Program program) {
  std::size_t size = 0;
  if (calls.nvrtcGetProgramLogSize(program, &size) != 0 || size <= 1)
    return "";
  std::string log(size, '\0');
  check(calls.nvrtcGetProgramLog(program, log.data()), "nvrtcGetProgramLog");
  log.resize(size - 1);
  return log;
}

}  // namespace

SharedLibrary& nvrtc_library() {
  static auto* const library = new SharedLibrary(
      {"NVRTC " SLUICE_CUDA_MAJOR,
       "libnvrtc.so." SLUICE_CUDA_MAJOR,
       "NVRTC " SLUICE_CUDA_MAJOR " (of the CUDA toolkit, or cuda-nvrtc in NVIDIA's package archives)"},
      [](const SharedLibrary& loaded) {
#define SLUICE_FIND(name) loaded.find(#name, calls.name)
        SLUICE_FIND(nvrtcGetErrorString);
        SLUICE_FIND(nvrtcVersion);
        SLUICE_FIND(nvrtcGetNumSupportedArchs);
        SLUICE_FIND(nvrtcGetSupportedArchs);
        SLUICE_FIND(nvrtcCreateProgram);
        SLUICE_FIND(nvrtcDestroyProgram);
        SLUICE_FIND(nvrtcCompileProgram);
        SLUICE_FIND(nvrtcGetCUBINSize);
        SLUICE_FIND(nvrtcGetCUBIN);
        SLUICE_FIND(nvrtcGetProgramLogSize);
        SLUICE_FIND(nvrtcGetProgramLog);
#undef SLUICE_FIND
      });
  return *library;
}

std::string nvrtc_version() {
  int major = 0, minor = 0;
  check(calls.nvrtcVersion(&major, &minor), "nvrtcVersion");
  return message(major, ".", minor);
}

std::vector<int> nvrtc_capabilities() {
  int count = 0;
  check(calls.nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> all(static_cast<std::size_t>(count));
  check(calls.nvrtcGetSupportedArchs(all.data()), "nvrtcGetSupportedArchs");
  return all;
}

int nvrtc_target(int capability, std::span<const int> known) noexcept {
  int target = 0;
  for (const int one : known) {
    if (one / 10 == capability / 10 && one <= capability)
      target = std::max(target, one);
  }
  return target;
}

std::span<const char* const> nvrtc_flags() noexcept {
  static constexpr const char* k_flags[] = {
      "--std=c++20", "--ftz=true", "--device-as-default-execution-space", "--no-source-include"};
  return k_flags;
}

int gpu_capability(int gpu) {
  constexpr int k_known = 64;
  static std::atomic<int> known[k_known];
  if (gpu < k_known && known[gpu].load(std::memory_order_relaxed) != 0)
    return known[gpu].load(std::memory_order_relaxed);
  int major = 0, minor = 0;
  cuda::cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu), "cudaDeviceGetAttribute");
  cuda::cuda_check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu), "cudaDeviceGetAttribute");
  if (gpu < k_known)
    known[gpu].store(10 * major + minor, std::memory_order_relaxed);
  return 10 * major + minor;
}

std::string why_no_nvrtc(int capability) {
  if (!nvrtc_library().load())
    return nvrtc_library().problem();
  if (nvrtc_target(capability, nvrtc_capabilities()) != 0)
    return "";
  return message(
      "NVRTC ", nvrtc_version(), " compiles nothing for compute capability ", capability / 10, ".", capability % 10);
}

std::string nvrtc_compile(const NvrtcSource& source, int target, std::string& refusal) {
  constexpr int k_does_not_compile = 6;  // NVRTC_ERROR_COMPILATION
  std::vector<const char*> texts, names;
  for (const fused::EmbeddedHeader& header : source.headers) {
    texts.push_back(header.text);
    names.push_back(header.name);
  }
  Made made;
  const int count = static_cast<int>(names.size());
  check(
      calls.nvrtcCreateProgram(&made.program, source.text.c_str(), source.name, count, texts.data(), names.data()),
      "nvrtcCreateProgram");
  const std::string architecture = message("--gpu-architecture=sm_", target);
  std::vector<const char*> flags(source.flags.begin(), source.flags.end());
  flags.push_back(architecture.c_str());
  const int result = calls.nvrtcCompileProgram(made.program, static_cast<int>(flags.size()), flags.data());
  if (result == k_does_not_compile) {
    refusal = log_of(made.program);
    return "";
  }
  if (result != 0)
    throw LibraryError(message("NVRTC: ", calls.nvrtcGetErrorString(result), ":\n", log_of(made.program)));
  std::size_t size = 0;
  check(calls.nvrtcGetCUBINSize(made.program, &size), "nvrtcGetCUBINSize");
  std::string code(size, '\0');
  check(calls.nvrtcGetCUBIN(made.program, code.data()), "nvrtcGetCUBIN");
  return code;
}

}  // namespace sluice::detail
