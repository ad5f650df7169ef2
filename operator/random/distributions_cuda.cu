#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/random/drawn.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

// A thread makes one element; one kernel for all types.
template <class Draw>
__global__ void __launch_bounds__(k_group_block)
    draw_kernel(DrawParameters parameters, RandomSource source, DType dtype, void* to, std::int64_t size) {
  const Group group(1);
  const RandomBlock random = source.read();
  for (std::int64_t i = group.index; i < size; i += group.count) {
    SubStream stream(random, static_cast<std::uint64_t>(i));
    store_drawn(dtype, to, i, Draw::draw(parameters, i, stream));
  }
}

// A thread adds up a row, in order: sums are those of a CPU.
__global__ void __launch_bounds__(k_group_block) add_up_kernel(CategoricalWork work, double* sums) {
  const Group group(1);
  for (std::int64_t row = group.index; row < work.rows; row += group.count)
    add_up_weights(work.weights + row * work.categories, work.categories, sums + row * work.categories);
}

__global__ void __launch_bounds__(k_group_block)
    categorical_kernel(CategoricalWork work, RandomSource source, const double* sums) {
  const Group group(1);
  const RandomBlock random = source.read();
  for (std::int64_t i = group.index; i < work.rows * work.draws; i += group.count) {
    SubStream stream(random, static_cast<std::uint64_t>(i));
    work.to[i] = find_category(sums + i / work.draws * work.categories, work.categories, stream.unit());
  }
}

}  // namespace

template <class Draw>
void draw_gpu(const KernelCall& call) {
  const TensorView& to = call.outputs[0];
  if (to.size == 0)
    return;
  draw_kernel<Draw><<<blocks_for_groups(to.size, 1), k_group_block, 0, stream_of(call.queue)>>>(
      draw_parameters(call), random_source(call), to.dtype, to.data, to.size);
  cuda::cuda_check(cudaGetLastError(), "random numbers");
}

template void draw_gpu<ExponentialDraw>(const KernelCall&);
template void draw_gpu<LaplaceDraw>(const KernelCall&);
template void draw_gpu<GumbelDraw>(const KernelCall&);
template void draw_gpu<TruncatedDraw>(const KernelCall&);
template void draw_gpu<GammaDraw>(const KernelCall&);
template void draw_gpu<BetaDraw>(const KernelCall&);
template void draw_gpu<PoissonDraw>(const KernelCall&);

void categorical_gpu(const KernelCall& call) {
  const CategoricalWork work = categorical_work(call);
  if (work.rows * work.draws == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  const Workspace sums(call.queue, static_cast<std::size_t>(work.rows * work.categories) * sizeof(double));
  add_up_kernel<<<blocks_for_groups(work.rows, 1), k_group_block, 0, stream>>>(work, sums.as<double>());
  cuda::cuda_check(cudaGetLastError(), "sums of weights");
  categorical_kernel<<<blocks_for_groups(work.rows * work.draws, 1), k_group_block, 0, stream>>>(
      work, random_source(call), sums.as<double>());
  cuda::cuda_check(cudaGetLastError(), "draws of categories");
}

}  // namespace sluice::detail
