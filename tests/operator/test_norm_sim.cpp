// Norms on GPUs whose blocks have less shared memory than others: on the simulated GPU alone.
#include <atomic>
#include <vector>

#include <sluice/operator/norm/layer_norm_kernels.h>

#include "tests/operator/norm_reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/cuda_sim/sim.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct SharedMemory {
  explicit SharedMemory(int bytes) { sim::set_shared_memory(bytes); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { sim::set_shared_memory(227 << 10); }
};

std::atomic<bool> in_registers;

void backward(const KernelCall& call) {
  in_registers = detail::norm_backward_in_registers_gpu(detail::NormBackward(call), call.queue);
  if (!in_registers)
    detail::row_norm_backward_gpu(call);
}

// Gradients as layer_norm's, which tell on their way whether rows were kept in registers.
Operator watched() {
  Operator op = detail::layer_norm_backward_op;
  op.name = "watched_layer_norm_backward";
  op.kernels = {on_gpu(backward)};
  return op;
}

}  // namespace

TEST_CASE("Gradients of layer_norm ask for no more shared memory than a GPU's blocks have", "[layer_norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  static const Operator op = watched();
  const Attributes how = Attributes::of(detail::LayerNormAttributes{1, 1e-5});
  constexpr int k_turing = 64 << 10, k_hopper = 227 << 10, k_ada = 99 << 10;
  for (const DType dtype : {float32, float16}) {
    const std::int64_t in_warps = dtype == float32 ? 512 : 1024;
    for (const std::int64_t n : {in_warps / 4, in_warps / 2, in_warps, 4 * in_warps, 8 * in_warps}) {
      const bool longest = n == in_warps || n == 8 * in_warps;  // four vectors a thread
      const NDArray x = random_array({5, n}, 1, -1, 3, dtype), dy = random_array({5, n}, 4, -1, 1, dtype);
      const NDArray gamma = random_array({n}, 2, 0.5, 2, dtype), beta = zeros({n}, {.dtype = dtype});
      const NormReference want = norm_reference(x, gamma, beta, dy, along_axis(x.shape(), 1), true, 1e-5);
      const std::vector<NDArray> there{x.to(gpu()), gamma.to(gpu()), beta.to(gpu())};
      const Arrays forward = invoke(detail::layer_norm_op, there, how, {});
      for (const int bytes : {k_turing, k_ada, k_hopper}) {
        CAPTURE(dtype, n, bytes);
        const SharedMemory shared(bytes);
        const std::vector<NDArray> inputs{dy.to(gpu()), there[0], there[1], forward[1], forward[2]};
        const Arrays got = invoke(op, inputs, how, {});
        const Tolerance near = dtype == float32 ? Tolerance{1e-4, 1e-4} : Tolerance{2e-2, 2e-2};
        CHECK(differences(got[0].to(cpu()), want.dx, near) == "");
        CHECK(differences(got[1].to(cpu()), want.dgamma, near) == "");
        CHECK(differences(got[2].to(cpu()), want.dbeta, near) == "");
        CHECK(in_registers == (bytes > k_turing || !longest));
      }
    }
  }
}
