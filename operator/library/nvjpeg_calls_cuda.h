#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

// What is called of nvJPEG 12 and 13. Its header may be missing where its library is not, and the other way round, so
// types and functions are declared here as the library has them.
namespace sluice::detail::nvjpeg {

enum Status : int {
  k_success = 0,
  k_bad_jpeg = 3,
  k_jpeg_not_supported = 4,
  k_allocator_failure = 5,
};
enum Backend : int { k_hybrid = 1 };  // Huffman codes on the CPU, all else on the GPU
enum OutputFormat : int { k_luma = 2, k_rgb_interleaved = 5 };
/// Files that break the standard are refused; chroma is upsampled as libjpeg does by itself.
constexpr unsigned k_strict = 1 << 2, k_interpolated_chroma = 1 << 5;

struct Image {
  unsigned char* channel[4];
  std::size_t pitch[4];
};
struct DeviceAllocator {
  int (*take)(void* context, void** memory, std::size_t bytes, cudaStream_t stream);
  int (*give)(void* context, void* memory, std::size_t bytes, cudaStream_t stream);
  void* context;
};

using Handle = struct OpaqueHandle*;
using State = struct OpaqueState*;
using Decoder = struct OpaqueDecoder*;
using Params = struct OpaqueParams*;
using Bitstream = struct OpaqueBitstream*;
using PinnedBuffer = struct OpaquePinnedBuffer*;
using DeviceBuffer = struct OpaqueDeviceBuffer*;

struct Calls {
  Status (*nvjpegCreateEx)(Backend, void* device_allocator, void* pinned_allocator, unsigned flags, Handle*);
  Status (*nvjpegDestroy)(Handle);
  Status (*nvjpegDecoderCreate)(Handle, Backend, Decoder*);
  Status (*nvjpegDecoderDestroy)(Decoder);
  Status (*nvjpegDecoderStateCreate)(Handle, Decoder, State*);
  Status (*nvjpegJpegStateDestroy)(State);
  Status (*nvjpegJpegStreamCreate)(Handle, Bitstream*);
  Status (*nvjpegJpegStreamDestroy)(Bitstream);
  Status (*nvjpegDecodeParamsCreate)(Handle, Params*);
  Status (*nvjpegDecodeParamsDestroy)(Params);
  Status (*nvjpegDecodeParamsSetOutputFormat)(Params, OutputFormat);
  Status (*nvjpegBufferPinnedCreate)(Handle, void* pinned_allocator, PinnedBuffer*);
  Status (*nvjpegBufferPinnedDestroy)(PinnedBuffer);
  Status (*nvjpegBufferDeviceCreateV2)(Handle, DeviceAllocator*, DeviceBuffer*);
  Status (*nvjpegBufferDeviceDestroy)(DeviceBuffer);
  Status (*nvjpegStateAttachPinnedBuffer)(State, PinnedBuffer);
  Status (*nvjpegStateAttachDeviceBuffer)(State, DeviceBuffer);
  Status (*nvjpegJpegStreamParse)(
      Handle, const unsigned char* data, std::size_t length, int save_metadata, int save_stream, Bitstream);
  Status (*nvjpegJpegStreamGetFrameDimensions)(Bitstream, unsigned* width, unsigned* height);
  /// Writes 0 where it is.
  Status (*nvjpegDecoderJpegSupported)(Decoder, Bitstream, Params, int* is_not);
  Status (*nvjpegDecodeJpegHost)(Handle, Decoder, State, Params, Bitstream);
  Status (*nvjpegDecodeJpegTransferToDevice)(Handle, Decoder, State, Bitstream, cudaStream_t);
  Status (*nvjpegDecodeJpegDevice)(Handle, Decoder, State, Image*, cudaStream_t);
};

/// The library's functions, looked up at first use; null where it is missing.
const Calls* calls();

}  // namespace sluice::detail::nvjpeg
