#pragma once

// Rows of float32 that are the sum of two arrays: added up, written and normalised while registers hold them, to the
// last bit what an addition gives and row_in_registers_kernel makes of that.
#include <sluice/operator/norm/layer_norm_cuda.cuh>

namespace sluice::detail {

/// The addends of rows, the second one of float32 or of a half type, and where their sum goes: maybe where one was.
struct NormAddends {
  const float* a;
  const void* b;
  DType b_type;
  float* sum;

  bool in_vectors() const noexcept {
    constexpr int V = k_neighbours<float>;
    const bool b_starts =
        b_type == DType::float32 ? starts_neighbours<float, V>(b) : starts_neighbours<std::uint16_t, V>(b);
    return b_starts && starts_neighbours<float, V>(a) && starts_neighbours<float, V>(sum);
  }
};

/// Vectors of one row as they are loaded, those that stand behind its end as zeros; B is float or the bits of a half.
template <int V, int P, class B>
struct AddendsLoaded {
  using Words = Neighbours<std::uint32_t, V* static_cast<int>(sizeof(B)) / 4>;  // halves apart take registers each
  RowVectors<float, 1, V> a[P];
  Words b[P];

  __device__ AddendsLoaded(const NormAddends& of, std::int64_t offset, const Group& group, int width, int vectors) {
#pragma unroll
    for (int p = 0; p < P; ++p) {
      a[p] = {};
      b[p] = {};
      if (const int i = group.lane + p * width; i < vectors) {
        a[p].of[0] = reinterpret_cast<const Neighbours<float, V>*>(of.a + offset)[i];
        b[p] = reinterpret_cast<const Words*>(static_cast<const B*>(of.b) + offset)[i];
      }
    }
  }

  /// Makes of `a` the sum, and writes it.
  __device__ void add(const NormAddends& of, std::int64_t offset, const Group& group, int width, int vectors) {
#pragma unroll
    for (int p = 0; p < P; ++p) {
#pragma unroll
      for (int j = 0; j < V; ++j)
        a[p].of[0].at[j] += value(b[p], j, of.b_type);
      if (const int i = group.lane + p * width; i < vectors)
        reinterpret_cast<Neighbours<float, V>*>(of.sum + offset)[i] = a[p].of[0];
    }
  }

 private:
  static __device__ float value(const Words& words, int j, DType type) {
    if constexpr (sizeof(B) == 4)
      return __uint_as_float(words.at[j]);
    const auto bits = static_cast<std::uint16_t>(words.at[j / 2] >> (j % 2 * 16));
    return type == DType::bfloat16 ? bfloat_value(bits) : half_value(bits);
  }
};

static_assert(k_norm_vector == k_neighbours<float> && k_most_in_norm == 8 * k_norm_vector * k_group_block);

template <int P, class B, class R>
__global__ void __launch_bounds__(k_group_block, R::blocks_at_least(P* k_neighbours<float>))
    sums_in_registers_kernel(R op, NormAddends of, Rows rows) {
  start_early();
  constexpr int V = k_neighbours<float>;
  const Group group(rows.width);
  const auto vectors = static_cast<int>(rows.n / V);
  for (std::int64_t row = group.index; row < rows.count; row += group.count) {
    const std::int64_t offset = row * rows.pitch;
    AddendsLoaded<V, P, B> kept(of, offset, group, rows.width, vectors);
    kept.add(of, offset, group, rows.width, vectors);
    finish_in_registers<V>(op, kept.a, group, rows.width, vectors, row, offset);
  }
}

/// Forward of rows of x, which are of.sum; false, and nothing done, where plain rows would not be in registers with
/// their parameters in vectors, or where an addend begins in between.
template <template <class, NormParametersAre> class InRegisters>
bool launch_norm_sums(const char* name, const NormForward& norm, const NormAddends& of, const Queue& queue) {
  constexpr int V = k_neighbours<float>;
  using R = InRegisters<float, NormParametersAre::vectors>;
  const Rows rows(norm.rows.at);
  const NormParameters<float> by(norm.rows, norm.gamma, norm.beta);
  const R op(norm);
  if (rows.count == 0 || rows.n == 0 || by.groups != 1 || !by.vectors || !op.in_vectors(rows, V) || !of.in_vectors())
    return false;
  const cudaStream_t stream = stream_of(queue);
  const bool launched = by_kept_vectors(rows, V, [&]<int P>() {
    if (of.b_type == DType::float32)
      sums_in_registers_kernel<P, float><<<rows.blocks(), k_group_block, 0, stream>>>(op, of, rows);
    else
      sums_in_registers_kernel<P, std::uint16_t><<<rows.blocks(), k_group_block, 0, stream>>>(op, of, rows);
  });
  if (launched)
    check_early_launch(name, stream);
  return launched;
}

}  // namespace sluice::detail
