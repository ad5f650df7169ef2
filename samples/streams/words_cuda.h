#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include <sluice/engine/api.h>

namespace samples {

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw sluice::CudaError(sluice::message(call, ": ", cudaGetErrorString(status)), static_cast<int>(status));
}

/// Words in a GPU's memory.
class GpuWords {
 public:
  GpuWords(sluice::Device device, int n) : n_(static_cast<std::size_t>(n)) {
    void* memory = nullptr;
    check(cudaSetDevice(device.index), "cudaSetDevice");
    check(cudaMalloc(&memory, n_ * sizeof(std::uint32_t)), "cudaMalloc");
    data_.reset(static_cast<std::uint32_t*>(memory));
  }
  std::uint32_t* data() const noexcept { return data_.get(); }
  /// Blocks.
  std::vector<std::uint32_t> values() const {
    std::vector<std::uint32_t> result(n_);
    check(cudaMemcpy(result.data(), data(), n_ * sizeof(std::uint32_t), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return result;
  }

 private:
  struct Free {
    void operator()(std::uint32_t* memory) const noexcept { cudaFree(memory); }
  };
  std::size_t n_;
  std::unique_ptr<std::uint32_t, Free> data_;
};

/// Words in pinned host memory, from and to which GPUs copy while everybody goes on.
class PinnedWords {
 public:
  explicit PinnedWords(int n) : n_(static_cast<std::size_t>(n)) {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, n_ * sizeof(std::uint32_t)), "cudaMallocHost");
    data_.reset(static_cast<std::uint32_t*>(memory));
  }
  std::uint32_t* data() const noexcept { return data_.get(); }
  std::size_t bytes() const noexcept { return n_ * sizeof(std::uint32_t); }

 private:
  struct Free {
    void operator()(std::uint32_t* memory) const noexcept { cudaFreeHost(memory); }
  };
  std::size_t n_;
  std::unique_ptr<std::uint32_t, Free> data_;
};

}  // namespace samples
