// The rows of unary.def and binary.def for Lanes, and loops over them. Compiled once for each instruction set, hence
// the guard that toggles.
#if SLUICE_HIGHWAY
#if defined(SLUICE_SIMD_FORMULAS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SIMD_FORMULAS_H
#undef SLUICE_SIMD_FORMULAS_H
#else
#define SLUICE_SIMD_FORMULAS_H
#endif

#include <cstring>
#include <utility>

#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/simd/detail/gelu.h>
#include <sluice/operator/simd/detail/rare.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {

// As in rows.h, but compiled for this instruction set: templates take it from where they are written.
template <Unary row>
struct UnaryFormula;
template <Binary row>
struct BinaryFormula;

#define SLUICE_AS_ARGUMENT(type, name, value) , [[maybe_unused]] K name
#define UNARY_WITH(row, parameters, row_kind, formula, derivative, ...)                                            \
  template <>                                                                                                      \
  struct UnaryFormula<Unary::row> {                                                                                \
    struct Value {                                                                                                 \
      template <class T, class K = T>                                                                              \
      static HWY_INLINE auto of(T x SLUICE_EACH_PARAMETER(SLUICE_AS_ARGUMENT, parameters)) {                       \
        return formula;                                                                                            \
      }                                                                                                            \
    };                                                                                                             \
    struct Gradient {                                                                                              \
      template <class T, class K = T>                                                                              \
      static HWY_INLINE T                                                                                          \
      of(T dy, [[maybe_unused]] T x, [[maybe_unused]] T y SLUICE_EACH_PARAMETER(SLUICE_AS_ARGUMENT, parameters)) { \
        return derivative;                                                                                         \
      }                                                                                                            \
    };                                                                                                             \
  };
#include <sluice/operator/elementwise/unary.def>
#undef SLUICE_AS_ARGUMENT

/// What loops take of a row: its formula, or one of the row's own that vectors have.
template <Unary row>
struct VectorFormula : UnaryFormula<row> {};
#if HWY_TARGET == HWY_AVX3
template <>
struct VectorFormula<Unary::gelu> {
  using Row = UnaryFormula<Unary::gelu>;
  struct Value {
    template <class D>
    static HWY_INLINE Lanes<D> of(Lanes<D> x) {
      if constexpr (k_single<D>) {
        return gelu_of(x);
      } else {
        return Row::Value::of(x);
      }
    }
  };
  struct Gradient {
    template <class D>
    static HWY_INLINE Lanes<D> of(Lanes<D> dy, Lanes<D> x, Lanes<D> y) {
      if constexpr (k_single<D>) {
        return dy * gelu_slope_of(x);
      } else {
        return Row::Gradient::of(dy, x, y);
      }
    }
  };
};
#endif

#define SLUICE_GRADIENT(title, derivative)                                                           \
  struct title {                                                                                     \
    template <class T, class K = T>                                                                  \
    static HWY_INLINE T of(T dy, [[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T y) { \
      return derivative;                                                                             \
    }                                                                                                \
  };
#define BINARY(row, row_kind, formula, derivative_a, uses_a, derivative_b, ...) \
  template <>                                                                   \
  struct BinaryFormula<Binary::row> {                                           \
    struct Value {                                                              \
      template <class T, class K = T>                                           \
      static HWY_INLINE auto of(T a, T b) {                                     \
        return formula;                                                         \
      }                                                                         \
    };                                                                          \
    SLUICE_GRADIENT(GradientA, derivative_a)                                    \
    SLUICE_GRADIENT(GradientB, derivative_b)                                    \
  };
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
#undef SLUICE_GRADIENT

template <class D>
HWY_INLINE void store(Lanes<D> y, void* out, std::int64_t at) {
  hn::StoreU(y.v, D{}, static_cast<hn::TFromD<D>*>(out) + at);
}
template <class D>
HWY_INLINE void stream_out(Lanes<D> y, void* out, std::int64_t at) {
  hn::Stream(y.v, D{}, static_cast<hn::TFromD<D>*>(out) + at);
}
// As bytes that are 0 or 1.
template <class D>
HWY_INLINE void store(Truth<D> y, void* out, std::int64_t at) {
  const hn::Rebind<std::int32_t, D> whole;
  const hn::Rebind<std::uint8_t, D> bytes;
  const auto bits = hn::IfThenElseZero(hn::RebindMask(whole, y.is), hn::Set(whole, 1));
  hn::StoreU(hn::DemoteTo(bytes, bits), bytes, static_cast<std::uint8_t*>(out) + at);
}
template <class D>
HWY_INLINE void stream_out(Truth<D> y, void* out, std::int64_t at) {
  store(y, out, at);
}
// Asks for what is read some lines later; behind an array's end nothing happens.
HWY_INLINE void expect(const void* from) {
  constexpr std::uintptr_t k_distance = 2048;
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) + k_distance));
}

/// The loop (see PointwiseLoop) of formula F, which takes K operands of type T and gives Out: T, or bool.
template <class F, class Out, class T, int K>
struct Loop {
  using D = hn::ScalableTag<T>;

  static void run(void* out, const void* const* in, std::int64_t n, bool stream) {
    const auto step = static_cast<std::int64_t>(hn::Lanes(D{}));
    const std::int64_t rest = n % step;
    if (rest < n)
      whole(out, in, n - rest, stream);
    if (rest > 0)
      tail(out, in, n - rest, rest);
  }

 private:
  static HWY_NOINLINE void whole(void* out, const void* const* in, std::int64_t n, bool stream) {
    each(out, in, n, stream, std::make_index_sequence<K>{});
  }
  // An operand may be written over: each vector is read before it is written.
  template <std::size_t... I>
  static HWY_INLINE void each(
      void* out, const void* const* in, std::int64_t n, bool stream, std::index_sequence<I...>) {
    const D d;
    const auto step = static_cast<std::int64_t>(hn::Lanes(d));
    const T* const from[] = {static_cast<const T*>(in[I])...};
    for (std::int64_t i = 0; i < n; i += step) {
      const auto y = F::of(Lanes<D>(hn::LoadU(d, from[I] + i))...);
      asm volatile("" : "+r"(stream));  // one loop for both ways: the compiler would make two
      if (HWY_UNLIKELY(stream)) {
        (expect(from[I] + i), ...);
        stream_out(y, out, i);
      } else {
        store(y, out, i);
      }
    }
  }
  // One vector whose other lanes repeat the first element.
  static void tail(void* out, const void* const* in, std::int64_t at, std::int64_t n) {
    const D d;
    alignas(HWY_MAX_BYTES) T values[K + 1][HWY_MAX_BYTES / sizeof(T)];
    const void* from[K];
    for (int k = 0; k < K; ++k) {
      const T* source = static_cast<const T*>(in[k]) + at;
      hn::Store(hn::Set(d, source[0]), d, values[k]);
      std::memcpy(values[k], source, static_cast<std::size_t>(n) * sizeof(T));
      from[k] = values[k];
    }
    whole(values[K], from, static_cast<std::int64_t>(hn::Lanes(d)), false);
    std::memcpy(static_cast<Out*>(out) + at, values[K], static_cast<std::size_t>(n) * sizeof(Out));
  }
};

}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
#endif
