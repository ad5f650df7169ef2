#include <algorithm>
#include <cstring>

#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/block_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/block_rows.cpp>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The vectors of a block.
template <int block>
struct Of {
  using D = hn::CappedTag<float, block>;
  using Whole = hn::RebindToSigned<D>;
  using Byte = hn::Rebind<std::uint8_t, D>;
  static constexpr int lanes = hn::MaxLanes(D{});
  static constexpr int count = block / lanes;
};

template <class D>
HWY_INLINE hn::Vec<D> relu(const float* x) {
  const auto value = hn::LoadU(D{}, x);
  return hn::IfThenZeroElse(hn::Le(value, hn::Zero(D{})), value);
}

// Calls body(window, first pixel) for each, in order.
template <class Body>
HWY_INLINE void for_each_window(const BlockWindows& w, Body&& body) {
  std::int64_t window = 0;
  for (std::int64_t oy = 0; oy < w.out[0]; ++oy) {
    for (std::int64_t ox = 0; ox < w.out[1]; ++ox)
      body(window++, oy * w.stride[0] * w.in[1] + ox * w.stride[1]);
  }
}

// `fixed`: the windows' extents, where they are known.
template <int block, int fixed>
void largest_of(const BlockWindows& w, const float* x, float* maxima, std::uint8_t* places) {
  using D = typename Of<block>::D;
  using Whole = typename Of<block>::Whole;
  using Byte = typename Of<block>::Byte;
  const bool all = w.channels == block;
  const std::int64_t lines = fixed != 0 ? fixed : w.kernel[0], columns = fixed != 0 ? fixed : w.kernel[1];
  for_each_window(w, [&](std::int64_t window, std::int64_t first) HWY_ATTR {
    std::uint8_t beside[block];
    std::uint8_t* const to = all ? places + window * w.places : beside;
    for (int at = 0; at < block; at += Of<block>::lanes) {
      const float* const begin = x + first * w.pixel + at;
      auto best = relu<D>(begin);
      auto where = hn::Zero(Whole{});
      std::int32_t tap = 0;
      for (std::int64_t line = 0; line < lines; ++line) {
        for (std::int64_t column = 0; column < columns; ++column, ++tap) {
          const auto value = relu<D>(begin + (line * w.in[1] + column) * w.pixel);
          // Not below or equal: larger, or a NaN, of which the first stays.
          const auto wins = hn::AndNot(hn::Le(value, best), hn::Eq(best, best));
          best = hn::IfThenElse(wins, value, best);
          where = hn::IfThenElse(hn::RebindMask(Whole{}, wins), hn::Set(Whole{}, tap), where);
        }
      }
      const auto masked = hn::RebindMask(Whole{}, hn::Le(best, hn::Zero(D{})));
      where = hn::IfThenElse(masked, hn::Set(Whole{}, k_masked_place), where);
      hn::StoreU(best, D{}, maxima + window * block + at);
      hn::StoreU(hn::DemoteTo(Byte{}, where), Byte{}, to + at);
    }
    if (!all)
      std::memcpy(places + window * w.places, beside, static_cast<std::size_t>(w.channels));
  });
}

template <int block, int fixed>
void spread_of(const BlockWindows& w, const float* heads, const std::uint8_t* places, float* dx) {
  using D = typename Of<block>::D;
  using Whole = typename Of<block>::Whole;
  using Byte = typename Of<block>::Byte;
  const bool all = w.channels == block;
  const std::int64_t lines = fixed != 0 ? fixed : w.kernel[0], columns = fixed != 0 ? fixed : w.kernel[1];
  bool covered = true;
  for (int axis = 0; axis < 2; ++axis)
    covered = covered && w.stride[axis] == w.kernel[axis] && w.out[axis] * w.stride[axis] == w.in[axis];
  for (std::int64_t i = 0; !covered && i < w.in[0] * w.in[1]; ++i)
    std::fill_n(dx + i * w.pixel, block, 0.0f);
  std::uint8_t beside[block];
  std::fill_n(beside, block, k_masked_place);
  for_each_window(w, [&](std::int64_t window, std::int64_t first) HWY_ATTR {
    const std::uint8_t* from = places + window * w.places;
    if (!all)
      from = static_cast<std::uint8_t*>(std::memcpy(beside, from, static_cast<std::size_t>(w.channels)));
    for (int at = 0; at < block; at += Of<block>::lanes) {
      const auto head = hn::LoadU(D{}, heads + window * block + at);
      const auto where = hn::PromoteTo(Whole{}, hn::LoadU(Byte{}, from + at));
      float* const begin = dx + first * w.pixel + at;
      std::int32_t tap = 0;
      for (std::int64_t line = 0; line < lines; ++line) {
        for (std::int64_t column = 0; column < columns; ++column, ++tap) {
          const auto here = hn::RebindMask(D{}, hn::Eq(where, hn::Set(Whole{}, tap)));
          hn::StoreU(hn::IfThenElseZero(here, head), D{}, begin + (line * w.in[1] + column) * w.pixel);
        }
      }
    }
  });
}

bool is_of_two(const BlockWindows& w) {
  return w.kernel[0] == 2 && w.kernel[1] == 2;
}

template <int block>
void largest(const BlockWindows& w, const float* x, float* maxima, std::uint8_t* places) {
  (is_of_two(w) ? largest_of<block, 2> : largest_of<block, 0>)(w, x, maxima, places);
}

template <int block>
void spread(const BlockWindows& w, const float* heads, const std::uint8_t* places, float* dx) {
  (is_of_two(w) ? spread_of<block, 2> : spread_of<block, 0>)(w, heads, places, dx);
}

template <int block>
void sum(const float* x, std::int64_t pixel, std::int64_t pixels, double* sums) {
  using Wide = hn::CappedTag<double, block>;
  constexpr int lanes = hn::MaxLanes(Wide{});
  const hn::Rebind<float, Wide> narrow;
  const std::int64_t whole = pixels / 8 * 8;
  for (int at = 0; at < block; at += lanes) {
    hn::Vec<Wide> parts[8];
    for (auto& part : parts)
      part = hn::Zero(Wide{});
    const float* from = x + at;
    for (std::int64_t i = 0; i < whole; i += 8) {
      for (auto& part : parts) {
        part = hn::Add(part, hn::PromoteTo(Wide{}, hn::LoadU(narrow, from)));
        from += pixel;
      }
    }
    for (std::int64_t i = whole; i < pixels; ++i, from += pixel)
      parts[0] = hn::Add(parts[0], hn::PromoteTo(Wide{}, hn::LoadU(narrow, from)));
    const auto first = hn::Add(hn::Add(parts[0], parts[1]), hn::Add(parts[2], parts[3]));
    const auto second = hn::Add(hn::Add(parts[4], parts[5]), hn::Add(parts[6], parts[7]));
    hn::StoreU(hn::Add(first, second), Wide{}, sums + at);
  }
}

template <int block>
constexpr BlockRows k_rows{largest<block>, spread<block>, sum<block>};

const BlockRows* table(std::int64_t block) noexcept {
  return block == 16 ? &k_rows<16> : block == 8 ? &k_rows<8> : nullptr;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {
const BlockRows* block_rows([[maybe_unused]] std::int64_t block) noexcept {
  SLUICE_SIMD_RETURN(table(block))
  return nullptr;
}
}  // namespace sluice::simd
#endif
