// The simulated CUDA runtime itself: memory, copies, faults, and what it notices.
#include <cstring>
#include <vector>

#include "tests/engine/sim_case.h"

using namespace sluice;
using namespace sluice::test;

namespace {

std::byte* device_memory(std::size_t bytes) {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, bytes) == cudaSuccess);
  return static_cast<std::byte*>(memory);
}

/// Takes note of violations as expected ones.
void expect_violation(const std::string& part) {
  CHECK_THAT(sim::violations(), contains(part));
  sim::reset({.devices = 2});
}

}  // namespace

TEST_CASE("Simulator: memory has a limit, and free memory is told", "[sim]") {
  Sim sim({.memory = 1024});
  std::size_t free = 0, total = 0;
  std::byte* const first = device_memory(1000);
  void* second = nullptr;
  CHECK(cudaMalloc(&second, 100) == cudaErrorMemoryAllocation);
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(total == 1024);
  CHECK(free == 24);
  CHECK(cudaFree(first) == cudaSuccess);
  CHECK(cudaMalloc(&second, 100) == cudaSuccess);
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, static_cast<char*>(second) + 99) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(cudaPointerGetAttributes(&attributes, &total) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(cudaFree(second) == cudaSuccess);
}

TEST_CASE("Simulator: pools free in stream order and keep what they may", "[sim]") {
  Sim sim({.memory = 4096, .manual = true});
  SimStream stream;
  cudaMemPool_t pool = nullptr;
  std::uint64_t used = 1, reserved = 1, threshold = 4096;
  REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold) == cudaSuccess);
  void* memory = nullptr;
  CHECK(cudaMallocAsync(&memory, 3000, stream) == cudaSuccess);
  int seen = 0;
  sim::launch(stream, [&] { seen = *static_cast<unsigned char*>(memory) == 0xCD; });
  CHECK(cudaFreeAsync(memory, stream) == cudaSuccess);
  void* more = nullptr;
  CHECK(cudaMallocAsync(&more, 3000, stream) == cudaErrorMemoryAllocation);
  sim::run_all();
  CHECK(seen == 1);
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess);
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved) == cudaSuccess);
  CHECK(used == 0);
  CHECK(reserved == 3000);
  void* plain = nullptr;
  CHECK(cudaMalloc(&plain, 3000) == cudaErrorMemoryAllocation);
  CHECK(cudaMemPoolTrimTo(pool, 0) == cudaSuccess);
  CHECK(cudaMalloc(&plain, 3000) == cudaSuccess);
  CHECK(cudaFree(plain) == cudaSuccess);
}

TEST_CASE("Simulator: copies follow their stream; pageable memory is read at once, and waited for", "[sim]") {
  Sim sim;
  SimStream stream;
  std::byte* const on_device = device_memory(8);
  void* raw = nullptr;
  REQUIRE(cudaHostAlloc(&raw, 8, cudaHostAllocPortable) == cudaSuccess);
  auto* const pinned = static_cast<std::uint64_t*>(raw);
  std::uint64_t pageable = 5;
  sim::hold(stream);
  CHECK(cudaMemcpyAsync(on_device, &pageable, 8, cudaMemcpyHostToDevice, stream) == cudaSuccess);
  pageable = 6;
  CHECK(cudaMemcpyAsync(pinned, on_device, 8, cudaMemcpyDefault, stream) == cudaSuccess);
  sim::release(stream);
  CHECK(cudaMemcpyAsync(&pageable, on_device, 8, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
  CHECK(pageable == 5);  // no synchronisation needed
  CHECK(*pinned == 5);
  CHECK(cudaMemsetAsync(on_device, 1, 8, stream) == cudaSuccess);
  CHECK(cudaMemcpyAsync(pinned, on_device, 8, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(*pinned == 0x0101010101010101);
  CHECK(cudaMemcpyAsync(on_device + 4, pinned, 8, cudaMemcpyDefault, stream) == cudaErrorInvalidValue);
  CHECK(cudaFree(on_device) == cudaSuccess);
  CHECK(cudaFreeHost(raw) == cudaSuccess);
}

TEST_CASE("Simulator: what CUDA does not define is noticed", "[sim]") {
  Sim sim;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  std::byte* const memory = device_memory(16);
  sim::hold(stream);
  CHECK(cudaMemsetAsync(memory, 0, 16, stream) == cudaSuccess);
  sim::lose_device(0);  // so that freeing need not wait
  CHECK(cudaFree(memory) == cudaErrorIllegalAddress);
  expect_violation("pending copy");

  cudaEvent_t event = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(stream, event, 0) == cudaErrorInvalidResourceHandle);
  expect_violation("destroyed: an event");

  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  CHECK(sim::launch(stream, [] { cudaSetDevice(0); }) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  expect_violation("cudaSetDevice was called by a kernel");
}

TEST_CASE("Simulator: any call can be made to fail, once", "[sim]") {
  Sim sim;
  SimStream stream;
  int device = 0, ran = 0;
  sim::fail_nth(2, cudaErrorLaunchFailure);
  CHECK(cudaGetDevice(&device) == cudaSuccess);
  CHECK(sim::failed_call() == "");
  CHECK(sim::launch(stream, [&] { ++ran; }) == cudaErrorLaunchFailure);
  CHECK(sim::failed_call() == "cudaLaunchKernel");
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(sim::launch(stream, [&] { ++ran; }) == cudaSuccess);
  sim::fail_nth("cudaStreamSynchronize", 1, cudaErrorUnknown);
  CHECK(cudaStreamQuery(stream) != cudaErrorUnknown);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorUnknown);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(ran == 1);
  CHECK(sim::calls("cudaStreamSynchronize") == 2);
  sim::clear_calls();
  CHECK(sim::calls().empty());
}

TEST_CASE("Simulator: an illegal address takes its device, and no other", "[sim]") {
  Sim sim;
  sim.tolerate_leftovers();
  cudaStream_t stream = nullptr, other = nullptr;
  cudaEvent_t event = nullptr;
  int after = 0, beside = 0;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  const Gate gate;  // a kernel that fails before the record is made would fail the record already
  const OpensAtEnd opens(gate);
  sim::launch(stream, [gate] {
    gate.wait();
    sim::illegal_address();
  });
  sim::launch(stream, [&] { ++after; });
  CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  gate.open();
  CHECK(cudaEventSynchronize(event) == cudaErrorIllegalAddress);
  CHECK(cudaStreamQuery(stream) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);  // it stays
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 8) == cudaErrorIllegalAddress);
  CHECK(after == 0);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  REQUIRE(cudaStreamCreate(&other) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(other, event, 0) == cudaErrorIllegalAddress);
  sim::launch(other, [&] { ++beside; });
  CHECK(cudaStreamSynchronize(other) == cudaSuccess);
  CHECK(beside == 1);
}
