#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/update/floats.cuh>
#include <sluice/operator/update/work.h>
#include <sluice/operator/workspace.h>

// Adafactor on a GPU: five kernels for all parameters of a table. What strips leave for the others lies in scratch.
namespace sluice::detail {

namespace {

struct FactoredEntry {
  void* weight;
  const void* grad;
  void* state[3];  // variance of rows or elements, of columns, momentum
  float* master;
  Strips strips;
  double rates[FactoredRule::k_rates];
  double decay;
  std::int64_t partials, means;  // where the entry's stand in scratch
  std::int32_t number;
  DType dtype;
};

/// As many parameters as the 4 KiB of arguments hold.
struct FactoredTable {
  static constexpr int k_entries = 20;

  FactoredEntry entries[k_entries];
  unsigned first_strip[k_entries];   // of the grid of strips
  unsigned first_column[k_entries];  // of the grid of columns and matrices
  int count = 0;
  unsigned strips = 0, columns = 0;  // blocks
  double rescale = 1, clip = -1;
  const double* numbers = nullptr;  // as of UpdateWork
  const double* guard = nullptr;
  std::int64_t parameters = 0, partials = 0, means = 0;
  FactoredRule rule;

  __device__ bool is_taken() const { return guard == nullptr || guard[2] != 0; }
  __device__ int entry_at(const unsigned* first, unsigned block) const {
    int which = 0;
    while (which + 1 < count && first[which + 1] <= block)
      ++which;
    return which;
  }
  __device__ double rate(const FactoredEntry& entry, int r) const {
    return numbers == nullptr ? entry.rates[r] : numbers[entry.number * FactoredRule::k_rates + r];
  }
  template <class C>
  __device__ FactoredStep<C> step(const FactoredEntry& entry) const {
    const double given = numbers == nullptr ? rescale : numbers[parameters * FactoredRule::k_rates];
    const double rates[] = {rate(entry, 0), rate(entry, 1), rate(entry, 2)};
    const GradientForm<C> form{static_cast<C>(guard == nullptr ? given : given * guard[1]), static_cast<C>(clip)};
    return {rule, entry.dtype, rates, entry.decay, form};
  }
};
static_assert(sizeof(FactoredTable) + 64 <= 4096);

/// What strips leave, of all entries.
template <class C>
struct FactoredScratch {
  SquareSums<1>* sums;  // a strip
  double* lengths;      // an entry
  C* partials;
  C* means;
};

template <class C>
__device__ C load_one(DType dtype, const void* from, std::int64_t i) {
  C value[1];
  load_floats(dtype, from, i, value);
  return value[0];
}

/// A strip, and the threads that share its rows: all of a block, or a warp a row, or one.
template <class C>
struct StripWork {
  const FactoredEntry& entry;
  const FactoredStep<C> step;
  Strips::Strip at;
  std::int64_t index;
  int width;

  __device__ StripWork(const FactoredTable& table, int which)
      : entry(table.entries[which]),
        step(table.template step<C>(entry)),
        at(entry.strips.strip(blockIdx.x - table.first_strip[which])),
        index(blockIdx.x - table.first_strip[which]),
        width(
            !entry.strips.factored()        ? k_group_block
            : entry.strips.columns < k_warp ? 1
                                            : k_warp) {}

  __device__ C grad(std::int64_t i) const { return step.form.of(load_one<C>(entry.dtype, entry.grad, i)); }
  __device__ C weight(std::int64_t i) const {
    const C weight = load_one<C>(entry.dtype, entry.weight, i);
    if constexpr (std::is_same_v<C, float>) {
      if (entry.master != nullptr && rounded_as(entry.dtype, entry.master[i]) == weight)
        return entry.master[i];
    }
    return weight;
  }
  __device__ C* state(int i) const { return static_cast<C*>(entry.state[i]); }

  /// Calls f(row) for the rows that this thread shares.
  template <class F>
  __device__ void each_row(const F& f) const {
    const std::int64_t last = at.end / entry.strips.columns;
    for (std::int64_t row = at.begin / entry.strips.columns + threadIdx.x / width; row < last;
         row += k_group_block / width)
      f(row);
  }
  /// Calls f(place, direction) for this thread's elements.
  template <class F>
  __device__ void each_direction(const C* means, const F& f) const {
    if (!entry.strips.factored()) {
      for (std::int64_t i = at.begin + threadIdx.x; i < at.end; i += k_group_block)
        f(i, step.direction(grad(i), state(0)[i]));
      return;
    }
    const std::int64_t columns = entry.strips.columns;
    each_row([&](std::int64_t row) {
      const std::int64_t matrix = row / entry.strips.rows;
      const C of_row = state(0)[row] / means[entry.means + matrix];
      const C* const of_column = state(1) + matrix * columns;
      for (std::int64_t k = threadIdx.x % width; k < columns; k += width)
        f(row * columns + k, step.direction(grad(row * columns + k), of_row * of_column[k]));
    });
  }
};

// Means of rows, and what a strip has of each column.
template <class C>
__global__ void __launch_bounds__(k_group_block)
    rows_kernel(const __grid_constant__ FactoredTable table, FactoredScratch<C> scratch) {
  start_early();
  if (!table.is_taken())
    return;
  const StripWork<C> strip(table, table.entry_at(table.first_strip, blockIdx.x));
  const Strips& strips = strip.entry.strips;
  if (!strips.factored())
    return;
  const std::int64_t columns = strips.columns;
  strip.each_row([&](std::int64_t row) {
    double sum = 0;
    for (std::int64_t k = threadIdx.x % strip.width; k < columns; k += strip.width) {
      const auto g = static_cast<double>(strip.grad(row * columns + k));
      sum += g * g;
    }
    for (int lanes = strip.width / 2; lanes > 0; lanes /= 2)
      sum += shuffle_xor(sum, lanes);
    if (threadIdx.x % strip.width == 0)
      strip.state(0)[row] = strip.step.mixed(strip.state(0)[row], sum / static_cast<double>(columns));
  });
  const std::int64_t first = strip.at.begin / (strips.rows * columns), elements = strips.rows * columns;
  const std::int64_t matrices = (strip.at.end - 1) / elements - first + 1;
  for (std::int64_t i = threadIdx.x; i < matrices * columns; i += k_group_block) {
    const std::int64_t matrix = first + i / columns, begin = matrix * elements;
    const std::int64_t from = begin < strip.at.begin ? strip.at.begin : begin;
    const std::int64_t to = begin + elements < strip.at.end ? begin + elements : strip.at.end;
    C sum = 0;
    for (std::int64_t at = from + i % columns; at < to; at += columns) {
      const C g = strip.grad(at);
      sum += g * g;
    }
    scratch.partials[strip.entry.partials + strips.partial(strip.index, matrix) + i % columns] = sum;
  }
}

// Means of columns, a thread each, and of a matrix's rows, a warp each, in blocks behind those.
template <class C>
__global__ void __launch_bounds__(k_group_block)
    columns_kernel(const __grid_constant__ FactoredTable table, FactoredScratch<C> scratch) {
  start_early();
  if (!table.is_taken())
    return;
  const int which = table.entry_at(table.first_column, blockIdx.x);
  const FactoredEntry& entry = table.entries[which];
  const FactoredStep<C> step = table.template step<C>(entry);
  const Strips& strips = entry.strips;
  const std::int64_t all = strips.matrices() * strips.columns, of_columns = (all + k_group_block - 1) / k_group_block;
  const std::int64_t block = blockIdx.x - table.first_column[which];
  if (block < of_columns) {
    const std::int64_t i = block * k_group_block + threadIdx.x;
    if (i >= all)
      return;
    const C* const partial =
        scratch.partials + entry.partials + i / strips.columns * strips.of_matrix * strips.columns + i % strips.columns;
    double sum = 0;
    for (std::int64_t k = 0; k < strips.of_matrix; ++k)
      sum += static_cast<double>(partial[k * strips.columns]);
    C& mean = static_cast<C*>(entry.state[1])[i];
    mean = step.mixed(mean, sum / static_cast<double>(strips.rows));
    return;
  }
  const std::int64_t matrix = (block - of_columns) * (k_group_block / k_warp) + threadIdx.x / k_warp;
  if (matrix >= strips.matrices())
    return;
  double sum = 0;
  for (std::int64_t row = threadIdx.x % k_warp; row < strips.rows; row += k_warp)
    sum += static_cast<double>(static_cast<const C*>(entry.state[0])[matrix * strips.rows + row]);
  for (int lanes = k_warp / 2; lanes > 0; lanes /= 2)
    sum += shuffle_xor(sum, lanes);
  if (threadIdx.x % k_warp == 0)
    scratch.means[entry.means + matrix] = step.at_least(static_cast<C>(sum / static_cast<double>(strips.rows)));
}

__device__ SquareSums<1> joined(const SquareSums<1>& sums) {
  return join_group(sums, k_group_block, [](const SquareSums<1>& a, const SquareSums<1>& b) { return a + b; });
}

// Squares of weights and directions; of elements that stand alone the variance first.
template <class C>
__global__ void __launch_bounds__(k_group_block)
    directions_kernel(const __grid_constant__ FactoredTable table, FactoredScratch<C> scratch) {
  start_early();
  if (!table.is_taken())
    return;
  const StripWork<C> strip(table, table.entry_at(table.first_strip, blockIdx.x));
  if (!strip.entry.strips.factored()) {
    for (std::int64_t i = strip.at.begin + threadIdx.x; i < strip.at.end; i += k_group_block) {
      const auto g = static_cast<double>(strip.grad(i));
      strip.state(0)[i] = strip.step.mixed(strip.state(0)[i], g * g);
    }
  }
  SquareSums<1> sums{};
  strip.each_direction(scratch.means, [&](std::int64_t i, C direction) {
    const auto along = static_cast<double>(direction), weight = static_cast<double>(strip.weight(i));
    sums = sums + SquareSums<1>{weight * weight, {along * along}};
  });
  sums = joined(sums);
  if (threadIdx.x == 0)
    scratch.sums[blockIdx.x] = sums;
}

// A block for each parameter.
template <class C>
__global__ void __launch_bounds__(k_group_block)
    lengths_kernel(const __grid_constant__ FactoredTable table, FactoredScratch<C> scratch) {
  start_early();
  if (!table.is_taken())
    return;
  const FactoredEntry& entry = table.entries[blockIdx.x];
  const std::int64_t first = table.first_strip[blockIdx.x];
  SquareSums<1> sums{};
  for (std::int64_t i = threadIdx.x; i < entry.strips.count; i += k_group_block)
    sums = sums + scratch.sums[first + i];
  sums = joined(sums);
  const double rates[] = {table.rate(entry, 0), table.rate(entry, 1), table.rate(entry, 2)};
  if (threadIdx.x == 0)
    scratch.lengths[blockIdx.x] = table.rule.length(sums, entry.strips.size, rates);
}

template <class C>
__global__ void __launch_bounds__(k_group_block)
    step_kernel(const __grid_constant__ FactoredTable table, FactoredScratch<C> scratch) {
  start_early();
  if (!table.is_taken())
    return;
  const int which = table.entry_at(table.first_strip, blockIdx.x);
  const StripWork<C> strip(table, which);
  const auto length = static_cast<C>(scratch.lengths[which]);
  strip.each_direction(scratch.means, [&](std::int64_t i, C direction) {
    C* const momentum = strip.state(2) == nullptr ? nullptr : strip.state(2) + i;
    const C weight[] = {strip.step.step(strip.weight(i), length * direction, momentum)};
    store_floats(strip.entry.dtype, strip.entry.weight, i, weight);
    if constexpr (std::is_same_v<C, float>) {
      if (strip.entry.master != nullptr)
        strip.entry.master[i] = weight[0];
    }
  });
}

template <class C>
void launch(const FactoredTable& table, const Queue& queue) {
  const cudaStream_t stream = stream_of(queue);
  const std::size_t sums = table.strips * sizeof(SquareSums<1>);
  const std::size_t lengths = FactoredTable::k_entries * sizeof(double);
  const std::size_t words = static_cast<std::size_t>(table.partials + table.means) * sizeof(C);
  const Workspace memory(queue, sums + lengths + words);
  auto* const bytes = memory.as<std::byte>();
  FactoredScratch<C> scratch{};
  scratch.sums = reinterpret_cast<SquareSums<1>*>(bytes);
  scratch.lengths = reinterpret_cast<double*>(bytes + sums);
  scratch.partials = reinterpret_cast<C*>(bytes + sums + lengths);
  scratch.means = scratch.partials + table.partials;
  if (table.columns > 0) {
    rows_kernel<C><<<table.strips, k_group_block, 0, stream>>>(table, scratch);
    check_early_launch("means of rows", stream);
    columns_kernel<C><<<table.columns, k_group_block, 0, stream>>>(table, scratch);
    check_early_launch("means of columns", stream);
  }
  directions_kernel<C><<<table.strips, k_group_block, 0, stream>>>(table, scratch);
  check_early_launch("squares of directions", stream);
  lengths_kernel<C><<<table.count, k_group_block, 0, stream>>>(table, scratch);
  check_early_launch("lengths of steps", stream);
  step_kernel<C><<<table.strips, k_group_block, 0, stream>>>(table, scratch);
  check_early_launch("adafactor_update", stream);
}

void add(FactoredTable& table, const UpdatePiece& piece) {
  const Strips& strips = piece.strips;
  table.first_strip[table.count] = table.strips;
  table.first_column[table.count] = table.columns;
  FactoredEntry& entry = table.entries[table.count++];
  entry.weight = piece.weight;
  entry.grad = piece.grad;
  entry.master = piece.master;
  entry.strips = strips;
  for (int i = 0; i < 3; ++i)
    entry.state[i] = piece.state[i];
  for (int r = 0; r < FactoredRule::k_rates; ++r)
    entry.rates[r] = piece.rates.at[r];
  entry.decay = piece.rates.decay;
  entry.partials = table.partials;
  entry.means = table.means;
  entry.number = static_cast<std::int32_t>(piece.number);
  entry.dtype = piece.dtype;
  table.strips += static_cast<unsigned>(strips.count);
  if (!strips.factored())
    return;
  constexpr std::int64_t k_warps = k_group_block / k_warp;
  const std::int64_t columns = (strips.matrices() * strips.columns + k_group_block - 1) / k_group_block;
  table.columns += static_cast<unsigned>(columns + (strips.matrices() + k_warps - 1) / k_warps);
  table.partials += strips.partials();
  table.means += strips.matrices();
}

FactoredTable table_of(const UpdateWork& work) {
  FactoredTable table{};
  table.rescale = work.rescale;
  table.clip = work.clip;
  table.numbers = work.numbers;
  table.guard = work.guard;
  table.parameters = work.count;
  table.rule = *work.factored;
  return table;
}

template <class C>
void update_all(const UpdateWork& work, const Queue& queue) {
  FactoredTable table = table_of(work);
  for (const UpdatePiece& piece : work.pieces) {
    if ((piece.dtype == DType::float64) != std::is_same_v<C, double>)
      continue;
    add(table, piece);
    if (table.count == FactoredTable::k_entries) {
      launch<C>(table, queue);
      table = table_of(work);
    }
  }
  if (table.count > 0)
    launch<C>(table, queue);
}

}  // namespace

void factored_update_gpu(const UpdateWork& work, const Queue& queue) {
  update_all<float>(work, queue);
  update_all<double>(work, queue);
}

}  // namespace sluice::detail
