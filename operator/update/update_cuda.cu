#include <algorithm>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/update/rule.h>

namespace sluice::detail {

namespace {

constexpr int k_table = 48;                 // parameters a launch: the table is a kernel argument, of at most 4 KiB
constexpr std::int64_t k_per_block = 4096;  // elements of one parameter that a block updates

struct UpdateTable {
  struct Entry {
    void* weight;
    const void* grad;
    void* state[2];
    std::int64_t size;
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

template <class T>
__global__ void __launch_bounds__(k_group_block)
    update_kernel(const __grid_constant__ UpdateTable table, UpdateRule<Compute<T>> rule) {
  using C = Compute<T>;
  int at = 0;
  while (at + 1 < table.count && table.first_block[at + 1] <= blockIdx.x)
    ++at;
  const UpdateTable::Entry& entry = table.entries[at];
  T* weight = static_cast<T*>(entry.weight);
  const T* grad = static_cast<const T*>(entry.grad);
  C* first = static_cast<C*>(entry.state[0]);
  C* second = static_cast<C*>(entry.state[1]);
  if (table.numbers != nullptr)
    rule.rescale = static_cast<C>(table.numbers[table.parameters]);
  const C rate = static_cast<C>(table.numbers != nullptr ? table.numbers[entry.number] : entry.learning_rate);
  const C decay = static_cast<C>(entry.weight_decay);
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x - table.first_block[at]) * k_per_block;
  const std::int64_t end = min(begin + k_per_block, entry.size);
#pragma unroll 4
  for (std::int64_t i = begin + threadIdx.x; i < end; i += k_group_block) {
    weight[i] = static_cast<T>(rule.step(
        static_cast<C>(weight[i]),
        static_cast<C>(grad[i]),
        first == nullptr ? nullptr : first + i,
        second == nullptr ? nullptr : second + i,
        rate,
        decay));
  }
}

template <class T>
void launch(UpdateTable& table, const UpdateRule<double>& rule, cudaStream_t stream) {
  if (table.count == 0)
    return;
  update_kernel<T><<<table.blocks, k_group_block, 0, stream>>>(table, rule.as<Compute<T>>());
  cuda::cuda_check(cudaGetLastError(), "update of parameters");
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
