#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/update/table.cuh>

// GroupAdaGrad on a GPU: some threads a row, by how long it is.
namespace sluice::detail {

inline int row_threads(std::int64_t columns) {
  return columns < 4 ? 1 : columns <= 1024 ? k_warp : k_group_block;
}

inline std::int64_t rows_a_block(int width) {
  return k_group_block / width;
}

template <class C>
__global__ void __launch_bounds__(k_group_block)
    grouped_kernel(const __grid_constant__ UpdateTable<GroupedRule> table, const GroupedRule rule) {
  start_early();
  const int low = table.entry_of_block();
  if (!table.is_taken())
    return;
  const UpdateEntry<GroupedRule>& entry = table.entries[low];
  const int width = entry.width, lane = static_cast<int>(threadIdx.x) % width;
  const std::int64_t columns = entry.columns;
  const std::int64_t block = blockIdx.x - table.first_block[low];
  const std::int64_t row = block * (k_group_block / width) + static_cast<int>(threadIdx.x) / width;
  const std::int64_t begin = row * columns, end = begin + columns;
  if (begin >= entry.size)
    return;  // with all of its group
  const GroupedStep<C> step(rule, table.template rates_of<C>(entry), table.template form<C>());
  Updated<1, C, GroupedRule> now;
  double squares = 0;
  for (std::int64_t i = begin + lane; i < end; i += width) {
    now.load(entry, i);
    const auto g = static_cast<double>(step.decayed(now.weight[0], now.grad[0]));
    squares += g * g;
  }
  C& kept = static_cast<C*>(entry.state[0])[row];
  const C old = kept;
  squares = join_group(squares, width, [](double a, double b) { return a + b; });
  const C history = step.history(old, squares, columns);
  sync_group(width);  // all have read
  if (lane == 0)
    kept = history;
  for (std::int64_t i = begin + lane; i < end; i += width) {
    now.load(entry, i);
    now.weight[0] = step.step(now.weight[0], now.grad[0], history);
    now.store(entry, i);
  }
}

template <class C>
void launch_grouped(const UpdateTable<GroupedRule>& table, const GroupedRule& rule, const Queue& queue) {
  static_assert(sizeof(UpdateTable<GroupedRule>) + sizeof(GroupedRule) <= 4096);
  const cudaStream_t stream = stream_of(queue);
  grouped_kernel<C><<<table.blocks, k_group_block, 0, stream>>>(table, rule);
  check_early_launch("group_adagrad_update", stream);
}

inline UpdateEntry<GroupedRule> grouped_entry(const UpdatePiece& piece) {
  UpdateEntry<GroupedRule> entry{};
  entry.columns = piece.columns;
  entry.width = row_threads(piece.columns);
  entry.weight = piece.weight;
  entry.grad = piece.grad;
  entry.state[0] = piece.state[0];
  entry.master = piece.master;
  entry.size = piece.size;
  entry.rates[0] = piece.rates.at[0];
  entry.decay = piece.rates.decay;
  entry.number = static_cast<std::int32_t>(piece.number);
  entry.dtype = piece.dtype;
  return entry;
}

template <class C>
void update_rows(const UpdateWork& work, const Queue& queue) {
  UpdateTable<GroupedRule> table;
  table.rescale = work.rescale;
  table.clip = work.clip;
  table.numbers = work.numbers;
  table.guard = work.guard;
  table.parameters = work.count;
  for (const UpdatePiece& piece : work.pieces) {
    if ((piece.dtype == DType::float64) != std::is_same_v<C, double>)
      continue;
    const UpdateEntry<GroupedRule> entry = grouped_entry(piece);
    const std::int64_t rows = piece.size / piece.columns, together = rows_a_block(entry.width);
    table.first_block[table.count] = table.blocks;
    table.blocks += static_cast<unsigned>((rows + together - 1) / together);
    table.entries[table.count++] = entry;
    if (table.count == UpdateTable<GroupedRule>::k_entries) {
      launch_grouped<C>(table, *work.grouped, queue);
      table.count = 0;
      table.blocks = 0;
    }
  }
  if (table.count > 0)
    launch_grouped<C>(table, *work.grouped, queue);
}

inline void grouped_update_gpu(const UpdateWork& work, const Queue& queue) {
  update_rows<float>(work, queue);
  update_rows<double>(work, queue);
}

}  // namespace sluice::detail
