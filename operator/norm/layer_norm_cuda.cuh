#pragma once

// Layer norm and its like on a GPU: parameters of a row, and the row operator that forward is.
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/norm/layer_norm_kernels.h>
#include <sluice/operator/row_kernel.cuh>
#include <sluice/operator/times_plus.h>

namespace sluice::detail {

/// How a row's elements find their parameters, where the kernel is compiled for it: each has its own, and they are read
/// in vectors; all of a row share one.
enum class NormParametersAre : std::uint8_t { any, vectors, shared };

/// Where the elements of rows find their parameters, which are of type T or of Compute<T>.
template <class T, NormParametersAre Are = NormParametersAre::any>
struct NormParameters {
  using C = Compute<T>;
  const void *gamma, *beta;
  std::int64_t groups, channels, span;
  bool as_elements;  // of type T
  bool vectors;      // as many as elements are loaded at once

  explicit NormParameters(const NormRows& rows, const NormParameter& g, const NormParameter& b = {})
      : gamma(g.data),
        beta(b.data),
        groups(rows.groups),
        channels(rows.channels),
        span(rows.span),
        as_elements(!std::is_same_v<T, C> && size_of(g.dtype) == sizeof(T)),
        vectors(
            span == 1 && channels % k_neighbours<T> == 0 && reinterpret_cast<std::uintptr_t>(gamma) % 16 == 0 &&
            reinterpret_cast<std::uintptr_t>(beta) % 16 == 0) {}

  /// The first parameter of a row.
  __device__ std::int64_t first_of(std::int64_t row) const { return groups == 1 ? 0 : row % groups * channels; }

  __device__ C one(const void* from, std::int64_t i) const {
    if constexpr (!std::is_same_v<T, C>) {
      if (as_elements)
        return static_cast<C>(static_cast<const T*>(from)[i]);
    }
    return static_cast<const C*>(from)[i];
  }
  /// Those of elements i to i + V of a row whose first is `first`.
  template <int V>
  __device__ void load(const void* from, std::int64_t first, std::int64_t i, C (&to)[V]) const {
    if constexpr (Are == NormParametersAre::vectors) {
      load_vector(from, i, to);
    } else if (span != 1) {
      const std::int64_t at = channel_of(i);
      const C shared = one(from, first + at);
      const std::int64_t rest = (at + 1) * span - i;
#pragma unroll
      for (int j = 0; j < V; ++j)
        to[j] = j < rest ? shared : one(from, first + channel_of(i + j));
    } else if (V > 1 && vectors) {
      load_vector(from, first + i, to);
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j)
        to[j] = one(from, first + i + j);
    }
  }

 private:
  // Most rows are short enough for the cheaper division.
  __device__ std::int64_t channel_of(std::int64_t i) const {
    constexpr std::int64_t k_short = std::numeric_limits<std::uint32_t>::max();
    return channels * span <= k_short ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(span) : i / span;
  }

  template <int V>
  __device__ void load_vector(const void* from, std::int64_t i, C (&to)[V]) const {
    if constexpr (!std::is_same_v<T, C>) {
      if (as_elements) {
        const auto loaded = *reinterpret_cast<const Neighbours<T, V>*>(static_cast<const T*>(from) + i);
#pragma unroll
        for (int j = 0; j < V; ++j)
          to[j] = static_cast<C>(loaded.at[j]);
        return;
      }
    }
    constexpr int k_part = V < k_neighbours<C> ? V : k_neighbours<C>;
#pragma unroll
    for (int k = 0; k < V; k += k_part) {
      const auto loaded = *reinterpret_cast<const Neighbours<C, k_part>*>(static_cast<const C*>(from) + i + k);
#pragma unroll
      for (int j = 0; j < k_part; ++j)
        to[k + j] = loaded.at[j];
    }
  }
};

/// Elements of which those of a float32 norm may be halves: loads their bits as they lie, so that no load waits for the
/// one before; widen_raw() makes numbers of them.
template <class T, int V>
__device__ void load_raw(Neighbours<T, V>& to, const void* from, DType type, std::int64_t at) {
  if constexpr (std::is_same_v<T, float>) {
    if (type != DType::float32) {
      const auto* const halves = static_cast<const std::uint16_t*>(from) + at;
      if constexpr (V == 1) {
        to.at[0] = __uint_as_float(*halves);
      } else {
        const auto words = *reinterpret_cast<const Neighbours<float, V / 2>*>(halves);
#pragma unroll
        for (int j = 0; j < V / 2; ++j)
          to.at[j] = words.at[j];
      }
      return;
    }
  }
  to = *reinterpret_cast<const Neighbours<T, V>*>(static_cast<const T*>(from) + at);
}
template <class T, int V>
__device__ void widen_raw(Neighbours<T, V>& values, DType type) {
  if constexpr (std::is_same_v<T, float>) {
    if (type == DType::float32)
      return;
#pragma unroll
    for (int j = V - 1; j >= 0; --j) {
      const auto bits = static_cast<std::uint16_t>(__float_as_uint(values.at[j / 2]) >> (j % 2 * 16));
      values.at[j] = type == DType::bfloat16 ? bfloat_value(bits) : half_value(bits);
    }
  }
}
/// Rounded to the type of what is there, of a float32 norm.
template <class T, int V>
__device__ void store_as(void* to, DType type, std::int64_t at, const Neighbours<T, V>& values) {
  if constexpr (std::is_same_v<T, float>) {
    const auto rounded = [&]<class H>(H* halves) {
      Neighbours<H, V> made;
#pragma unroll
      for (int j = 0; j < V; ++j)
        made.at[j] = H(values.at[j]);
      *reinterpret_cast<Neighbours<H, V>*>(halves + at) = made;
    };
    if (type == DType::bfloat16)
      return rounded(static_cast<BFloat16*>(to));
    if (type == DType::float16)
      return rounded(static_cast<Half*>(to));
  }
  *reinterpret_cast<Neighbours<T, V>*>(static_cast<T*>(to) + at) = values;
}

/// What is known of a row once it has been read.
template <class C>
struct NormTold {
  C mean, inv_std;
  std::int64_t first;  // of its parameters
  C gamma, beta;       // those that all of it share
};

/// What forward is told and writes beside y.
template <class T, NormParametersAre Are = NormParametersAre::any>
struct NormRow : RowOperands<T, 1, true> {
  using C = Compute<T>;
  static constexpr bool k_tells = true;
  // Registers for as many blocks as bring enough of memory under way; in general parameters take too many of them.
  static constexpr int blocks_at_least(int kept) {
    if (Are == NormParametersAre::any || sizeof(T) > 4)
      return 1;
    return sizeof(T) == 4 ? (kept <= 8 ? 6 : kept <= 16 ? 5 : 3) : (kept <= 16 ? 6 : kept <= 32 ? 4 : 2);
  }
  NormParameters<T, Are> by;
  C *mean, *inv_std;
  C divisor, eps;
  std::int64_t n;
  DType result;

  explicit NormRow(const NormForward& norm)
      : by(norm.rows, norm.gamma, norm.beta),
        mean(static_cast<C*>(norm.mean)),
        inv_std(static_cast<C*>(norm.inv_std)),
        divisor(static_cast<C>(norm.rows.divisor())),
        eps(static_cast<C>(norm.rows.eps)),
        n(norm.rows.at.n),
        result(norm.result) {
    this->in[0] = static_cast<const T*>(norm.x);
    this->out = static_cast<T*>(norm.y);
  }

  __device__ NormTold<C> told(std::int64_t row, C center, C squares, bool once) const {
    NormTold<C> known{center, C{1} / std::sqrt(squares / divisor + eps), by.first_of(row), C{1}, C{0}};
    if constexpr (Are == NormParametersAre::shared) {
      if (by.gamma != nullptr)
        known.gamma = by.one(by.gamma, known.first);
      if (by.beta != nullptr)
        known.beta = by.one(by.beta, known.first);
    }
    if (once) {
      inv_std[row] = known.inv_std;
      if (mean != nullptr)
        mean[row] = center;
    }
    return known;
  }
  template <int V>
  __device__ void put(std::int64_t place, const Neighbours<T, V>& made) const {
    store_as(this->out, result, place, made);
  }
  template <int V>
  __device__ void give_vector(
      const NormTold<C>& known, const RowValues<C, 1, V>& values, std::int64_t i, Neighbours<T, V>& made) const {
    C normal[V], parameter[V];
#pragma unroll
    for (int j = 0; j < V; ++j)
      normal[j] = (values.at[0][j] - known.mean) * known.inv_std;
    if constexpr (Are == NormParametersAre::shared) {
#pragma unroll
      for (int j = 0; j < V; ++j)
        made.at[j] =
            static_cast<T>(by.beta == nullptr ? normal[j] * known.gamma : normal[j] * known.gamma + known.beta);
      return;
    }
    if (by.gamma != nullptr) {
      by.load(by.gamma, known.first, i, parameter);
#pragma unroll
      for (int j = 0; j < V; ++j)
        normal[j] *= parameter[j];
    }
    if (by.beta != nullptr) {
      by.load(by.beta, known.first, i, parameter);
#pragma unroll
      for (int j = 0; j < V; ++j)
        normal[j] += parameter[j];
    }
#pragma unroll
    for (int j = 0; j < V; ++j)
      made.at[j] = static_cast<T>(normal[j]);
  }
};

/// Calls f.operator()<Are>() for what the parameters of rows of T in registers are.
template <class T, class F>
void by_parameters(const NormForward& norm, F&& f) {
  const NormParameters<T> any(norm.rows, norm.gamma, norm.beta);
  if (any.groups == 1 && any.vectors)
    f.template operator()<NormParametersAre::vectors>();
  else if (any.channels == 1 && norm.rows.at.inner == 1)
    f.template operator()<NormParametersAre::shared>();
  else
    f.template operator()<NormParametersAre::any>();
}

/// Forward of rows: in registers by one row operator, of float64 and of rows that no registers hold by the other.
template <template <class, NormParametersAre> class InRegisters, template <class> class Any>
void launch_norm_rows(const char* name, const NormForward& norm, const Queue& queue) {
  const Rows rows(norm.rows.at);
  const cudaStream_t stream = stream_of(queue);
  by_floating(norm.dtype, [&]<class T>() {
    bool launched = false;
    if constexpr (!std::is_same_v<T, double>) {
      by_parameters<T>(norm, [&]<NormParametersAre Are>() {
        launched = launch_rows_in_registers(name, InRegisters<T, Are>(norm), rows, stream);
      });
    }
    if (!launched)
      launch_rows(name, Any<T>(norm), rows, stream);
  });
}

}  // namespace sluice::detail
