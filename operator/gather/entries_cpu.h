#pragma once

#include <algorithm>
#include <cstdint>

#include <sluice/engine/parallel.h>
#include <sluice/operator/gather/kernels.h>

namespace sluice::detail {

/// Rows of so many elements that are worth a worker.
inline std::int64_t grain_of(std::int64_t elements_each) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, elements_each));
}

/// Whose indices they are: the function that the program called, of which the operator may be a part.
inline const char* asked_by(const KernelCall& call) {
  const char* const asked = call.attributes.as<GatherAttributes>().asked;
  return asked != nullptr ? asked : call.op.name;
}

/// The entry at position i. Throws IndexError.
inline std::int64_t entry_at(const KernelCall& call, const Taking& taking, std::int64_t i) {
  const Placing::Named named = taking.place.at(i);
  require<IndexError>(named.entry >= 0, [&] {
    return message(
        asked_by(call),
        ": index ",
        named.index,
        " is out of bounds for axis ",
        taking.axis + named.axis,
        " with size ",
        taking.place.extents[named.axis]);
  });
  return named.entry;
}

/// The entry of the axis alone that number i names, of numbers for one axis.
inline std::int64_t place_at(const KernelCall& call, const Taking& taking, std::int64_t i) {
  const Placing& named = taking.place;
  const std::int64_t place = resolve_index(load_index(named.data, named.dtype, i), named.extents[0], named.mode);
  return place >= 0 ? place : entry_at(call, taking, i);  // which throws
}

/// So many numbers are looked up at a time, in one loop.
inline constexpr std::int64_t k_looked_up = 512;

/// What numbers [first, first + count), at most k_looked_up of them, name: as place_at() says, of several axes as
/// entry_at() does.
inline void look_up(
    const KernelCall& call, const Taking& taking, std::int64_t first, std::int64_t count, std::int64_t* places) {
  const Placing& named = taking.place;
  const std::int64_t n = named.extents[0];
  const auto of = [&]<class T>(const T* numbers) {
    // In signs, for vectors without comparisons of such numbers: below 0 is a place before the first or behind the
    // last.
    const auto extent = static_cast<std::uint64_t>(n);
    std::uint64_t outside = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t index = numbers[i];
      const std::uint64_t place =
          static_cast<std::uint64_t>(index) + (static_cast<std::uint64_t>(index >> 63) & extent);
      places[i] = static_cast<std::int64_t>(place);
      outside |= place | (extent - 1 - place);
    }
    return outside >> 63 == 0;
  };
  if (named.axes == 1 && named.mode == IndexMode::raise) {
    if (named.dtype == DType::int64 && of(static_cast<const std::int64_t*>(named.data) + first))
      return;
    if (named.dtype == DType::int32 && of(static_cast<const std::int32_t*>(named.data) + first))
      return;
  }
  for (std::int64_t i = 0; i < count; ++i)
    places[i] = named.axes == 1 ? place_at(call, taking, first + i) : entry_at(call, taking, first + i);
}

/// Calls f(i, its entry) for positions of [begin, end), in order: entry_at() without its divisions.
template <class F>
void for_each_entry(const KernelCall& call, const Taking& taking, std::int64_t begin, std::int64_t end, const F& f) {
  const Placing& place = taking.place;
  if (begin == end)  // then there may be none to divide by
    return;
  if (place.inner == 0) {
    std::int64_t entries[k_looked_up];
    for (std::int64_t first = begin; first < end; first += k_looked_up) {
      const std::int64_t count = std::min(k_looked_up, end - first);
      look_up(call, taking, first, count, entries);
      for (std::int64_t i = 0; i < count; ++i)
        f(first + i, entries[i]);
    }
    return;
  }
  const std::int64_t slice = begin / place.inner, step = place.extents[0] * place.inner;
  std::int64_t behind = begin % place.inner, along = slice % place.entries, base = slice / place.entries * step;
  for (std::int64_t i = begin; i < end; ++i) {
    f(i, base + place_at(call, taking, i) * place.inner + behind);
    if (++behind < place.inner)
      continue;
    behind = 0;
    if (++along == place.entries) {
      along = 0;
      base += step;
    }
  }
}

/// Calls f(i, its entry) for the positions that name an entry of [least, limit), in order, of numbers for an axis or
/// some.
template <class F>
void for_each_entry_within(
    const KernelCall& call, const Taking& taking, std::int64_t least, std::int64_t limit, const F& f) {
  const std::int64_t count = taking.place.count;
  if (least == 0 && limit == taking.at.n)
    return for_each_entry(call, taking, 0, count, f);
  const auto width = static_cast<std::uint64_t>(limit - least);
  std::int64_t entries[k_looked_up], at[k_looked_up];
  for (std::int64_t first = 0; first < count; first += k_looked_up) {
    const std::int64_t n = std::min(k_looked_up, count - first);
    look_up(call, taking, first, n, entries);
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t entry = entries[i];
      at[kept] = first + i;
      entries[kept] = entry;
      kept += static_cast<std::uint64_t>(entry - least) < width ? 1 : 0;
    }
    for (std::int64_t i = 0; i < kept; ++i)
      f(at[i], entries[i]);
  }
}

/// Calls body(begin, end) for entries that threads each look all numbers through for, so that an entry meets its
/// numbers in order whatever the cut: in halves, since every cut has all numbers looked at once more.
template <class Body>
void in_halves(const Taking& taking, const Body& body) {
  constexpr std::int64_t k_worth = 1 << 15;
  const std::int64_t n = taking.at.n;
  const bool whole = taking.place.axes > 1 || taking.place.count * taking.at.inner < k_worth;
  parallel_for(n, whole ? n : (n + 1) / 2, body);
}

}  // namespace sluice::detail
