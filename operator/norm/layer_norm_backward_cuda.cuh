#pragma once

// The gradient of a row on a GPU.
#include <sluice/operator/library/tensor_core.cuh>
#include <sluice/operator/norm/layer_norm_cuda.cuh>
#include <sluice/operator/times_plus.h>

namespace sluice::detail {

/// What forward saved of a row.
template <class C>
struct NormRowAt {
  C mean, inv_std;
};

/// Sums over a row of gamma * dy, and of that times the normalised x.
template <class C>
struct NormSums {
  C plain, by_x;
};
template <class C>
__device__ NormSums<C> joined(const NormSums<C>& a, const NormSums<C>& b) {
  return {a.plain + b.plain, a.by_x + b.by_x};
}

/// V neighbours of a row.
template <class T, int V>
struct NormValues {
  Neighbours<T, V> dy, x;
};

template <class T, NormParametersAre Are = NormParametersAre::any>
struct NormBackwardRow {
  using C = Compute<T>;
  const void* dy;
  DType head;
  const T* x;
  T* dx;
  const C *mean, *inv_std;
  NormParameters<T, Are> by;
  C divisor;

  explicit NormBackwardRow(const NormBackward& norm)
      : dy(norm.dy),
        head(norm.head),
        x(static_cast<const T*>(norm.x)),
        dx(static_cast<T*>(norm.dx)),
        mean(static_cast<const C*>(norm.mean)),
        inv_std(static_cast<const C*>(norm.inv_std)),
        by(norm.rows, norm.gamma),
        divisor(static_cast<C>(norm.rows.divisor())) {}

  /// Rows can be read and written in vectors.
  bool in_vectors(const AxisLayout& layout) const noexcept {
    const auto aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; };
    return layout.inner == 1 && layout.n % k_neighbours<T> == 0 && aligned(dy) && aligned(x) && aligned(dx);
  }
  __device__ NormRowAt<C> at(std::int64_t row) const { return {mean == nullptr ? C{0} : mean[row], inv_std[row]}; }

  template <int V>
  __device__ void load(NormValues<T, V>& to, std::int64_t offset, std::int64_t step, std::int64_t i) const {
    const std::int64_t place = offset + i * (V == 1 ? step : V);
    load_raw(to.dy, dy, head, place);
    to.x = *reinterpret_cast<const Neighbours<T, V>*>(x + place);
  }
  /// Begins to bring what load() would load into shared memory, dy and x to a piece each.
  template <int V>
  __device__ void fetch(unsigned char* to_dy, unsigned char* to_x, std::int64_t offset, std::int64_t i) const {
    const std::int64_t place = offset + i * V;
    if (std::is_same_v<T, float> && head != DType::float32)
      fetch_half_piece(to_dy, static_cast<const std::uint16_t*>(dy) + place);
    else
      fetch_piece(to_dy, static_cast<const T*>(dy) + place, k_piece_bytes);
    fetch_piece(to_x, x + place, k_piece_bytes);
  }
  /// What give() is told of other arrays at the places of a vector: nothing.
  template <int V>
  struct Beside {};
  template <int V>
  __device__ Beside<V> beside(std::int64_t, std::int64_t) const {
    return {};
  }
  /// Writes vector i of a row of neighbours.
  template <int V>
  __device__ void give(
      const NormValues<T, V>& values,
      const Beside<V>&,
      const NormRowAt<C>& row,
      const NormSums<C>& means,
      std::int64_t offset,
      std::int64_t i) const {
    store(values, row, means, offset, 1, i);
  }
  /// To be called once on what load() loaded, behind further loads.
  template <int V>
  __device__ void widen(NormValues<T, V>& values) const {
    widen_raw(values.dy, head);
  }
  template <int V>
  __device__ void add(
      NormSums<C>& sums, const NormValues<T, V>& values, const NormRowAt<C>& row, std::int64_t i) const {
    C gamma[V];
    load_gamma(gamma, i);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const C scaled = static_cast<C>(values.dy.at[j]) * gamma[j];
      sums.plain += scaled;
      sums.by_x += scaled * ((static_cast<C>(values.x.at[j]) - row.mean) * row.inv_std);
    }
  }
  /// What gradient() needs of sums over a row: their means.
  __device__ NormSums<C> means(const NormSums<C>& sums) const {
    return {mean == nullptr ? C{0} : sums.plain / divisor, sums.by_x / divisor};
  }
  template <int V>
  __device__ Neighbours<T, V> gradient(
      const NormValues<T, V>& values, const NormRowAt<C>& row, const NormSums<C>& means, std::int64_t i) const {
    C gamma[V];
    load_gamma(gamma, i);
    Neighbours<T, V> made;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const C normal = (static_cast<C>(values.x.at[j]) - row.mean) * row.inv_std;
      const C scaled = static_cast<C>(values.dy.at[j]) * gamma[j];
      made.at[j] = static_cast<T>((scaled - means.plain - normal * means.by_x) * row.inv_std);
    }
    return made;
  }
  template <int V>
  __device__ void store(
      const NormValues<T, V>& values,
      const NormRowAt<C>& row,
      const NormSums<C>& means,
      std::int64_t offset,
      std::int64_t step,
      std::int64_t i) const {
    const Neighbours<T, V> made = gradient(values, row, means, i);
    if constexpr (V == 1) {
      dx[offset + i * step] = made.at[0];
    } else {
      reinterpret_cast<Neighbours<T, V>*>(dx + offset)[i] = made;
    }
  }

 private:
  // Where it is used each time, rather than in registers from one time to the next.
  template <int V>
  __device__ void load_gamma(C (&to)[V], std::int64_t i) const {
    if (Are == NormParametersAre::vectors || by.gamma != nullptr)
      return by.load(by.gamma, 0, i * V, to);
#pragma unroll
    for (int j = 0; j < V; ++j)
      to[j] = C{1};
  }
};

/// The same, which adds another gradient to dx and rounds the sum too, each as a call of its own would.
template <class T>
struct NormBackwardSumRow : NormBackwardRow<T, NormParametersAre::vectors> {
  using Row = NormBackwardRow<T, NormParametersAre::vectors>;
  using C = typename Row::C;
  const T* other;
  std::uint16_t* rounded;
  bool is_bfloat;

  NormBackwardSumRow(const NormBackward& norm, const NormSum& sum)
      : Row(norm),
        other(static_cast<const T*>(sum.other)),
        rounded(static_cast<std::uint16_t*>(sum.rounded)),
        is_bfloat(sum.half == DType::bfloat16) {}

  /// Beside what Row takes in vectors.
  bool in_vectors() const noexcept {
    return starts_neighbours<T, k_neighbours<T>>(other) && starts_neighbours<Half, k_neighbours<T>>(rounded);
  }
  template <int V>
  using Beside = Neighbours<T, V>;
  template <int V>
  __device__ Beside<V> beside(std::int64_t offset, std::int64_t i) const {
    return reinterpret_cast<const Neighbours<T, V>*>(other + offset)[i];
  }
  template <int V>
  __device__ void give(
      const NormValues<T, V>& values,
      const Beside<V>& beside,
      const NormRowAt<C>& row,
      const NormSums<C>& means,
      std::int64_t offset,
      std::int64_t i) const {
    Neighbours<T, V> made = this->gradient(values, row, means, i);
#pragma unroll
    for (int j = 0; j < V; ++j)
      made.at[j] = plus(made.at[j], beside.at[j]);  // made is rounded before
    reinterpret_cast<Neighbours<T, V>*>(this->dx + offset)[i] = made;
    if (rounded == nullptr)
      return;
    Neighbours<std::uint16_t, V> bits;
#pragma unroll
    for (int j = 0; j < V; ++j)  // both, for the compiler would write the loop over rows down for each
      bits.at[j] = is_bfloat ? BFloat16(made.at[j]).bits : Half(made.at[j]).bits;
    reinterpret_cast<Neighbours<std::uint16_t, V>*>(rounded + offset)[i] = bits;
  }
};

}  // namespace sluice::detail
