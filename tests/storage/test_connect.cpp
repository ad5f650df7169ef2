// GPUs that reach each other's memory.
#include <algorithm>
#include <vector>

#include <cuda_runtime_api.h>

#include <sluice/engine/api.h>
#include <sluice/engine/cuda/handle.h>
#include <sluice/storage/api.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

void copy_between(const Chunk& from, const Chunk& to) {
  using cuda::cuda_check;
  const cuda::DeviceScope on(from.device.index);
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  const cuda::StreamHandle owner(stream);
  const cudaError_t result =
      cudaMemcpyPeerAsync(to.data, to.device.index, from.data, from.device.index, from.requested, stream);
  cuda_check(result, "cudaMemcpyPeerAsync");
  cuda_check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

/// Fills the one, copies it over the other, and looks what arrived.
bool arrives(const Chunk& from, const Chunk& to, int value) {
  const cuda::DeviceScope on(from.device.index);
  std::vector<unsigned char> bytes(to.requested);
  cuda::cuda_check(cudaMemset(from.data, value, from.requested), "cudaMemset");
  cuda::cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  copy_between(from, to);
  cuda::cuda_check(cudaMemcpy(bytes.data(), to.data, bytes.size(), cudaMemcpyDefault), "cudaMemcpy");
  return std::all_of(bytes.begin(), bytes.end(), [&](unsigned char byte) { return byte == value; });
}

}  // namespace

TEST_CASE("Copies between connected GPUs arrive, of what there was before and what came after", "[gpu]") {
  SLUICE_NEEDS_GPUS(2);
  constexpr std::size_t bytes = std::size_t{20} << 20;
  for (const std::string& name : pool_names(MemoryKind::device)) {
    Engine engine;
    Storage& storage = Storage::of(engine);
    storage.configure({.device = name});
    Pool &here = storage.pool(gpu(0)), &there = storage.pool(gpu(1));
    Chunk before = here.acquire(bytes), far = there.acquire(bytes);
    INFO(name);
    CHECK(storage.connect(gpu(0), gpu(1)) == storage.connect(gpu(1), gpu(0)));
    Chunk after = here.acquire(bytes);
    CHECK(arrives(before, far, 1));  // directly where the hardware can, else by way of the host
    CHECK(arrives(after, far, 2));
    CHECK(arrives(far, after, 3));
    here.release(std::move(before));
    here.release(std::move(after));
    there.release(std::move(far));
  }
}
