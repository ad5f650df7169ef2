#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/sort.h>

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

#if HWY_MAJOR == 1 && HWY_MINOR == 0
namespace hn = hwy::HWY_NAMESPACE;

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

}  // namespace sluice::simd
#endif
