#pragma once

// What DLPack's specification says of memory (versions 0 and 1 of its ABI): structs that libraries exchange arrays by.
// Their names are the specification's, so that whoever includes a dlpack.h hands its own to dlpack.h of ours.
#include <cstdint>

enum DLDeviceType : std::int32_t {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,  // page-locked by CUDA
  kDLCUDAManaged = 13,
};

struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;
};

enum DLDataTypeCode : std::uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLOpaqueHandle = 3,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6,
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // elements; null: row by row without gaps
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

// What stands before `flags` stays as it is in every version, so that a tensor of an unknown one can be given back.
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

namespace sluice::detail {

inline constexpr DLPackVersion k_dlpack_version{1, 0};
inline constexpr std::uint64_t k_dlpack_read_only = 1;  // the consumer may not write
inline constexpr std::uint64_t k_dlpack_copied = 2;     // nobody else knows this memory

static_assert(sizeof(DLTensor) == 48 && sizeof(DLManagedTensor) == 64 && sizeof(DLManagedTensorVersioned) == 80);

}  // namespace sluice::detail
