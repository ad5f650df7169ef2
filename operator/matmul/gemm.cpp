#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/engine/parallel.h>
#include <sluice/operator/matmul/gemm.h>
#include <sluice/operator/matmul/gemm_kernel.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_tile_rows = 192;
constexpr std::int64_t k_tile_columns = 256;
constexpr std::int64_t k_depth_bytes = 1024;          // of one row of a packed block
constexpr std::int64_t k_worth_a_thread = 64 * 1024;  // multiplications
constexpr std::int64_t k_tiles_wanted = 8;            // per matrix, so that several threads find work

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return ceil_divide(a, b) * b;
}

// How the rows and columns of c are cut: a tile is one piece of work.
struct Tiling {
  std::int64_t rows, columns, row_tiles, column_tiles, depth;
};

template <class Acc>
Tiling tiling_of(const GemmProblem& p, const GemmKernel<Acc>& kernel) {
  Tiling t;
  t.rows = std::min(round_up(p.m, kernel.rows), round_up(k_tile_rows, kernel.rows));
  t.columns = std::min(round_up(p.n, kernel.columns), round_up(k_tile_columns, kernel.columns));
  // Few tiles: halve the longer side while that leaves more than one panel.
  while (p.batch * ceil_divide(p.m, t.rows) * ceil_divide(p.n, t.columns) < k_tiles_wanted) {
    if (t.columns > 2 * kernel.columns && t.columns >= t.rows) {
      t.columns = round_up(t.columns / 2, kernel.columns);
    } else if (t.rows > 2 * kernel.rows) {
      t.rows = round_up(t.rows / 2, kernel.rows);
    } else {
      break;
    }
  }
  t.row_tiles = ceil_divide(p.m, t.rows);
  t.column_tiles = ceil_divide(p.n, t.columns);
  t.depth = k_depth_bytes / static_cast<std::int64_t>(sizeof(Acc));
  return t;
}

// Panels of `width` neighbours: out[panel][k][width], zeros beyond `count`.
template <class T, class Acc>
void pack(
    const T* from,
    std::int64_t across,
    std::int64_t along,
    std::int64_t count,
    std::int64_t depth,
    int width,
    Acc* out) {
  for (std::int64_t first = 0; first < count; first += width) {
    const std::int64_t used = std::min<std::int64_t>(width, count - first);
    const T* base = from + first * across;
    if (used < width)
      std::fill_n(out, width * depth, Acc{});
    if (across == 1) {
      for (std::int64_t k = 0; k < depth; ++k) {
        const T* row = base + k * along;
        for (std::int64_t i = 0; i < used; ++i)
          out[k * width + i] = static_cast<Acc>(row[i]);
      }
    } else {
      for (std::int64_t i = 0; i < used; ++i) {
        const T* row = base + i * across;
        for (std::int64_t k = 0; k < depth; ++k)
          out[k * width + i] = static_cast<Acc>(row[k * along]);
      }
    }
    out += width * depth;
  }
}

template <class Acc, class T>
Acc biased(Acc value, const T* row_bias, const T* column_bias, std::int64_t i, std::int64_t j, bool relu) {
  if (row_bias != nullptr)
    value += static_cast<Acc>(row_bias[i]);
  if (column_bias != nullptr)
    value += static_cast<Acc>(column_bias[j]);
  if constexpr (std::is_floating_point_v<Acc>)
    return relu && value <= Acc{} ? Acc{} : value;
  return value;
}

template <class T>
T narrow(auto value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(value);
  } else {
    return T(value);  // 16-bit types round
  }
}

struct TileArea {
  std::int64_t row, column, rows, columns;
};

template <class T, class Acc, class Out>
void store(const GemmProblem& p, const TileArea& area, const Acc* tile, std::int64_t stride, Out* c) {
  const T* row_bias = static_cast<const T*>(p.row_bias);
  const T* column_bias = static_cast<const T*>(p.column_bias);
  for (std::int64_t i = 0; i < area.rows; ++i) {
    Out* to = c + (area.row + i) * p.c.row + area.column * p.c.column;
    for (std::int64_t j = 0; j < area.columns; ++j) {
      Acc value = tile[i * stride + j];
      if (p.accumulate)
        value += static_cast<Acc>(to[j * p.c.column]);
      to[j * p.c.column] = narrow<Out>(biased(value, row_bias, column_bias, area.row + i, area.column + j, p.relu));
    }
  }
}

// Two packed blocks and a tile.
template <class Acc>
struct Scratch {
  std::vector<Acc> a, b, tile;
};

using AllScratch = std::tuple<Scratch<float>, Scratch<double>, Scratch<std::uint32_t>, Scratch<std::uint64_t>>;

// Of one thread. Kept, because it is the same for every product; one word for all types: see static_tls.h.
AllScratch& scratch_of_thread() {
  static thread_local std::unique_ptr<AllScratch> mine;
  if (mine == nullptr)
    mine = std::make_unique<AllScratch>();
  return *mine;
}

template <class T, class Acc>
void compute_tile(
    const GemmProblem& p, const Tiling& t, const GemmKernel<Acc>& kernel, std::int64_t index, Scratch<Acc>& scratch) {
  const std::int64_t per_matrix = t.row_tiles * t.column_tiles;
  const std::int64_t batch = index / per_matrix;
  TileArea area;
  area.row = index % per_matrix / t.column_tiles * t.rows;
  area.column = index % t.column_tiles * t.columns;
  area.rows = std::min(t.rows, p.m - area.row);
  area.columns = std::min(t.columns, p.n - area.column);
  const T* a = static_cast<const T*>(p.a.data) + batch * p.a.batch + area.row * p.a.row;
  const T* b = static_cast<const T*>(p.b.data) + batch * p.b.batch + area.column * p.b.column;

  Acc* tile = scratch.tile.data();
  std::fill_n(tile, t.rows * t.columns, Acc{});
  for (std::int64_t k = 0; k < p.k; k += t.depth) {
    const std::int64_t depth = std::min(t.depth, p.k - k);
    pack(a + k * p.a.column, p.a.row, p.a.column, area.rows, depth, kernel.rows, scratch.a.data());
    pack(b + k * p.b.row, p.b.column, p.b.row, area.columns, depth, kernel.columns, scratch.b.data());
    for (std::int64_t j = 0; j < area.columns; j += kernel.columns) {
      for (std::int64_t i = 0; i < area.rows; i += kernel.rows)
        kernel.run(
            depth, scratch.a.data() + i * depth, scratch.b.data() + j * depth, tile + i * t.columns + j, t.columns);
    }
  }
  if (p.c_in_accumulator) {
    store<T>(p, area, tile, t.columns, static_cast<Acc*>(p.c.data) + batch * p.c.batch);
  } else {
    store<T>(p, area, tile, t.columns, static_cast<T*>(p.c.data) + batch * p.c.batch);
  }
}

template <class T, class Acc>
void gemm_typed(const GemmProblem& p) {
  const GemmKernel<Acc>& kernel = gemm_kernel<Acc>();
  const Tiling t = tiling_of(p, kernel);
  const std::int64_t work = std::max<std::int64_t>(1, t.rows * t.columns * p.k);
  const std::int64_t grain = std::max<std::int64_t>(1, k_worth_a_thread / work);
  parallel_for(p.batch * t.row_tiles * t.column_tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    Scratch<Acc>& scratch = std::get<Scratch<Acc>>(scratch_of_thread());
    const auto grow = [](std::vector<Acc>& v, std::int64_t n) { v.resize(std::max<std::size_t>(v.size(), n)); };
    grow(scratch.a, t.rows * t.depth);
    grow(scratch.b, t.columns * t.depth);
    grow(scratch.tile, t.rows * t.columns);
    for (std::int64_t index = begin; index < end; ++index)
      compute_tile<T, Acc>(p, t, kernel, index, scratch);
  });
}

}  // namespace

void gemm(const GemmProblem& p) {
  if (p.batch == 0 || p.m == 0 || p.n == 0)
    return;
  switch (p.dtype) {
    case DType::float32:
      return gemm_typed<float, float>(p);
    case DType::float64:
      return gemm_typed<double, double>(p);
    case DType::float16:
      return gemm_typed<Half, float>(p);
    case DType::bfloat16:
      return gemm_typed<BFloat16, float>(p);
    case DType::uint8:
      return gemm_typed<std::uint8_t, std::uint32_t>(p);
    case DType::int8:
      return gemm_typed<std::int8_t, std::uint32_t>(p);
    case DType::int32:
      return gemm_typed<std::int32_t, std::uint32_t>(p);
    case DType::int64:
      return gemm_typed<std::int64_t, std::uint64_t>(p);
    case DType::bool_:
      break;
  }
  throw UnsupportedError(message("matmul: no kernel for ", p.dtype, " on a CPU"));
}

}  // namespace sluice::detail
