#include <algorithm>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/update/table.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

// This thread's elements: by fours where all of the parameter lies so, the last ones one by one.
template <class R, class F4, class F1>
__device__ void each_element(const UpdateEntry<R>& entry, std::int64_t begin, const F4& by_four, const F1& by_one) {
  const std::int64_t end = min(begin + k_per_block, entry.size);
  const std::int64_t mine = begin + static_cast<std::int64_t>(threadIdx.x) * k_neighbours_updated;
  if (entry.aligned && mine + k_neighbours_updated <= end)
    return by_four(mine);
  for (std::int64_t i = mine; i < min(mine + k_neighbours_updated, end); ++i)
    by_one(i);
}

template <int V, class C, class R>
__device__ void step_neighbours(
    const UpdateEntry<R>& entry, const R& rule, const Rates<C>& rates, const GradientForm<C>& form, std::int64_t i) {
  Updated<V, C, R> now;
  now.load(entry, i);
  now.each(now.weight, [&](C weight, C grad, C* state) { return rule.step(weight, form.of(grad), state, rates); });
  now.store(entry, i);
}

// `ratios`, if not null: of each entry.
template <class C, class R>
__global__ void __launch_bounds__(k_group_block)
    update_kernel(const __grid_constant__ UpdateTable<R> table, const R rule, const double* ratios) {
  const int low = table.entry_of_block();
  start_early();  // the table is an argument
  if (!table.is_taken())
    return;
  const UpdateEntry<R>& entry = table.entries[low];
  const Rates<C> rates = table.template rates_of<C>(entry, ratios == nullptr ? 1 : ratios[low]);
  const GradientForm<C> form = table.template form<C>();
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x - table.first_block[low]) * k_per_block;
  each_element(
      entry,
      begin,
      [&](std::int64_t i) { step_neighbours<k_neighbours_updated>(entry, rule, rates, form, i); },
      [&](std::int64_t i) { step_neighbours<1>(entry, rule, rates, form, i); });
}

template <int V, class C, class R>
__device__ void add_squares(
    const UpdateEntry<R>& entry,
    const R& rule,
    const Rates<C>& rates,
    const GradientForm<C>& form,
    std::int64_t i,
    SquareSums& sums) {
  Updated<V, C, R> now;
  now.load(entry, i);
  C direction[V];
  now.each(direction, [&](C weight, C grad, C* state) { return rule.direction(weight, form.of(grad), state, rates); });
#pragma unroll
  for (int j = 0; j < V; ++j) {
    sums.weight += static_cast<double>(now.weight[j]) * static_cast<double>(now.weight[j]);
    sums.direction += static_cast<double>(direction[j]) * static_cast<double>(direction[j]);
  }
  if constexpr (R::k_direction_changes)
    now.store_states(entry, i);
}

__device__ SquareSums sum_in_block(const SquareSums& sums) {
  return join_group(sums, k_group_block, [](const SquareSums& a, const SquareSums& b) {
    return SquareSums{a.weight + b.weight, a.direction + b.direction};
  });
}

// The first pass: of each block the squares.
template <class C, class R>
__global__ void __launch_bounds__(k_group_block)
    squares_kernel(const __grid_constant__ UpdateTable<R> table, const R rule, SquareSums* partial) {
  start_early();
  const int low = table.entry_of_block();
  if (!table.is_taken())
    return;
  const UpdateEntry<R>& entry = table.entries[low];
  const Rates<C> rates = table.template rates_of<C>(entry, 1);
  const GradientForm<C> form = table.template form<C>();
  SquareSums sums{};
  each_element(
      entry,
      static_cast<std::int64_t>(blockIdx.x - table.first_block[low]) * k_per_block,
      [&](std::int64_t i) { add_squares<k_neighbours_updated>(entry, rule, rates, form, i, sums); },
      [&](std::int64_t i) { add_squares<1>(entry, rule, rates, form, i, sums); });
  sums = sum_in_block(sums);
  if (threadIdx.x == 0)
    partial[blockIdx.x] = sums;
}

// A block for each parameter.
template <class R>
__global__ void __launch_bounds__(k_group_block) ratios_kernel(
    const __grid_constant__ UpdateTable<R> table, const R rule, const SquareSums* partial, double* ratios) {
  start_early();
  if (!table.is_taken())
    return;
  const int which = static_cast<int>(blockIdx.x);
  const unsigned end = which + 1 < table.count ? table.first_block[which + 1] : table.blocks;
  SquareSums sums{};
  for (unsigned i = table.first_block[which] + threadIdx.x; i < end; i += k_group_block)
    sums = {sums.weight + partial[i].weight, sums.direction + partial[i].direction};
  sums = sum_in_block(sums);
  const UpdateEntry<R>& entry = table.entries[which];
  if (threadIdx.x == 0)
    ratios[which] = entry.plain ? 1 : rule.ratio(sums, entry.decay);
}

template <class C>
bool is_aligned(const UpdatePiece& piece) {
  constexpr int V = k_neighbours_updated;
  const auto bytes = V * size_of(piece.dtype);
  bool aligned = starts_neighbours<float, V>(piece.master);
  for (const void* const data : {static_cast<const void*>(piece.weight), piece.grad})
    aligned &= reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
  for (const void* const state : piece.state)
    aligned &= starts_neighbours<C, V>(state);
  return aligned;
}

template <class R>
UpdateEntry<R> entry_of(const UpdatePiece& piece, bool aligned) {
  UpdateEntry<R> entry{};
  entry.weight = piece.weight;
  entry.grad = piece.grad;
  entry.master = piece.master;
  entry.size = piece.size;
  for (int s = 0; s < R::k_states; ++s)
    entry.state[s] = piece.state[s];
  for (int r = 0; r < R::k_rates; ++r)
    entry.rates[r] = piece.rates.at[r];
  entry.decay = piece.rates.decay;
  entry.number = static_cast<std::int32_t>(piece.number);
  entry.dtype = piece.dtype;
  entry.aligned = aligned;
  entry.plain = piece.plain;
  return entry;
}

template <class C, class R>
void launch(const UpdateTable<R>& table, const R& rule, const Queue& queue) {
  static_assert(sizeof(UpdateTable<R>) + sizeof(R) + 2 * sizeof(void*) <= 4096);
  const cudaStream_t stream = stream_of(queue);
  if constexpr (R::k_trusted) {
    const std::size_t sums = table.blocks * sizeof(SquareSums);
    const Workspace scratch(queue, sums + static_cast<std::size_t>(table.count) * sizeof(double));
    auto* const ratios = reinterpret_cast<double*>(scratch.as<std::byte>() + sums);
    squares_kernel<C, R><<<table.blocks, k_group_block, 0, stream>>>(table, rule, scratch.as<SquareSums>());
    check_early_launch("squares of parameters", stream);
    ratios_kernel<R><<<table.count, k_group_block, 0, stream>>>(table, rule, scratch.as<SquareSums>(), ratios);
    check_early_launch("trust ratios", stream);
    update_kernel<C, R><<<table.blocks, k_group_block, 0, stream>>>(table, rule, ratios);
    check_early_launch("update of parameters", stream);
  } else {
    update_kernel<C, R><<<table.blocks, k_group_block, 0, stream>>>(table, rule, nullptr);
    check_early_launch("update of parameters", stream);
  }
}

// Of the parameters that compute in C.
template <class C, class R>
void update_all(const UpdateWork& work, const R& rule, const Queue& queue) {
  UpdateTable<R> table;
  table.rescale = work.rescale;
  table.clip = work.clip;
  table.numbers = work.numbers;
  table.guard = work.guard;
  table.parameters = work.count;
  for (const UpdatePiece& piece : work.pieces) {
    if ((piece.dtype == DType::float64) != std::is_same_v<C, double>)
      continue;
    // A parameter too large for one launch's blocks would have to be beyond any GPU's memory.
    table.first_block[table.count] = table.blocks;
    table.blocks += static_cast<unsigned>((piece.size + k_per_block - 1) / k_per_block);
    table.entries[table.count++] = entry_of<R>(piece, is_aligned<C>(piece));
    if (table.count == UpdateTable<R>::k_entries) {
      launch<C>(table, rule, queue);
      table.count = 0;
      table.blocks = 0;
    }
  }
  if (table.count > 0)
    launch<C>(table, rule, queue);
}

}  // namespace

void update_gpu(const UpdateWork& work, const Queue& queue) {
  if (work.factored)
    return factored_update_gpu(work, queue);
  std::visit([&]<class R>(const R& rule) { update_all<float>(work, rule, queue); }, work.rule);
  std::visit([&]<class R>(const R& rule) { update_all<double>(work, rule, queue); }, work.rule64);
}

}  // namespace sluice::detail
