#include <algorithm>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/update/grouped.cuh>
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
  now.each([&](int j, C grad, C* state) { now.weight[j] = rule.step(now.weight[j], form.of(grad), state, rates); });
  now.store(entry, i);
}

/// What passes before the step found, of each entry; null where there are none.
struct UpdateLengths {
  double* norms;
  double* ratios;

  __device__ double* norm(int entry) const { return norms == nullptr ? nullptr : norms + entry; }
  template <class R>
  __device__ double* ratio(int entry) const {
    return ratios == nullptr ? nullptr : ratios + entry * directions_of<R>();
  }
};

template <class C, class R>
__global__ void __launch_bounds__(k_group_block)
    update_kernel(const __grid_constant__ UpdateTable<R> table, const R rule, UpdateLengths lengths) {
  const int low = table.entry_of_block();
  start_early();  // the table is an argument
  if (!table.is_taken())
    return;
  const UpdateEntry<R>& entry = table.entries[low];
  const Rates<C> rates = table.template rates_of<C>(entry, lengths.template ratio<R>(low));
  const GradientForm<C> form = table.template form<C>(lengths.norm(low));
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
    SquareSums<directions_of<R>()>& sums) {
  Updated<V, C, R> now;
  now.load(entry, i);
  C direction[V][directions_of<R>()];
  now.each([&](int j, C grad, C* state) { rule.directions(now.weight[j], form.of(grad), state, rates, direction[j]); });
#pragma unroll
  for (int j = 0; j < V; ++j) {
    sums.weight += static_cast<double>(now.weight[j]) * static_cast<double>(now.weight[j]);
#pragma unroll
    for (int d = 0; d < directions_of<R>(); ++d)
      sums.direction[d] += static_cast<double>(direction[j][d]) * static_cast<double>(direction[j][d]);
  }
  if constexpr (R::k_direction_changes)
    now.store_states(entry, i);
}

template <class A>
__device__ A sum_in_block(const A& sum) {
  return join_group(sum, k_group_block, [](const A& a, const A& b) { return a + b; });
}

// Of the blocks of one entry, what their threads add up.
template <class A, class R>
__device__ A sum_of_blocks(const UpdateTable<R>& table, int which, const A* partial) {
  const unsigned end = which + 1 < table.count ? table.first_block[which + 1] : table.blocks;
  A sum{};
  for (unsigned i = table.first_block[which] + threadIdx.x; i < end; i += k_group_block)
    sum = sum + partial[i];
  return sum_in_block(sum);
}

template <int V, class C, class R>
__device__ double gradient_squares(const UpdateEntry<R>& entry, std::int64_t i) {
  C grad[V];
  load_floats(entry.dtype, entry.grad, i, grad);
  double sum = 0;
#pragma unroll
  for (int j = 0; j < V; ++j)
    sum += static_cast<double>(grad[j]) * static_cast<double>(grad[j]);
  return sum;
}

// Before the first pass of a normalized rule: of each block the squares of gradients as they are.
template <class C, class R>
__global__ void __launch_bounds__(k_group_block)
    gradient_squares_kernel(const __grid_constant__ UpdateTable<R> table, double* partial) {
  start_early();
  const int low = table.entry_of_block();
  if (!table.is_taken())
    return;
  const UpdateEntry<R>& entry = table.entries[low];
  double sum = 0;
  each_element(
      entry,
      static_cast<std::int64_t>(blockIdx.x - table.first_block[low]) * k_per_block,
      [&](std::int64_t i) { sum += gradient_squares<k_neighbours_updated, C>(entry, i); },
      [&](std::int64_t i) { sum += gradient_squares<1, C>(entry, i); });
  sum = sum_in_block(sum);
  if (threadIdx.x == 0)
    partial[blockIdx.x] = sum;
}

// A block for each parameter.
template <class R>
__global__ void __launch_bounds__(k_group_block)
    norms_kernel(const __grid_constant__ UpdateTable<R> table, const double* partial, double* norms) {
  start_early();
  if (!table.is_taken())
    return;
  const double sum = sum_of_blocks(table, static_cast<int>(blockIdx.x), partial);
  if (threadIdx.x == 0)
    norms[blockIdx.x] = std::sqrt(sum);
}

// The first pass: of each block the squares.
template <class C, class R>
__global__ void __launch_bounds__(k_group_block) squares_kernel(
    const __grid_constant__ UpdateTable<R> table,
    const R rule,
    UpdateLengths lengths,
    SquareSums<directions_of<R>()>* partial) {
  start_early();
  const int low = table.entry_of_block();
  if (!table.is_taken())
    return;
  const UpdateEntry<R>& entry = table.entries[low];
  const Rates<C> rates = table.template rates_of<C>(entry);
  const GradientForm<C> form = table.template form<C>(lengths.norm(low));
  SquareSums<directions_of<R>()> sums{};
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
    const __grid_constant__ UpdateTable<R> table,
    const R rule,
    const SquareSums<directions_of<R>()>* partial,
    UpdateLengths lengths) {
  start_early();
  if (!table.is_taken())
    return;
  const int which = static_cast<int>(blockIdx.x);
  const SquareSums<directions_of<R>()> sums = sum_of_blocks(table, which, partial);
  const UpdateEntry<R>& entry = table.entries[which];
  if (threadIdx.x != 0)
    return;
  double* const to = lengths.template ratio<R>(which);
  if (entry.plain)
    to[0] = 1;
  else
    rule.ratios(sums, entry.decay, to);
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

// What goes before the step of a rule that asks for norms. `scratch`: of each block, then of each entry.
template <class C, class R>
UpdateLengths measure(const UpdateTable<R>& table, const R& rule, std::byte* scratch, cudaStream_t stream) {
  using Sums = SquareSums<directions_of<R>()>;
  auto* const sums = reinterpret_cast<Sums*>(scratch);
  UpdateLengths lengths{nullptr, reinterpret_cast<double*>(sums + table.blocks)};
  if constexpr (is_normalized<R>()) {
    lengths.norms = lengths.ratios + table.count * directions_of<R>();
    auto* const partial = reinterpret_cast<double*>(scratch);
    gradient_squares_kernel<C, R><<<table.blocks, k_group_block, 0, stream>>>(table, partial);
    check_early_launch("squares of gradients", stream);
    norms_kernel<R><<<table.count, k_group_block, 0, stream>>>(table, partial, lengths.norms);
    check_early_launch("norms of gradients", stream);
  }
  squares_kernel<C, R><<<table.blocks, k_group_block, 0, stream>>>(table, rule, lengths, sums);
  check_early_launch("squares of parameters", stream);
  ratios_kernel<R><<<table.count, k_group_block, 0, stream>>>(table, rule, sums, lengths);
  check_early_launch("trust ratios", stream);
  return lengths;
}

template <class C, class R>
void launch(const UpdateTable<R>& table, const R& rule, const Queue& queue) {
  static_assert(sizeof(UpdateTable<R>) + sizeof(R) + sizeof(UpdateLengths) + sizeof(void*) <= 4096);
  const cudaStream_t stream = stream_of(queue);
  UpdateLengths lengths{nullptr, nullptr};
  if constexpr (R::k_trusted) {
    constexpr std::size_t k_lengths = directions_of<R>() + (is_normalized<R>() ? 1 : 0);
    const std::size_t sums = table.blocks * sizeof(SquareSums<directions_of<R>()>);
    const Workspace scratch(queue, sums + static_cast<std::size_t>(table.count) * k_lengths * sizeof(double));
    lengths = measure<C>(table, rule, scratch.as<std::byte>(), stream);
    update_kernel<C, R><<<table.blocks, k_group_block, 0, stream>>>(table, rule, lengths);
    check_early_launch("update of parameters", stream);
  } else {
    update_kernel<C, R><<<table.blocks, k_group_block, 0, stream>>>(table, rule, lengths);
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
  if (work.grouped)
    return grouped_update_gpu(work, queue);
  std::visit([&]<class R>(const R& rule) { update_all<float>(work, rule, queue); }, work.rule);
  std::visit([&]<class R>(const R& rule) { update_all<double>(work, rule, queue); }, work.rule64);
}

}  // namespace sluice::detail
