// Memory of devices and host. All of it is host memory.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/support/cuda_sim/world.h"

using namespace sluice::test::sim;

namespace sluice::test::sim {

constexpr int k_freed = 0xDD;

namespace {

constexpr std::size_t k_alignment = 256;
constexpr int k_fresh = 0xCD;

bool overlap(const Range& range, const char* address, std::size_t bytes) {
  return range.first < address + bytes && address < range.first + range.bytes;
}

}  // namespace

const std::pair<char* const, Block>* World::block_of(const void* address) const {
  const auto* wanted = static_cast<const char*>(address);
  auto next = memory.upper_bound(const_cast<char*>(wanted));
  if (next == memory.begin())
    return nullptr;
  --next;
  return wanted < next->first + next->second.bytes ? &*next : nullptr;
}

std::size_t World::in_use(int device) const {
  std::size_t bytes = devices[static_cast<std::size_t>(device)].used;
  pools.each([&](const CUmemPoolHandle_st& pool) { bytes += pool.alive && pool.device == device ? pool.reserved : 0; });
  return bytes;
}

void* World::allocate(std::size_t bytes, Block block) {
  if (bytes == 0)
    return nullptr;
  block.bytes = bytes;
  if (block.kind == MemoryKind::device) {
    if (bytes > options.memory - std::min(options.memory, in_use(block.device)))
      throw Refusal{cudaErrorMemoryAllocation};
    devices[static_cast<std::size_t>(block.device)].used += bytes;
  } else if (block.kind == MemoryKind::pool) {
    CUmemPoolHandle_st& pool = *block.pool;
    const std::uint64_t cached = pool.reserved - pool.used;
    const std::uint64_t grows = bytes > cached ? bytes - cached : 0;
    if (grows > options.memory - std::min(options.memory, in_use(block.device)))
      throw Refusal{cudaErrorMemoryAllocation};
    pool.used += bytes;
    pool.reserved += grows;
    pool.used_high = std::max(pool.used_high, pool.used);
    pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  }
  auto* const address =
      static_cast<char*>(std::aligned_alloc(k_alignment, (bytes + k_alignment - 1) / k_alignment * k_alignment));
  std::memset(address, k_fresh, bytes);
  memory.emplace(address, block);
  return address;
}

void World::release_block(char* address) {
  const auto found = memory.find(address);
  if (found == memory.end())
    return;
  const Block block = found->second;
  memory.erase(found);
  if (block.kind == MemoryKind::device) {
    devices[static_cast<std::size_t>(block.device)].used -= block.bytes;
  } else if (block.kind == MemoryKind::pool) {
    CUmemPoolHandle_st& pool = *block.pool;
    pool.used -= block.bytes;
    pool.reserved = std::max(pool.used, std::min(pool.reserved, pool.threshold));
  }
  std::free(address);
}

void World::check_pending(const char* name, const char* address, std::size_t bytes) {
  auto touched = [&](const OpRef& op) {
    return !op->done && std::any_of(op->touches.begin(), op->touches.end(), [&](const Range& range) {
      return overlap(range, address, bytes);
    });
  };
  for (const CUstream_st* stream : busy_) {
    for (const OpRef& op : stream->queue) {
      if (touched(op) || std::any_of(op->parts.begin(), op->parts.end(), touched))
        violation(std::string(name) + " of memory that a pending copy or fill touches");
    }
  }
}

}  // namespace sluice::test::sim

namespace {

cudaError_t free_block(World& all, Lock& hold, const char* name, void* address, bool of_host) {
  if (address == nullptr)
    return cudaSuccess;
  all.check_unsafe();
  const auto found = all.memory.find(static_cast<char*>(address));
  if (found == all.memory.end() || found->second.freed || (found->second.kind == MemoryKind::host) != of_host) {
    all.violation(std::string(name) + " of what was not allocated so, or has been freed");
    return cudaErrorInvalidValue;
  }
  const Block block = found->second;
  found->second.freed = true;  // should a device be lost, kernels may still run: then the memory stays until the end
  all.check_pending(name, found->first, block.bytes);
  if (of_host) {
    for (int i = 0; i < all.options.devices; ++i)
      all.wait_device(hold, i);
  } else {
    all.check_device(block.device);
    all.wait_device(hold, block.device);
  }
  ++all.blocking;
  {
    const Seen seen;  // whoever still uses it races with this
    std::memset(address, k_freed, block.bytes);
  }
  all.release_block(static_cast<char*>(address));
  return cudaSuccess;
}

cudaError_t allocate_host(World& all, void** made, std::size_t bytes) {
  const int device = all.current_device();
  all.check_unsafe();
  *made = all.allocate(bytes, {.kind = MemoryKind::host, .device = device});
  return cudaSuccess;
}

cudaError_t allocate_ordered(World& all, void** made, std::size_t bytes, cudaMemPool_t from, cudaStream_t where) {
  CUstream_st& stream = all.stream(where);
  all.refuse_capture(stream);  // nodes that allocate are not part of this simulator
  CUmemPoolHandle_st& pool = from == nullptr ? *all.device(stream.device).pool : all.pool(from);
  *made = all.allocate(bytes, {.kind = MemoryKind::pool, .device = pool.device, .pool = &pool});
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMalloc(void** made, size_t bytes) {
  return call("cudaMalloc", [&](World& all, Lock&) {
    const int device = all.current_device();
    all.check_unsafe();
    *made = all.allocate(bytes, {.kind = MemoryKind::device, .device = device});
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void* address) {
  return call("cudaFree", [&](World& all, Lock& hold) { return free_block(all, hold, "cudaFree", address, false); });
}

cudaError_t cudaHostAlloc(void** made, size_t bytes, unsigned) {
  return call("cudaHostAlloc", [&](World& all, Lock&) { return allocate_host(all, made, bytes); });
}

cudaError_t cudaMallocHost(void** made, size_t bytes) {
  return call("cudaMallocHost", [&](World& all, Lock&) { return allocate_host(all, made, bytes); });
}

cudaError_t cudaFreeHost(void* address) {
  return call(
      "cudaFreeHost", [&](World& all, Lock& hold) { return free_block(all, hold, "cudaFreeHost", address, true); });
}

cudaError_t cudaMallocAsync(void** made, size_t bytes, cudaStream_t stream) {
  return call(
      "cudaMallocAsync", [&](World& all, Lock&) { return allocate_ordered(all, made, bytes, nullptr, stream); });
}

cudaError_t cudaMallocFromPoolAsync(void** made, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return call("cudaMallocFromPoolAsync", [&](World& all, Lock&) {
    return pool == nullptr ? cudaErrorInvalidValue : allocate_ordered(all, made, bytes, pool, stream);
  });
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
  return call("cudaFreeAsync", [&](World& all, Lock&) {
    CUstream_st& stream = all.stream(handle);
    all.refuse_capture(stream);
    if (address == nullptr)
      return cudaSuccess;
    const auto found = all.memory.find(static_cast<char*>(address));
    if (found == all.memory.end() || found->second.freed || found->second.kind == MemoryKind::host) {
      all.violation("cudaFreeAsync of what was not allocated so, or has been freed");
      return cudaErrorInvalidValue;
    }
    found->second.freed = true;
    auto work = std::make_shared<const std::function<void()>>([address, bytes = found->second.bytes] {
      std::memset(address, k_freed, bytes);
      const Unseen unseen;
      const Lock hold(world().mutex);
      world().release_block(static_cast<char*>(address));
    });
    all.add(stream, {.kind = Kind::free, .work = std::move(work)});
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call("cudaMemGetInfo", [&](World& all, Lock&) {
    const int device = all.current_device();
    *total = all.options.memory;
    *free = *total - std::min(*total, all.in_use(device));
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return call("cudaPointerGetAttributes", [&](World& all, Lock&) {
    *attributes = cudaPointerAttributes{};
    auto* const pointer = const_cast<void*>(address);
    const auto* const found = all.block_of(address);
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = pointer;
    if (found == nullptr)
      return cudaSuccess;
    const bool of_host = found->second.kind == MemoryKind::host;
    attributes->type = of_host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    attributes->device = found->second.device;
    attributes->devicePointer = pointer;
    attributes->hostPointer = of_host ? pointer : nullptr;
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetDevicePointer(void** on_device, void* address, unsigned) {
  return call("cudaHostGetDevicePointer", [&](World& all, Lock&) {
    const auto* const found = all.block_of(address);
    if (found == nullptr || found->second.kind != MemoryKind::host)
      return cudaErrorInvalidValue;
    *on_device = address;
    return cudaSuccess;
  });
}
