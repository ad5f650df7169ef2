// Pools of the stream-ordered allocator.
#include <algorithm>

#include "tests/support/cuda_sim/world.h"

using namespace sluice::test::sim;

namespace {

/// The 64-bit number behind an attribute, or null.
std::uint64_t* number_of(CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute) {
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      return &pool.threshold;
    case cudaMemPoolAttrReservedMemCurrent:
      return &pool.reserved;
    case cudaMemPoolAttrReservedMemHigh:
      return &pool.reserved_high;
    case cudaMemPoolAttrUsedMemCurrent:
      return &pool.used;
    case cudaMemPoolAttrUsedMemHigh:
      return &pool.used_high;
    default:
      return nullptr;
  }
}

/// The switch behind an attribute, or null.
int* switch_of(CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute) {
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
      return &pool.follow_events;
    case cudaMemPoolReuseAllowOpportunistic:
      return &pool.opportunistic;
    case cudaMemPoolReuseAllowInternalDependencies:
      return &pool.internal_dependencies;
    default:
      return nullptr;
  }
}

}  // namespace

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return call("cudaDeviceGetDefaultMemPool", [&](World& all, Lock&) {
    all.check_device(device);
    *pool = all.device(device).default_pool;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return call("cudaDeviceGetMemPool", [&](World& all, Lock&) {
    all.check_device(device);
    *pool = all.device(device).pool;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return call("cudaDeviceSetMemPool", [&](World& all, Lock&) {
    all.check_device(device);
    if (all.pool(pool).device != device)
      return cudaErrorInvalidValue;
    all.device(device).pool = pool;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* made, const cudaMemPoolProps* properties) {
  return call("cudaMemPoolCreate", [&](World& all, Lock&) {
    if (properties->location.type != cudaMemLocationTypeDevice)
      return cudaErrorNotSupported;
    all.check_device(properties->location.id);
    *made = all.pools.make();
    (*made)->device = properties->location.id;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  return call("cudaMemPoolDestroy", [&](World& all, Lock&) {
    CUmemPoolHandle_st& pool = all.alive(all.pools, handle, "a memory pool");
    if (pool.owned_by_device)
      return cudaErrorInvalidValue;
    pool.alive = false;
    Device& device = all.devices[static_cast<std::size_t>(pool.device)];
    if (device.pool == handle)
      device.pool = device.default_pool;
    all.check_device(pool.device);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return call("cudaMemPoolSetAttribute", [&](World& all, Lock&) {
    CUmemPoolHandle_st& pool = all.pool(handle);
    if (int* const found = switch_of(pool, attribute); found != nullptr) {
      *found = *static_cast<const int*>(value);
      return cudaSuccess;
    }
    const std::uint64_t wanted = *static_cast<const std::uint64_t*>(value);
    if (attribute == cudaMemPoolAttrReleaseThreshold) {
      pool.threshold = wanted;
      return cudaSuccess;
    }
    if (wanted != 0 || (attribute != cudaMemPoolAttrReservedMemHigh && attribute != cudaMemPoolAttrUsedMemHigh))
      return cudaErrorInvalidValue;  // marks of the highest may be taken back, nothing else
    pool.reserved_high = attribute == cudaMemPoolAttrReservedMemHigh ? pool.reserved : pool.reserved_high;
    pool.used_high = attribute == cudaMemPoolAttrUsedMemHigh ? pool.used : pool.used_high;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return call("cudaMemPoolGetAttribute", [&](World& all, Lock&) {
    CUmemPoolHandle_st& pool = all.pool(handle);
    if (const int* const found = switch_of(pool, attribute); found != nullptr) {
      *static_cast<int*>(value) = *found;
      return cudaSuccess;
    }
    const std::uint64_t* const found = number_of(pool, attribute);
    if (found == nullptr)
      return cudaErrorInvalidValue;
    *static_cast<std::uint64_t*>(value) = *found;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t keep) {
  return call("cudaMemPoolTrimTo", [&](World& all, Lock&) {
    CUmemPoolHandle_st& pool = all.pool(handle);
    pool.reserved = std::max<std::uint64_t>(pool.used, std::min<std::uint64_t>(pool.reserved, keep));
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t handle, const cudaMemAccessDesc* wanted, size_t count) {
  return call("cudaMemPoolSetAccess", [&](World& all, Lock&) {
    all.pool(handle);
    for (size_t i = 0; i < count; ++i)
      all.device(wanted[i].location.id);
    return cudaSuccess;
  });
}
