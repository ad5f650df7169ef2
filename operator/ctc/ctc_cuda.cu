#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/ctc/alignment.h>
#include <sluice/operator/fault.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/workspace.h>

// A block has a sequence and a thread some of its states, step by step. Shares of states with the same label are then
// added along chains, by one thread each: no atomics, the same bits on every run.
namespace sluice::detail {

namespace {

template <class C>
__device__ CtcSequence sequence_of(const CtcBatch<C>& batch, std::int64_t n, int lane, ErrorWord* errors) {
  CtcFault fault;
  const CtcSequence is = batch.sequence(n, fault);
  if (fault.what != nullptr && lane == 0)
    report_index(errors, fault.value, fault.bound);
  return is;
}

template <class C>
__global__ void __launch_bounds__(k_group_block) alphas_kernel(CtcBatch<C> batch, ErrorWord* errors, C* losses) {
  start_early();
  const Group group(k_group_block);
  for (std::int64_t n = group.index; n < batch.batch; n += group.count) {
    const CtcSequence of = sequence_of(batch, n, group.lane, errors);
    for (std::int64_t step = 0; step < batch.steps; ++step) {
      C* const row = batch.row(of, step);
      const std::int64_t states = step < of.steps ? of.states() : 0;
      for (std::int64_t s = group.lane; s < batch.width(); s += k_group_block)
        row[s] = s < states ? batch.alpha(of, step, s) : ctc_nothing<C>();
      __syncthreads();
    }
    if (group.lane == 0)
      losses[n] = batch.loss(of);
  }
}

/// What backward keeps beside its arrays.
template <class C>
struct CtcScratch {
  C* shares;           // as alphas
  C* betas;            // (N, 2, 2 L + 1): of two steps in turn
  std::int64_t* next;  // (N, L): where a label comes again, L for nowhere; below 0, as -1 - it, if it came before
};

template <class C>
__global__ void __launch_bounds__(k_group_block) shares_kernel(CtcBatch<C> batch, CtcScratch<C> to, ErrorWord* errors) {
  start_early();
  const Group group(k_group_block);
  for (std::int64_t n = group.index; n < batch.batch; n += group.count) {
    const CtcSequence of = sequence_of(batch, n, group.lane, errors);
    const C likelihood = batch.likelihood(of);
    C* const betas = to.betas + n * 2 * batch.width();
    for (std::int64_t step = of.steps - 1; step >= 0; --step) {
      C* const here = betas + step % 2 * batch.width();
      const C* const behind = betas + (step + 1) % 2 * batch.width();
      C* const shares = to.shares + (n * batch.steps + step) * batch.width();
      for (std::int64_t s = group.lane; s < of.states(); s += k_group_block) {
        here[s] = batch.beta(of, step, s, behind);
        shares[s] = batch.share(of, step, s, here[s], likelihood);
      }
      __syncthreads();
    }
    for (std::int64_t i = group.lane; i < of.labels; i += k_group_block) {
      const std::int64_t label = batch.label(n, i);
      std::int64_t before = 0, next = i + 1;
      while (before < i && batch.label(n, before) != label)
        ++before;
      while (next < of.labels && batch.label(n, next) != label)
        ++next;
      next = next == of.labels ? batch.longest : next;
      to.next[n * batch.longest + i] = before < i ? -1 - next : next;
    }
  }
}

struct Add {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a + b;
  }
};

/// A warp a row of dx, which is 0 so far.
template <class C>
__global__ void __launch_bounds__(k_group_block)
    classes_kernel(CtcBatch<C> batch, CtcScratch<C> from, const C* dy, C* dx) {
  start_early();
  const Group group(k_warp);
  for (std::int64_t row = group.index; row < batch.steps * batch.batch; row += group.count) {
    const std::int64_t step = row / batch.batch, n = row % batch.batch;
    CtcFault fault;
    const CtcSequence of = batch.sequence(n, fault);
    if (step >= of.steps)
      continue;
    const C* const shares = from.shares + (n * batch.steps + step) * batch.width();
    C* const to = dx + row * batch.classes;
    C blanks = 0;
    for (std::int64_t s = 2 * group.lane; s < of.states(); s += 2 * k_warp)
      blanks += shares[s];
    blanks = join_group(blanks, k_warp, Add{});
    if (group.lane == 0)
      to[batch.blank()] = -dy[n] * blanks;
    const std::int64_t* const next = from.next + n * batch.longest;
    for (std::int64_t i = group.lane; i < of.labels; i += k_warp) {
      if (next[i] < 0)
        continue;
      C total = shares[2 * i + 1];
      for (std::int64_t j = next[i]; j < batch.longest; j = -1 - next[j])
        total += shares[2 * j + 1];
      to[batch.label(n, i)] = -dy[n] * total;
    }
  }
}

}  // namespace

void ctc_alignment_gpu(const KernelCall& call) {
  by_ctc_type(call.inputs[0].dtype, [&]<class C>() {
    const auto batch = ctc_batch<C>(call, call.outputs[1].data, 2);
    if (batch.batch == 0)
      return;
    const cudaStream_t stream = stream_of(call.queue);
    alphas_kernel<<<blocks_for_groups(batch.batch, k_group_block), k_group_block, 0, stream>>>(
        batch, call.queue.error_word(), call.outputs[0].as<C>());
    check_early_launch(call.op.name, stream);
  });
}

void ctc_alignment_backward_gpu(const KernelCall& call) {
  const TensorView& dx = call.outputs[0];
  if (dx.size == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  const std::size_t bytes = static_cast<std::size_t>(dx.size) * size_of(dx.dtype);
  cuda::cuda_check(cudaMemsetAsync(dx.data, 0, bytes, stream), "cudaMemsetAsync");
  by_ctc_type(dx.dtype, [&]<class C>() {
    const auto batch = ctc_batch<C>(call, call.inputs[2].data, 4);
    const std::int64_t states = batch.batch * batch.width();
    const Workspace shares(call.queue, static_cast<std::size_t>(states * batch.steps) * sizeof(C));
    const Workspace betas(call.queue, static_cast<std::size_t>(2 * states) * sizeof(C));
    const Workspace next(call.queue, static_cast<std::size_t>(batch.batch * batch.longest) * sizeof(std::int64_t));
    const CtcScratch<C> scratch{shares.as<C>(), betas.as<C>(), next.as<std::int64_t>()};
    shares_kernel<<<blocks_for_groups(batch.batch, k_group_block), k_group_block, 0, stream>>>(
        batch, scratch, call.queue.error_word());
    check_early_launch(call.op.name, stream);
    classes_kernel<<<blocks_for_groups(batch.steps * batch.batch, k_warp), k_group_block, 0, stream>>>(
        batch, scratch, call.inputs[3].as<const C>(), dx.as<C>());
    check_early_launch(call.op.name, stream);
  });
}

}  // namespace sluice::detail
