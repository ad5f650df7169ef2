#include <algorithm>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/update/numbers.h>

namespace sluice::detail {

namespace {

constexpr int k_words_a_launch = 480;  // a launch: they are a kernel argument, of at most 4 KiB

struct Words {
  std::int64_t at[k_words_a_launch];
};

__global__ void write_words_kernel(const __grid_constant__ Words words, std::int64_t* to, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
    to[i] = words.at[i];
}

}  // namespace

void write_words_on_gpu(std::span<const std::int64_t> words, void* to, void* stream) {
  Words part;
  for (std::size_t begin = 0; begin < words.size(); begin += k_words_a_launch) {
    const std::size_t count = std::min<std::size_t>(k_words_a_launch, words.size() - begin);
    std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(begin), count, part.at);
    write_words_kernel<<<1, 128, 0, static_cast<cudaStream_t>(stream)>>>(
        part, static_cast<std::int64_t*>(to) + begin, static_cast<int>(count));
    cuda::cuda_check(cudaGetLastError(), "write_words");
  }
}

}  // namespace sluice::detail
