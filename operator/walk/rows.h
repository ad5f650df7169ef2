#pragma once

// The rows of walk.def as C++: an enumerator and its traits each.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include <sluice/ndarray/half.h>
#include <sluice/ndarray/scalar.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/operator.h>

namespace sluice {

enum class AxisWalk : std::uint8_t {
#define WALK(row, ...) row,
#include <sluice/operator/walk/walk.def>
#undef WALK
};

}  // namespace sluice

namespace sluice::detail {

// What the formulas of the rows are written with; x is as far beyond an end as a parameter says.
template <class I>
SLUICE_HD constexpr I within(I x, I n) noexcept {
  return x < 0 || x >= n ? I{-1} : x;
}
template <class I>
SLUICE_HD constexpr I clamped(I x, I n) noexcept {
  return x < 0 ? I{0} : x < n ? x : n - 1;
}
/// Less than n beyond either end.
template <class I>
SLUICE_HD constexpr I wrapped(I x, I n) noexcept {
  return x < 0 ? x + n : x < n ? x : x - n;
}
template <class I>
SLUICE_HD constexpr I reflected(I x, I n) noexcept {
  x = x < 0 ? -x : x;
  if (x < n)
    return x;
  const I period = n > 1 ? 2 * (n - 1) : 1;
  x %= period;
  return x < n ? x : period - x;
}

template <AxisWalk row>
struct WalkRow;

#define SLUICE_NAME_OF(name, value) #name
#define SLUICE_DEFAULT_OF(name, value) value
#define WALK(row, first_parameter, second_parameter, has_holes, extent_formula, from_formula, ...)               \
  template <>                                                                                                    \
  struct WalkRow<AxisWalk::row> {                                                                                \
    static constexpr const char* name = #row;                                                                    \
    static constexpr std::string_view first = SLUICE_NAME_OF first_parameter,                                    \
                                      second = SLUICE_NAME_OF second_parameter;                                  \
    static constexpr std::int64_t a = SLUICE_DEFAULT_OF first_parameter, b = SLUICE_DEFAULT_OF second_parameter; \
    static constexpr bool holes = has_holes;                                                                     \
    template <class I>                                                                                           \
    static constexpr I extent(I n, [[maybe_unused]] I a, [[maybe_unused]] I b) noexcept {                        \
      return extent_formula;                                                                                     \
    }                                                                                                            \
    template <class I>                                                                                           \
    SLUICE_HD static I from(I o, [[maybe_unused]] I n, [[maybe_unused]] I a, [[maybe_unused]] I b) noexcept {    \
      return from_formula;                                                                                       \
    }                                                                                                            \
  };
#include <sluice/operator/walk/walk.def>
#undef WALK
#undef SLUICE_NAME_OF
#undef SLUICE_DEFAULT_OF

/// Of these rows no axis means all elements as one row, in x's shape where it has as many entries.
template <AxisWalk row>
inline constexpr bool k_takes_all = row == AxisWalk::roll || row == AxisWalk::flip || row == AxisWalk::repeat;

template <AxisWalk row, bool holes = WalkRow<row>::holes>
struct WalkAttributes {
  std::conditional_t<k_takes_all<row>, std::optional<std::int64_t>, std::int64_t> axis = {};
  std::int64_t a = WalkRow<row>::a;
  std::int64_t b = WalkRow<row>::b;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    if constexpr (WalkRow<row>::first != "none")
      v.field(WalkRow<row>::first.data(), a);
    if constexpr (WalkRow<row>::second != "none")
      v.field(WalkRow<row>::second.data(), b);
  }
};
template <AxisWalk row>
struct WalkAttributes<row, true> : WalkAttributes<row, false> {
  Scalar value = 0;

  template <class V>
  void visit(V&& v) {
    WalkAttributes<row, false>::visit(v);
    v.field("value", value);
  }
};

/// One slice again and again. What gives each entry several times, or all of them together, is this of slices that are
/// one entry, or all: no entry is searched for, and what is copied is as long as can be.
struct Again {
  template <class I>
  SLUICE_HD static I from(I, I, I, I) noexcept {
    return 0;
  }
};

/// What a row is computed as, and the slices seen as that: `at` of what it comes from, `extent` of the result.
template <AxisWalk row>
struct WalkForm {
  using Row = WalkRow<row>;
  static AxisLayout of(const AxisLayout& at) noexcept { return at; }
  static std::int64_t extent(std::int64_t extent, std::int64_t) noexcept { return extent; }
};
template <>
struct WalkForm<AxisWalk::tile> {
  using Row = Again;
  static AxisLayout of(const AxisLayout& at) noexcept { return {at.outer, 1, at.n * at.inner}; }
  static std::int64_t extent(std::int64_t, std::int64_t repeats) noexcept { return repeats; }
};
template <>
struct WalkForm<AxisWalk::repeat> {
  using Row = Again;
  static AxisLayout of(const AxisLayout& at) noexcept { return {at.outer * at.n, 1, at.inner}; }
  static std::int64_t extent(std::int64_t, std::int64_t repeats) noexcept { return repeats; }
};

/// The numbers of one run, whatever the row, on arrays of which the axis is one. `value`: the bits of an element.
struct WalkNumbers {
  std::int64_t axis, a, b;
  std::uint64_t value = 0;
};

/// Calls f of the row's form.
template <class F>
void with_walk(AxisWalk row, const F& f) {
  switch (row) {
#define WALK(name, ...) \
  case AxisWalk::name:  \
    return f(WalkForm<AxisWalk::name>());
#include <sluice/operator/walk/walk.def>
#undef WALK
  }
}

void walk_cpu(AxisWalk row, const KernelCall& call, const WalkNumbers& numbers);
void walk_gpu(AxisWalk row, const KernelCall& call, const WalkNumbers& numbers);

}  // namespace sluice::detail
