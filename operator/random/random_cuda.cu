#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/random/draw.h>
#include <sluice/operator/random/kernels.h>

namespace sluice::detail {

namespace {

// A thread makes the elements of one Philox block. `packed`: the address allows to store them at once.
template <class Draw>
__global__ void __launch_bounds__(k_group_block)
    random_kernel(Draw draw, RandomSource source, typename Draw::Element* to, std::int64_t size, bool packed) {
  using T = typename Draw::Element;
  using Pack = Neighbours<T, Draw::k_count>;
  const Group group(1);
  const RandomBlock random = source.read();
  for (std::int64_t block = group.index; block * Draw::k_count < size; block += group.count) {
    Pack values;
    draw(philox(random, static_cast<std::uint64_t>(block)), values.at);
    const std::int64_t first = block * Draw::k_count;
    if (packed && first + Draw::k_count <= size) {
      reinterpret_cast<Pack*>(to)[block] = values;
    } else {
#pragma unroll
      for (int i = 0; i < Draw::k_count; ++i) {
        if (first + i < size)
          to[first + i] = values.at[i];
      }
    }
  }
}

template <class Draw>
void fill_random(const KernelCall& call, const Draw& draw) {
  using T = typename Draw::Element;
  const std::int64_t size = call.outputs[0].size;
  if (size == 0)
    return;
  T* to = call.outputs[0].as<T>();
  const bool packed = reinterpret_cast<std::uintptr_t>(to) % sizeof(Neighbours<T, Draw::k_count>) == 0;
  const std::int64_t blocks = (size + Draw::k_count - 1) / Draw::k_count;
  random_kernel<<<blocks_for_groups(blocks, 1), k_group_block, 0, stream_of(call.queue)>>>(
      draw, random_source(call), to, size, packed);
  cuda::cuda_check(cudaGetLastError(), "random numbers");
}

}  // namespace

void random_uniform_gpu(const KernelCall& call) {
  const auto& a = call.attributes.as<RealAttributes>();
  by_floating(a.dtype, [&]<class T>() { fill_random(call, UniformDraw<T>(a.first, a.second)); });
}

void random_normal_gpu(const KernelCall& call) {
  const auto& a = call.attributes.as<RealAttributes>();
  by_floating(a.dtype, [&]<class T>() { fill_random(call, NormalDraw<T>(a.first, a.second)); });
}

void random_randint_gpu(const KernelCall& call) {
  const auto& a = call.attributes.as<IntegerAttributes>();
  by_drawn_bits(a.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      fill_random(call, IntegerDraw<T>(a.first, a.second));
  });
}

void random_bernoulli_gpu(const KernelCall& call) {
  const auto& a = call.attributes.as<RealAttributes>();
  by_drawn_bits(a.dtype, [&]<class T>() { fill_random(call, BernoulliDraw<T>(a.first)); });
}

}  // namespace sluice::detail
