// Devices, and errors.
#include <cstdio>
#include <string_view>
#include <utility>

#include <cuda.h>

#include "tests/support/cuda_sim/world.h"

using namespace sluice::test::sim;

cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&](World& all, Lock&) {
    *count = all.options.devices;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", [&](World& all, Lock&) {
    *device = all.current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&](World& all, Lock&) {
    all.device(device);
    all.host().device = device;
    all.check_device(device);  // it is current all the same
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [](World& all, Lock& hold) {
    const int index = all.current_device();
    all.check_unsafe();
    bool capturing = false;
    for (const CaptureRef& capture : all.captures) {
      if (!capture->ended && capture->origin->device == index) {
        World::invalidate(*capture);
        capturing = true;
      }
    }
    if (capturing)
      return cudaErrorStreamCaptureUnsupported;
    all.wait_device(hold, index);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call("cudaDeviceGetStreamPriorityRange", [&](World& all, Lock&) {
    all.current_device();
    if (least != nullptr)
      *least = 0;
    if (greatest != nullptr)
      *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  static constexpr std::pair<cudaDeviceAttr, int> k_attributes[] = {
      {cudaDevAttrMultiProcessorCount, 132},
      {cudaDevAttrComputeCapabilityMajor, 9},
      {cudaDevAttrComputeCapabilityMinor, 0},
      {cudaDevAttrMaxThreadsPerBlock, 1024},
      {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
      {cudaDevAttrWarpSize, 32},
      {cudaDevAttrConcurrentKernels, 1},
      {cudaDevAttrAsyncEngineCount, 3},
      {cudaDevAttrCanMapHostMemory, 1},
      {cudaDevAttrUnifiedAddressing, 1},
      {cudaDevAttrManagedMemory, 1},
      {cudaDevAttrMemoryPoolsSupported, 1},
      {cudaDevAttrStreamPrioritiesSupported, 1},
      {cudaDevAttrClockRate, 1'000'000},
  };
  return call("cudaDeviceGetAttribute", [&](World& all, Lock&) {
    all.check_device(device);
    if (attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin) {
      *value = all.shared_memory;
      return cudaSuccess;
    }
    for (const auto& [known, answer] : k_attributes) {
      if (known == attribute) {
        *value = answer;
        return cudaSuccess;
      }
    }
    return cudaErrorNotSupported;
  });
}

/// Kernels here have what room they name.
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return call("cudaFuncSetAttribute", [&](World&, Lock&) { return cudaSuccess; });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", [&](World& all, Lock&) {
    all.check_device(device);
    *properties = cudaDeviceProp{};
    std::snprintf(properties->name, sizeof properties->name, "Simulated GPU %d", device);
    properties->totalGlobalMem = all.options.memory;
    properties->multiProcessorCount = 132;
    properties->major = 9;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->warpSize = 32;
    properties->concurrentKernels = 1;
    properties->asyncEngineCount = 3;
    properties->canMapHostMemory = 1;
    properties->unifiedAddressing = 1;
    properties->memoryPoolsSupported = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call("cudaDeviceCanAccessPeer", [&](World& all, Lock&) {
    all.check_device(device);
    all.check_device(peer);
    *can = device != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return call("cudaDeviceEnablePeerAccess", [&](World& all, Lock&) {
    const int current = all.current_device();
    all.check_device(peer);
    if (peer == current)
      return cudaErrorInvalidDevice;
    if (flags != 0)
      return cudaErrorInvalidValue;
    return all.peers.emplace(current, peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

namespace {

// The only functions of the driver that there are. A kernel is known by the type of what it calls.
CUresult kernel_of_node(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  const Unseen unseen;
  World& all = world();
  const Lock hold(all.mutex);
  if (node == nullptr || node->node.kind != Kind::kernel)
    return CUDA_ERROR_INVALID_VALUE;
  *params = {};
  params->func = reinterpret_cast<CUfunction>(const_cast<std::type_info*>(&node->node.work->target_type()));
  return CUDA_SUCCESS;
}

CUresult cluster_of_node(CUgraphNode node, CUlaunchAttributeID attribute, CUlaunchAttributeValue* value) {
  const Unseen unseen;
  World& all = world();
  const Lock hold(all.mutex);
  if (node == nullptr || node->node.kind != Kind::kernel || attribute != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
    return CUDA_ERROR_INVALID_VALUE;
  *value = {};
  value->clusterDim.x = node->node.cluster;
  value->clusterDim.y = value->clusterDim.z = node->node.cluster == 0 ? 0 : 1;
  return CUDA_SUCCESS;
}

void* driver_function(std::string_view name) {
  if (name == "cuGraphKernelNodeGetParams")
    return reinterpret_cast<void*>(&kernel_of_node);
  if (name == "cuGraphKernelNodeGetAttribute")
    return reinterpret_cast<void*>(&cluster_of_node);
  return nullptr;
}

}  // namespace

cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol,
    void** function,
    unsigned version,
    unsigned long long,
    cudaDriverEntryPointQueryResult* status) {
  return call("cudaGetDriverEntryPointByVersion", [&](World&, Lock&) {
    if (symbol == nullptr || function == nullptr || version == 0)
      return cudaErrorInvalidValue;
    *function = driver_function(symbol);
    if (status != nullptr)
      *status = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
  });
}

// -- Errors: these tell of other calls and are neither counted nor made to fail
// -----------------------------------------

namespace {

// An error that took the device stays, whoever asks.
cudaError_t last_error(bool clear) {
  const Unseen unseen;
  World& all = world();
  const Lock hold(all.mutex);
  HostThread& host = all.host();
  const cudaError_t error = host.error;
  if (clear)
    host.error = cudaSuccess;
  if (host.device < all.options.devices) {
    if (const cudaError_t lost = all.device(host.device).lost; lost != cudaSuccess)
      return lost;
  }
  return error;
}

}  // namespace

cudaError_t cudaGetLastError() {
  return last_error(true);
}

cudaError_t cudaPeekAtLastError() {
  return last_error(false);
}
