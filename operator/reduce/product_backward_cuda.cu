// The gradient of a product on a GPU: groups of threads multiply the factors of a row, then divide by each; rows that
// are few are cut into pieces by shape alone, each of which joins what all of them are.
#include <cstdint>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/floating_array.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/reduce/factors.h>
#include <sluice/operator/reduce/plan.h>
#include <sluice/operator/reduce/product_gradient.h>
#include <sluice/operator/reduce/split.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

struct FactorRows {
  Geometry<2, std::int64_t> kept;
  Geometry<1, std::int64_t> reduced;
  Split split;
  int width;

  explicit FactorRows(const ReducePlan& plan) : kept(plan.kept), reduced(plan.reduced) {
    constexpr std::int64_t k_threads = 1 << 17;  // enough for a GPU
    width = plan.columns() ? 1 : group_width(plan.terms());
    split = split_terms(plan.outputs(), plan.terms(), k_threads / width, std::int64_t{64} * width);
  }
  SLUICE_HD std::int64_t units() const { return kept.size * split.pieces; }
};

/// Numbers of any floating type in double: divisions by them are most of the code, which there is once so.
struct Numbers {
  FloatingArray<double> wide;
  FloatingArray<float> narrow;
  bool is_wide;

  explicit Numbers(const TensorView& view) : wide(view), narrow(view), is_wide(view.dtype == DType::float64) {}
  __device__ double operator[](std::int64_t i) const { return is_wide ? wide[i] : static_cast<double>(narrow[i]); }
  __device__ void put(std::int64_t i, double value) const {
    if (is_wide)
      wide.put(i, value);
    else
      narrow.put(i, static_cast<float>(value));
  }
};

/// One piece of a row.
struct FactorPiece {
  const FactorRows& rows;
  std::int64_t row, begin, end, from;

  __device__ FactorPiece(const FactorRows& all, std::int64_t unit) : rows(all), row(unit / all.split.pieces) {
    begin = (unit - row * all.split.pieces) * all.split.chunk;
    end = min(begin + all.split.chunk, all.reduced.size);
    from = all.kept.offsets(row)[1];
  }
  __device__ std::int64_t place(std::int64_t i) const { return from + rows.reduced.offsets(i)[0]; }

  /// Of this thread.
  __device__ Factors product(const Numbers& x, int lane) const {
    constexpr int k_under_way = 4;
    Factors factors;
    for (std::int64_t i = begin + lane; i < end; i += k_under_way * rows.width) {
      double loaded[k_under_way];
#pragma unroll
      for (int u = 0; u < k_under_way; ++u)
        loaded[u] = i + u * rows.width < end ? x[place(i + u * rows.width)] : 1;
#pragma unroll
      for (int u = 0; u < k_under_way; ++u)
        factors.take(loaded[u]);
    }
    return factors;
  }
};

/// With pieces their products first, without results; then what all of a row are is joined. Without a row is one.
__global__ void __launch_bounds__(k_group_block)
    other_factors_kernel(Numbers x, Numbers dy, FactorRows rows, Factors* pieces, bool finishes, Numbers dx) {
  start_early();
  const Group group(rows.width);
  for (std::int64_t unit = group.index; unit < rows.units(); unit += group.count) {
    const FactorPiece piece(rows, unit);
    Factors factors;
    if (pieces == nullptr || !finishes) {
      factors = piece.product(x, group.lane);
    } else {
      for (std::int64_t i = group.lane; i < rows.split.pieces; i += rows.width)
        factors = Factors::joined(factors, pieces[piece.row * rows.split.pieces + i]);
    }
    factors = join_group(factors, rows.width, [](const Factors& a, const Factors& b) { return Factors::joined(a, b); });
    if (!finishes) {
      if (group.lane == 0)
        pieces[unit] = factors;
      continue;
    }
    const double head = dy[piece.row];
    for (std::int64_t i = piece.begin + group.lane; i < piece.end; i += rows.width) {
      const std::int64_t place = piece.place(i);
      dx.put(place, factors.others(x[place], head));
    }
  }
}

}  // namespace

void prod_backward_gpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &dx = call.outputs[0];
  if (x.size == 0)
    return;
  const FactorRows rows(plan_reduce(x, call.attributes.as<TermsAttributes>().axes));
  const cudaStream_t stream = stream_of(call.queue);
  const unsigned blocks = blocks_for_groups(rows.units(), rows.width);
  const bool cut = rows.split.pieces > 1;
  const Workspace scratch(call.queue, cut ? static_cast<std::size_t>(rows.units()) * sizeof(Factors) : 0);
  const auto launch = [&](bool finishes) {
    other_factors_kernel<<<blocks, k_group_block, 0, stream>>>(
        Numbers(x), Numbers(call.inputs[1]), rows, scratch.as<Factors>(), finishes, Numbers(dx));
    check_early_launch(call.op.name, stream);
  };
  if (cut)
    launch(false);
  launch(true);
}

}  // namespace sluice::detail
