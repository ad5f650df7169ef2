#include <fmt/format.h>

#include <sluice/sluice.h>

#include "samples/extension/parts.h"

namespace samples {

using namespace sluice;

void vector_add() {
  if (num_gpus() == 0) {
    fmt::print("vector_add: left out, it needs a GPU\n");
    return;
  }
  const rtc::CudaModule module(R"(
extern "C" __global__ void add(const float* x, const float* y, float* z, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    z[i] = x[i] + y[i];
}
)");
  const rtc::CudaKernel add = module.kernel("add", "const float* x, const float* y, float* z, int n");
  constexpr int n = 1'000'000, threads = 256;
  const NDArray x = arange(0, n, 1, {.device = gpu(0)}), y = 2.0F * x, z = empty_like(x);
  add.launch({x, y, z, n}, {.grid = {(n + threads - 1) / threads}, .block = {threads}});  // behind what makes y
  const bool right = all(z == 3.0F * x).item<bool>();
  fmt::print("vector_add: {} sums on {}, {}\n", n, to_string(x.device()), right ? "all right" : "wrong");
  require<Error>(right, [] { return "vector_add: a sum is wrong"; });
}

}  // namespace samples
