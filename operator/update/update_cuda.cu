#include <algorithm>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/update/rule.h>

namespace sluice::detail {

namespace {

constexpr int k_table = 48;  // parameters a launch: the table is a kernel argument, of at most 4 KiB
constexpr int k_neighbours_updated = 4;
// Elements of one parameter that a block updates: one vector a thread, so that small networks fill a GPU.
constexpr std::int64_t k_per_block = std::int64_t{k_group_block} * k_neighbours_updated;

struct UpdateTable {
  struct Entry {
    void* weight;
    const void* grad;
    void* state[2];
    std::int64_t size;
    bool aligned;  // all of it in vectors
    double learning_rate;
    double weight_decay;
    std::int64_t number;
  };
  Entry entries[k_table];
  unsigned first_block[k_table];
  int count = 0;
  unsigned blocks = 0;
  const double* numbers = nullptr;  // as of UpdateWork
  std::int64_t parameters = 0;
};
static_assert(sizeof(UpdateTable) + sizeof(UpdateRule<double>) <= 4096);

// V neighbours from `i` on.
template <int V, class T>
__device__ void update_neighbours(
    const UpdateTable::Entry& entry, const UpdateRule<Compute<T>>& rule, Compute<T> rate, std::int64_t i) {
  using C = Compute<T>;
  using Values = Neighbours<T, V>;
  using States = Neighbours<C, V>;
  auto& weight = *reinterpret_cast<Values*>(static_cast<T*>(entry.weight) + i);
  auto* const first = reinterpret_cast<States*>(static_cast<C*>(entry.state[0]) + i);
  auto* const second = reinterpret_cast<States*>(static_cast<C*>(entry.state[1]) + i);
  const bool has_first = entry.state[0] != nullptr, has_second = entry.state[1] != nullptr;
  const Values grad = *reinterpret_cast<const Values*>(static_cast<const T*>(entry.grad) + i);
  Values now = weight;
  States a{}, b{};
  if (has_first)
    a = *first;
  if (has_second)
    b = *second;
  const C decay = static_cast<C>(entry.weight_decay);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    now.at[j] = static_cast<T>(rule.step(
        static_cast<C>(now.at[j]),
        static_cast<C>(grad.at[j]),
        has_first ? &a.at[j] : nullptr,
        has_second ? &b.at[j] : nullptr,
        rate,
        decay));
  }
  weight = now;
  if (has_first)
    *first = a;
  if (has_second)
    *second = b;
}

template <class T>
__global__ void __launch_bounds__(k_group_block)
    update_kernel(const __grid_constant__ UpdateTable table, UpdateRule<Compute<T>> rule) {
  using C = Compute<T>;
  int low = 0, high = table.count - 1;  // the last entry that begins at this block or before
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table.first_block[middle] <= blockIdx.x)
      low = middle;
    else
      high = middle - 1;
  }
  start_early();  // the table is an argument
  const UpdateTable::Entry& entry = table.entries[low];
  if (table.numbers != nullptr)
    rule.rescale = static_cast<C>(table.numbers[table.parameters]);
  const C rate = static_cast<C>(table.numbers != nullptr ? table.numbers[entry.number] : entry.learning_rate);
  constexpr int V = k_neighbours_updated;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x - table.first_block[low]) * k_per_block;
  const std::int64_t end = min(begin + k_per_block, entry.size);
  const std::int64_t mine = begin + static_cast<std::int64_t>(threadIdx.x) * V;
  if (entry.aligned && mine + V <= end)
    return update_neighbours<V, T>(entry, rule, rate, mine);
  for (std::int64_t i = mine; i < min(mine + V, end); ++i)
    update_neighbours<1, T>(entry, rule, rate, i);
}

template <class T>
bool is_aligned(const UpdatePiece& piece) {
  constexpr int V = k_neighbours_updated;
  using C = Compute<T>;
  return starts_neighbours<T, V>(piece.weight) && starts_neighbours<T, V>(piece.grad) &&
         starts_neighbours<C, V>(piece.state[0]) && starts_neighbours<C, V>(piece.state[1]);
}

template <class T>
void launch(UpdateTable& table, const UpdateRule<double>& rule, cudaStream_t stream) {
  if (table.count == 0)
    return;
  update_kernel<T><<<table.blocks, k_group_block, 0, stream>>>(table, rule.as<Compute<T>>());
  check_early_launch("update of parameters", stream);
  table.count = 0;
  table.blocks = 0;
}

template <class T>
void update_all(const UpdateWork& work, DType dtype, cudaStream_t stream) {
  UpdateTable table;
  table.numbers = work.numbers;
  table.parameters = work.count;
  for (const UpdatePiece& piece : work.pieces) {
    if (piece.dtype != dtype)
      continue;
    // A parameter too large for one launch's blocks would have to be beyond any GPU's memory.
    table.first_block[table.count] = table.blocks;
    table.blocks += static_cast<unsigned>((piece.size + k_per_block - 1) / k_per_block);
    table.entries[table.count++] = {
        piece.weight,
        piece.grad,
        {piece.state[0], piece.state[1]},
        piece.size,
        is_aligned<T>(piece),
        piece.learning_rate,
        piece.weight_decay,
        piece.number};
    if (table.count == k_table)
      launch<T>(table, work.rule, stream);
  }
  launch<T>(table, work.rule, stream);
}

}  // namespace

void update_gpu(const UpdateWork& work, const Queue& queue) {
  for (DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::float64}) {
    by_floating(dtype, [&]<class T>() { update_all<T>(work, dtype, static_cast<cudaStream_t>(queue.stream())); });
  }
}

}  // namespace sluice::detail
