#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/driver_function.h>
#include <sluice/operator/library/tensor_map_cuda.h>

namespace sluice::detail {
namespace {

constexpr cuuint64_t k_each = 2;  // bytes of a number
constexpr cuuint32_t k_of_line = k_box_line / k_each;

CUtensorMapDataType type_of(DType dtype) {
  return dtype == DType::float16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

/// Whether the driver describes it. A thread whose first call this is has no context before it takes its GPU.
template <class Encode>
bool succeeds(const Encode& encode) {
  const CUresult result = encode();
  if (result != CUDA_ERROR_INVALID_CONTEXT)
    return result == CUDA_SUCCESS;
  int gpu = 0;
  if (cudaGetDevice(&gpu) == cudaSuccess && cudaSetDevice(gpu) == cudaSuccess)
    return encode() == CUDA_SUCCESS;
  cudaGetLastError();
  return false;
}

}  // namespace

bool describe_images(CUtensorMap& map, const ImageMap& of, int pixels) {
  static auto* const encode = driver_function<decltype(cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
  if (encode == nullptr)
    return false;
  const auto channels = static_cast<cuuint64_t>(of.channels), width = static_cast<cuuint64_t>(of.width);
  const auto height = static_cast<cuuint64_t>(of.height), images = static_cast<cuuint64_t>(of.images);
  const cuuint64_t extents[] = {channels, width, height, images};
  const cuuint64_t strides[] = {channels * k_each, channels * width * k_each, channels * width * height * k_each};
  const int first[] = {static_cast<int>(-of.pad[1]), static_cast<int>(-of.pad[0])};
  const int last[] = {static_cast<int>(of.beyond[1]), static_cast<int>(of.beyond[0])};
  const cuuint32_t steps[] = {1, static_cast<cuuint32_t>(of.stride[1]), static_cast<cuuint32_t>(of.stride[0]), 1};
  return succeeds([&] {
    return encode(
        &map,
        type_of(of.dtype),
        4,
        const_cast<void*>(of.data),
        extents,
        strides,
        first,
        last,
        k_of_line,
        static_cast<cuuint32_t>(pixels),
        steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  });
}

bool describe_lines(CUtensorMap& map, const LineMap& of, int outer) {
  static auto* const encode = driver_function<decltype(cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  if (encode == nullptr)
    return false;
  const auto channels = static_cast<cuuint64_t>(of.channels), inner = static_cast<cuuint64_t>(of.inner);
  const cuuint64_t extents[] = {channels, inner, static_cast<cuuint64_t>(of.outer)};
  const cuuint64_t strides[] = {channels * k_each, channels * inner * k_each};
  const cuuint32_t box[] = {k_of_line, 1, static_cast<cuuint32_t>(outer)}, steps[] = {1, 1, 1};
  return succeeds([&] {
    return encode(
        &map,
        type_of(of.dtype),
        3,
        const_cast<void*>(of.data),
        extents,
        strides,
        box,
        steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  });
}

}  // namespace sluice::detail
