#include <algorithm>
#include <cstring>

#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/elementwise/elements.h>
#include <sluice/operator/elementwise/loop.h>
#include <sluice/operator/elementwise/short_rows.h>
#include <sluice/operator/simd/rows.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_chunk = k_most_short;  // elements of a buffer: six of them fit the nearest cache
using Buffer = std::byte[k_chunk * sizeof(double)];

template <class To, class From>
void gather_as(const std::byte* from, std::int64_t step, void* to, std::int64_t n) {
  const From* source = reinterpret_cast<const From*>(from);
  To* target = static_cast<To*>(to);
  if (step == 1) {
    if constexpr (std::is_same_v<To, From>) {
      std::copy_n(source, n, target);
    } else {
      simd::convert(source, target, n);
    }
  } else if (step == 0) {
    std::fill_n(target, n, static_cast<To>(*source));
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      target[i] = static_cast<To>(source[i * step]);
  }
}

}  // namespace

void gather(DType dtype, const std::byte* from, std::int64_t step, void* to, std::int64_t n) {
  by_dtype(dtype, [&]<class T>() { gather_as<math::Compute<T>, T>(from, step, to, n); });
}

void scatter(DType dtype, const void* from, std::byte* to, std::int64_t step, std::int64_t n) {
  by_dtype(dtype, [&]<class T>() {
    const auto* source = static_cast<const math::Compute<T>*>(from);
    T* target = reinterpret_cast<T*>(to);
    if constexpr (!std::is_same_v<T, math::Compute<T>>) {
      if (step == 1)
        return simd::convert(source, target, n);
    }
    for (std::int64_t i = 0; i < n; ++i)
      target[i * step] = static_cast<T>(source[i]);
  });
}

void fill_constant(DType dtype, std::uint64_t bits, void* to, std::int64_t n) {
  by_dtype(dtype, [&]<class T>() {
    math::Compute<T> value;
    std::memcpy(&value, &bits, sizeof(value));
    std::fill_n(static_cast<math::Compute<T>*>(to), n, value);
  });
}

namespace {

std::int64_t bytes_of(DType dtype) noexcept {
  return static_cast<std::int64_t>(size_of(dtype));
}

// Results that no cache keeps until they are read go past it: a line that is written would be read first. Not where an
// operand is written over, for that one is read anyway.
template <int K>
bool streams(const PointwiseArgs<K>& args) {
  constexpr std::int64_t k_large = std::int64_t{16} << 20, k_long = 4096;
  if (args.plan.size * bytes_of(args.dtypes[0]) < k_large || args.plan.inner_stride(0) != 1 ||
      args.plan.inner() < k_long || is_half(args.dtypes[0]))
    return false;
  return std::find(args.data.begin() + 1, args.data.end(), args.data[0]) == args.data.end();
}

template <int K>
class Runner {
 public:
  Runner(const PointwiseArgs<K>& args, PointwiseLoop loop, bool stream) : args_(args), loop_(loop), stream_(stream) {
    for (int k = 0; k < K; ++k) {
      const bool unit = args.plan.inner_stride(k) == 1 && !is_half(args.dtypes[k]) && !args.is_constant[k];
      buffered_[k] = !unit;
      any_buffered_ = any_buffered_ || !unit;
      if (args.is_constant[k])
        fill_constant(args.dtypes[k], args.constants[k], buffers_[k], std::min(args.plan.size, k_chunk));
    }
  }

  void run(const StridedRun<K>& run) {
    const std::int64_t chunk = any_buffered_ ? k_chunk : run.count;
    const std::int64_t before = stream_ ? before_lines(run) : 0;
    if (before > 0)
      run_chunk(run, 0, before, false);
    for (std::int64_t done = before; done < run.count; done += chunk)
      run_chunk(run, done, std::min(chunk, run.count - done), stream_);
  }

 private:
  // Elements before the first line of the caches that begins with one.
  std::int64_t before_lines(const StridedRun<K>& run) const noexcept {
    constexpr std::uintptr_t k_line = 64;
    const std::uintptr_t beyond = reinterpret_cast<std::uintptr_t>(address(run, 0, 0)) % k_line;
    return std::min(run.count, static_cast<std::int64_t>((k_line - beyond) % k_line) / bytes_of(args_.dtypes[0]));
  }
  std::byte* address(const StridedRun<K>& run, int k, std::int64_t done) const noexcept {
    return args_.data[k] + (run.offset[k] + done * run.step[k]) * bytes_of(args_.dtypes[k]);
  }

  void run_chunk(const StridedRun<K>& run, std::int64_t done, std::int64_t n, bool stream) {
    const void* in[K - 1];
    for (int k = 1; k < K; ++k) {
      in[k - 1] = buffers_[k];
      if (args_.is_constant[k])
        continue;
      const std::byte* from = address(run, k, done);
      if (!buffered_[k]) {
        in[k - 1] = from;
      } else {
        gather(args_.dtypes[k], from, run.step[k], buffers_[k], n);
      }
    }
    std::byte* to = address(run, 0, done);
    loop_(buffered_[0] ? static_cast<void*>(buffers_[0]) : to, in, n, stream);
    if (buffered_[0])
      scatter(args_.dtypes[0], buffers_[0], to, run.step[0], n);
  }

  const PointwiseArgs<K>& args_;
  PointwiseLoop loop_;
  bool stream_;
  bool buffered_[K] = {};
  bool any_buffered_ = false;
  alignas(64) Buffer buffers_[K];
};

/// Rows so short that what is done once for each of them would take longer than they do: as many go together as a
/// buffer holds.
template <int K>
class ShortRunner {
 public:
  ShortRunner(const PointwiseArgs<K>& args, PointwiseLoop loop) : args_(args), loop_(loop) {
    const StridedPlan<K>& plan = args.plan;
    for (int k = 0; k < K; ++k) {
      step_[k] = plan.inner_stride(k);
      const bool close = step_[k] == 1 && plan.strides[k][plan.ndim - 2] == plan.inner();
      buffered_[k] = !close || is_half(args.dtypes[k]);
      if (args.is_constant[k])
        fill_constant(args.dtypes[k], args.constants[k], buffers_[k], k_chunk);
    }
  }
  static bool serves(const PointwiseArgs<K>& args) noexcept {
    constexpr std::int64_t k_short = 64, k_fewest = 4;
    const StridedPlan<K>& plan = args.plan;
    return plan.ndim > 1 && plan.inner() <= k_short && plan.extents[plan.ndim - 2] >= k_fewest;
  }
  /// The plan of rows in place of elements.
  static StridedPlan<K> rows_of(StridedPlan<K> plan) noexcept {
    plan.size /= plan.inner();
    --plan.ndim;
    return plan;
  }

  void run(const StridedRun<K>& rows) {
    const std::int64_t most = k_chunk / args_.plan.inner();
    for (std::int64_t done = 0; done < rows.count; done += most)
      run_rows(rows, done, std::min(most, rows.count - done));
  }

 private:
  ShortRows rows_at(const StridedRun<K>& rows, int k, std::int64_t n) const noexcept {
    return {n, args_.plan.inner(), rows.step[k], step_[k]};
  }
  void run_rows(const StridedRun<K>& rows, std::int64_t done, std::int64_t n) {
    std::byte* at[K];
    const void* in[K - 1];
    for (int k = 0; k < K; ++k)
      at[k] = args_.data[k] + (rows.offset[k] + done * rows.step[k]) * bytes_of(args_.dtypes[k]);
    for (int k = 1; k < K; ++k) {
      in[k - 1] = buffered_[k] || args_.is_constant[k] ? static_cast<const void*>(buffers_[k]) : at[k];
      const bool is_kept = rows.step[k] == 0 && kept_[k] == at[k] && kept_rows_[k] >= n;
      if (args_.is_constant[k] || !buffered_[k] || is_kept)
        continue;
      gather_rows(args_.dtypes[k], at[k], rows_at(rows, k, n), buffers_[k]);
      kept_[k] = at[k];
      kept_rows_[k] = n;
    }
    loop_(buffered_[0] ? static_cast<void*>(buffers_[0]) : at[0], in, n * args_.plan.inner(), false);
    if (buffered_[0])
      scatter_rows(args_.dtypes[0], buffers_[0], at[0], rows_at(rows, 0, n));
  }

  const PointwiseArgs<K>& args_;
  PointwiseLoop loop_;
  std::int64_t step_[K];
  bool buffered_[K];
  // Of rows that are all the same one: which, and how many of it the buffer holds.
  const std::byte* kept_[K] = {};
  std::int64_t kept_rows_[K] = {};
  alignas(64) Buffer buffers_[K];
};

}  // namespace

template <int K>
void run_loop(const PointwiseArgs<K>& args, PointwiseLoop loop, std::int64_t grain) {
  if (args.plan.ndim == 1 && args.plan.size <= k_chunk) {
    StridedRun<K> all{.count = args.plan.size};
    for (int k = 0; k < K; ++k)
      all.step[k] = args.plan.inner_stride(k);
    return Runner<K>(args, loop, false).run(all);
  }
  if (ShortRunner<K>::serves(args)) {
    const StridedPlan<K> rows = ShortRunner<K>::rows_of(args.plan);
    const std::int64_t rows_grain = std::max<std::int64_t>(1, grain / args.plan.inner());
    return parallel_for(rows.size, rows_grain, [&](std::int64_t begin, std::int64_t end) {
      ShortRunner<K> runner(args, loop);
      walk_runs(rows, begin, end, [&](const StridedRun<K>& run) { runner.run(run); });
    });
  }
  const bool stream = streams(args);
  parallel_for(args.plan.size, grain, [&](std::int64_t begin, std::int64_t end) {
    Runner<K> runner(args, loop, stream);
    walk_runs(args.plan, begin, end, [&](const StridedRun<K>& run) { runner.run(run); });
    if (stream)
      simd::finish_streams();
  });
}

template void run_loop<2>(const PointwiseArgs<2>&, PointwiseLoop, std::int64_t);
template void run_loop<3>(const PointwiseArgs<3>&, PointwiseLoop, std::int64_t);
template void run_loop<4>(const PointwiseArgs<4>&, PointwiseLoop, std::int64_t);
template void run_loop<5>(const PointwiseArgs<5>&, PointwiseLoop, std::int64_t);
template void run_loop<6>(const PointwiseArgs<6>&, PointwiseLoop, std::int64_t);

}  // namespace sluice::detail
