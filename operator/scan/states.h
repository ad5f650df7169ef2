#pragma once

// What is scanned, one arithmetic for CPU and GPU. A scan of elements T has
//
//   Acc                       a partial result, of trivial type
//   identity()                that of nothing
//   join(a, b)                of two, those of `a` first; associative up to rounding
//   lift(offset, entry)       of the element at `offset`, which is that entry of its axis
//   lower(offset, entry, a)   writes the result of all up to there
//
// and, where its arrays are read and written V neighbours at once, lift_all and lower_all of the first of them (in
// memory), `reverse`: values are in the other order.
#include <cstdint>
#include <limits>
#include <type_traits>

#include <sluice/ndarray/dtype.h>
#include <sluice/operator/elementwise/math.h>
#include <sluice/operator/index_value.h>

namespace sluice::detail {

/// Joined to by a sum: -0, so that a row of these adds up to -0.
template <class A>
SLUICE_HD constexpr A no_sum() noexcept {
  if constexpr (std::is_floating_point_v<A>) {
    return -A{0};
  } else {
    return A{0};
  }
}

/// A sum or product in A of elements of type T.
template <class T, class A, bool Product>
struct TotalScan {
  using Acc = A;
  using Element = T;
  using Result = std::conditional_t<std::is_integral_v<A>, std::int64_t, T>;
  const T* x;
  Result* y;

  SLUICE_HD static Acc identity() noexcept { return Product ? A{1} : no_sum<A>(); }
  SLUICE_HD static Acc join(Acc a, Acc b) noexcept {
    if constexpr (std::is_integral_v<A>) {  // wraps
      const auto u = static_cast<std::uint64_t>(a), v = static_cast<std::uint64_t>(b);
      return static_cast<A>(Product ? u * v : u + v);
    } else {
      return Product ? a * b : a + b;
    }
  }
  SLUICE_HD Acc lift(std::int64_t offset, std::int64_t) const noexcept { return static_cast<A>(x[offset]); }
  SLUICE_HD void lower(std::int64_t offset, std::int64_t, Acc a) const noexcept { y[offset] = static_cast<Result>(a); }
};

/// The same of integers of any type.
template <bool Product>
struct WholeScan : TotalScan<std::int64_t, std::int64_t, Product> {
  using Element = void;
  const void* any;
  DType dtype;

  SLUICE_HD std::int64_t lift(std::int64_t offset, std::int64_t) const noexcept {
    return load_index(any, dtype, offset);
  }
};

/// A value and the entry that it comes from; -1 for nothing.
template <class A, class I>
struct Extreme {
  A value;
  I entry;
};

/// Largest or smallest so far: of equals the last, and a NaN is better than any number.
template <class T, class A, class I = std::int64_t>
struct ExtremeScan {
  using Acc = Extreme<A, I>;
  using Element = T;
  const T* x;
  T* y;
  std::int64_t* entries;
  bool largest;

  SLUICE_HD static Acc identity() noexcept { return {A{0}, -1}; }
  SLUICE_HD Acc join(const Acc& a, const Acc& b) const noexcept {
    if (a.entry < 0 || b.entry < 0)
      return a.entry < 0 ? b : a;
    // A NaN fails comparisons: one in b wins, one in a gives way to another one alone.
    const bool wins = b.value != b.value || (largest ? b.value >= a.value : b.value <= a.value);
    return wins ? b : a;
  }
  SLUICE_HD Acc lift(std::int64_t offset, std::int64_t entry) const noexcept {
    return {static_cast<A>(x[offset]), static_cast<I>(entry)};
  }
  SLUICE_HD void lower(std::int64_t offset, std::int64_t, const Acc& a) const noexcept {
    y[offset] = static_cast<T>(a.value);
    entries[offset] = a.entry;
  }
};

/// The same of integers of any type.
struct WholeExtremeScan : ExtremeScan<std::int64_t, std::int64_t> {
  using Element = void;
  const void* any;
  void* to;
  DType dtype;

  SLUICE_HD Acc lift(std::int64_t offset, std::int64_t entry) const noexcept {
    return {load_index(any, dtype, offset), entry};
  }
  SLUICE_HD void lower(std::int64_t offset, std::int64_t, const Acc& a) const noexcept {
    switch (dtype) {
      case DType::int64:
        static_cast<std::int64_t*>(to)[offset] = a.value;
        break;
      case DType::int32:
        static_cast<std::int32_t*>(to)[offset] = static_cast<std::int32_t>(a.value);
        break;
      default:
        static_cast<std::int8_t*>(to)[offset] = static_cast<std::int8_t>(a.value);
        break;
    }
    entries[offset] = a.entry;
  }
};

/// y -> a * y + b; `some` is 0 of nothing, so that no infinite a meets a y that is not there.
template <class A>
struct Affine {
  A a, b;
  A some;
};

template <class T, class A>
struct RecurrenceScan {
  using Acc = Affine<A>;
  using Element = T;
  const T* a;
  const T* b;
  T* y;

  SLUICE_HD static Acc identity() noexcept { return {A{1}, A{0}, A{0}}; }
  SLUICE_HD static Acc join(const Acc& p, const Acc& q) noexcept {
    if (p.some == 0 || q.some == 0)
      return p.some == 0 ? q : p;
    return {p.a * q.a, q.a * p.b + q.b, A{1}};
  }
  SLUICE_HD Acc lift(std::int64_t offset, std::int64_t) const noexcept {
    return {static_cast<A>(a[offset]), static_cast<A>(b[offset]), A{1}};
  }
  SLUICE_HD void lower(std::int64_t offset, std::int64_t, const Acc& acc) const noexcept {
    y[offset] = static_cast<T>(acc.b);
  }
};

/// A sum that begins anew.
template <class A>
struct RunSum {
  A sum;
  A begins;  // 1 where the run began in there
};

/// Sums of heads whose places are equal and stand side by side; what is the last of a run writes its sum. Places that
/// the axis does not have are told to `refuse` and written nowhere.
template <class T, class A, class Refuse>
struct RunScan {
  using Acc = RunSum<A>;
  using Element = T;
  const void* places;
  DType dtype;
  const T* dy;
  T* dx;
  std::int64_t n, step;  // of the axis
  Refuse refuse;

  SLUICE_HD std::int64_t place(std::int64_t offset) const noexcept { return load_index(places, dtype, offset); }
  SLUICE_HD static Acc identity() noexcept { return {no_sum<A>(), A{0}}; }
  SLUICE_HD static Acc join(const Acc& a, const Acc& b) noexcept {
    return b.begins != 0 ? b : Acc{math::wrapping_add(a.sum, b.sum), a.begins};
  }
  SLUICE_HD Acc lift(std::int64_t offset, std::int64_t entry) const noexcept {
    const bool begins = entry == 0 || place(offset - step) != place(offset);
    return {static_cast<A>(dy[offset]), begins ? A{1} : A{0}};
  }
  SLUICE_HD void lower(std::int64_t offset, std::int64_t entry, const Acc& a) const {
    const std::int64_t to = place(offset);
    if (entry + 1 < n && place(offset + step) == to)
      return;
    if (to < 0 || to >= n)
      refuse(to, n);
    else
      dx[offset + (to - entry) * step] = static_cast<T>(a.sum);
  }
};

}  // namespace sluice::detail
