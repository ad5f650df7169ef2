#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/sort.h>

#ifndef SLUICE_SORT_NETWORK
#define SLUICE_SORT_NETWORK
#include <bit>

namespace sluice::simd {
namespace {

/// Calls exchange(i, j), i < j < n, for the comparisons of Batcher's merge sort (Knuth, 5.2.2 M), in order: n things
/// are sorted where each puts the smaller of two first.
template <class Exchange>
void for_each_exchange(std::int64_t n, const Exchange& exchange) {
  const std::int64_t highest = std::int64_t{1} << (std::bit_width(static_cast<std::uint64_t>(n - 1)) - 1);
  for (std::int64_t p = highest; p > 0; p /= 2) {
    std::int64_t rest = 0, apart = p;
    for (std::int64_t q = highest;; q /= 2) {
      for (std::int64_t i = 0; i + apart < n; ++i) {
        if ((i & p) == rest)
          exchange(i, i + apart);
      }
      if (q == p)
        break;
      apart = q - p;
      rest = p;
    }
  }
}

}  // namespace
}  // namespace sluice::simd
#endif

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/sort.cpp>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After highway.h, which says what it is compiled for.
#include <hwy/contrib/sort/traits-inl.h>
#include <hwy/contrib/sort/traits128-inl.h>
#include <hwy/contrib/sort/vqsort-inl.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
bool sort_beside(T* words, std::int64_t n, std::int64_t count, std::int64_t step) noexcept {
  const hn::CappedTag<T, 16> d;
  constexpr std::int64_t lanes = hn::MaxLanes(hn::CappedTag<T, 16>{});
  for_each_exchange(n, [&](std::int64_t i, std::int64_t j) HWY_ATTR {
    T *const low = words + i * step, *const high = words + j * step;
    for (std::int64_t k = 0; k < count; k += lanes) {
      const auto a = hn::LoadU(d, low + k), b = hn::LoadU(d, high + k);
      hn::StoreU(hn::Min(a, b), d, low + k);
      hn::StoreU(hn::Max(a, b), d, high + k);
    }
  });
  return true;
}

#if HWY_MAJOR == 1 && HWY_MINOR == 0

// What hwy's Sort() does, but for the seed that it takes of its shared library: whichever pivots are drawn, the order
// is the same. Other versions name its parts otherwise.
template <class Traits, class T>
bool sort_words(Traits, T* words, std::size_t n) noexcept {
  const hn::SortTag<T> d;
  const hn::detail::SharedTraits<Traits> order;
  HWY_ALIGN T room[hwy::SortConstants::BufNum<T>(HWY_LANES(T))] = {};
  if (hn::detail::HandleSpecialCases(d, order, words, n))
    return true;
  hn::detail::Generator random(std::uint64_t{0x9e3779b97f4a7c15});
  hn::detail::Recurse(d, order, words, words + n, n, room, random, 2 * hwy::CeilLog2(n) + 4);
  return true;
}

template <class T>
bool sort_each(T* keys, std::int64_t n) noexcept {
  using Order = hn::detail::TraitsLane<hn::detail::OrderAscending<T>>;
  return sort_words(Order(), keys, static_cast<std::size_t>(n));
}
bool sort_twos(std::uint64_t* words, std::int64_t n) noexcept {
  using Order = hn::detail::Traits128<hn::detail::OrderAscending128>;
  return sort_words(Order(), words, static_cast<std::size_t>(2 * n));
}
#else
template <class T>
bool sort_each(T*, std::int64_t) noexcept {
  return false;
}
bool sort_twos(std::uint64_t*, std::int64_t) noexcept {
  return false;
}
#endif

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {

namespace {
template <class T>
bool sort_beside(T* words, std::int64_t n, std::int64_t count, std::int64_t step) noexcept {
  SLUICE_SIMD_RETURN(sort_beside(words, n, count, step))
  for_each_exchange(n, [&](std::int64_t i, std::int64_t j) {
    for (std::int64_t k = 0; k < count; ++k) {
      const T a = words[i * step + k], b = words[j * step + k];
      words[i * step + k] = a < b ? a : b;
      words[j * step + k] = a < b ? b : a;
    }
  });
  return true;
}
}  // namespace

bool sort_keys([[maybe_unused]] std::uint32_t* keys, [[maybe_unused]] std::int64_t n) noexcept {
  SLUICE_SIMD_RETURN(sort_each(keys, n))
  return false;
}
bool sort_keys([[maybe_unused]] std::uint64_t* keys, [[maybe_unused]] std::int64_t n) noexcept {
  SLUICE_SIMD_RETURN(sort_each(keys, n))
  return false;
}
bool sort_pairs([[maybe_unused]] std::uint64_t* words, [[maybe_unused]] std::int64_t n) noexcept {
  SLUICE_SIMD_RETURN(sort_twos(words, n))
  return false;
}
void sort_columns(std::uint32_t* words, std::int64_t n, std::int64_t count, std::int64_t step) noexcept {
  sort_beside(words, n, count, step);
}
void sort_columns(std::uint64_t* words, std::int64_t n, std::int64_t count, std::int64_t step) noexcept {
  sort_beside(words, n, count, step);
}

}  // namespace sluice::simd
#endif
