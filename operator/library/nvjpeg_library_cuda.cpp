#include <cuda_runtime_api.h>

#include <sluice/operator/library/nvjpeg_calls_cuda.h>
#include <sluice/operator/library/shared_library.h>

// The one soname of a major version.
#if CUDART_VERSION >= 13000
#define SLUICE_NVJPEG_MAJOR "13"
#else
#define SLUICE_NVJPEG_MAJOR "12"
#endif

namespace sluice::detail::nvjpeg {

namespace {

Calls found;

}  // namespace

const Calls* calls() {
  static auto* const library = new SharedLibrary(
      {"nvJPEG " SLUICE_NVJPEG_MAJOR,
       "libnvjpeg.so." SLUICE_NVJPEG_MAJOR,
       "nvJPEG " SLUICE_NVJPEG_MAJOR " (of the CUDA toolkit, or libnvjpeg in NVIDIA's package archives)"},
      [](const SharedLibrary& loaded) {
#define SLUICE_FIND(name) loaded.find(#name, found.name)
        SLUICE_FIND(nvjpegCreateEx);
        SLUICE_FIND(nvjpegDestroy);
        SLUICE_FIND(nvjpegDecoderCreate);
        SLUICE_FIND(nvjpegDecoderDestroy);
        SLUICE_FIND(nvjpegDecoderStateCreate);
        SLUICE_FIND(nvjpegJpegStateDestroy);
        SLUICE_FIND(nvjpegJpegStreamCreate);
        SLUICE_FIND(nvjpegJpegStreamDestroy);
        SLUICE_FIND(nvjpegDecodeParamsCreate);
        SLUICE_FIND(nvjpegDecodeParamsDestroy);
        SLUICE_FIND(nvjpegDecodeParamsSetOutputFormat);
        SLUICE_FIND(nvjpegBufferPinnedCreate);
        SLUICE_FIND(nvjpegBufferPinnedDestroy);
        SLUICE_FIND(nvjpegBufferDeviceCreateV2);
        SLUICE_FIND(nvjpegBufferDeviceDestroy);
        SLUICE_FIND(nvjpegStateAttachPinnedBuffer);
        SLUICE_FIND(nvjpegStateAttachDeviceBuffer);
        SLUICE_FIND(nvjpegJpegStreamParse);
        SLUICE_FIND(nvjpegJpegStreamGetFrameDimensions);
        SLUICE_FIND(nvjpegDecoderJpegSupported);
        SLUICE_FIND(nvjpegDecodeJpegHost);
        SLUICE_FIND(nvjpegDecodeJpegTransferToDevice);
        SLUICE_FIND(nvjpegDecodeJpegDevice);
#undef SLUICE_FIND
      });
  return library->load() ? &found : nullptr;
}

}  // namespace sluice::detail::nvjpeg
