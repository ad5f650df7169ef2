#pragma once

// Subscripts made at random, and what they name by NumPy's rules: loops over elements, of plain numbers alone.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include <sluice/operator/api.h>

namespace sluice::test {

/// One subscript as a test knows it.
struct Item {
  enum class Kind { entry, range, rest, new_axis, numbers, mask };
  Kind kind = Kind::rest;
  std::int64_t entry = 0;
  std::optional<std::int64_t> begin = {}, end = {};
  std::int64_t step = 1;
  Shape shape = {};                       // of numbers and masks
  std::vector<std::int64_t> values = {};  // row by row; of a mask 0 or 1

  bool is_array() const { return kind == Kind::numbers || kind == Kind::mask; }
  int axes() const {
    const bool none = kind == Kind::rest || kind == Kind::new_axis;
    return kind == Kind::mask ? shape.ndim() : none ? 0 : 1;
  }
};
using Items = std::vector<Item>;

/// What they name of an array: elements by their place row by row, in the order of the result.
struct Named {
  Shape shape;
  std::vector<std::int64_t> places;
};

namespace case_parts {

inline bool next(std::vector<std::int64_t>& at, const Shape& shape) {
  for (int axis = shape.ndim(); axis-- > 0;) {
    if (++at[static_cast<std::size_t>(axis)] < shape[axis])
      return true;
    at[static_cast<std::size_t>(axis)] = 0;
  }
  return false;
}

// As CPython's slices.
inline std::vector<std::int64_t> entries_of(const Item& range, std::int64_t n) {
  const auto bound = [&](std::optional<std::int64_t> at, std::int64_t otherwise) {
    if (!at)
      return otherwise;
    const std::int64_t counted = *at < 0 ? *at + n : *at;
    return range.step > 0 ? std::min(std::max<std::int64_t>(counted, 0), n)
                          : std::min(std::max<std::int64_t>(counted, -1), n - 1);
  };
  const std::int64_t begin = bound(range.begin, range.step > 0 ? 0 : n - 1);
  const std::int64_t end = bound(range.end, range.step > 0 ? n : -1);
  std::vector<std::int64_t> entries;
  for (std::int64_t i = begin; range.step > 0 ? i < end : i > end; i += range.step)
    entries.push_back(i);
  return entries;
}

/// Numbers for one axis of the array; -1: for none, which a mask without axes has.
struct AxisNumbers {
  int axis;
  Shape shape;
  std::vector<std::int64_t> values;
};

/// An axis of the result that no number is for, with its entries; of a new axis -1.
struct FreeAxis {
  int axis;
  std::vector<std::int64_t> entries;
};

struct Meaning {
  std::vector<AxisNumbers> numbers;
  std::vector<FreeAxis> free;
  std::size_t at = 0;  // among the free axes
  bool apart = false;
  Shape together;  // of all numbers
};

inline void add_mask(Meaning& meaning, const Item& mask, int axis) {
  std::vector<std::vector<std::int64_t>> columns(static_cast<std::size_t>(std::max(mask.shape.ndim(), 1)));
  std::vector<std::int64_t> at(static_cast<std::size_t>(mask.shape.ndim()));
  for (std::size_t i = 0; i < mask.values.size(); ++i, next(at, mask.shape)) {
    if (mask.values[i] == 0)
      continue;
    for (std::size_t k = 0; k < columns.size(); ++k)
      columns[k].push_back(mask.shape.empty() ? 0 : at[k]);
  }
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const int named = mask.shape.empty() ? -1 : axis + static_cast<int>(k);
    meaning.numbers.push_back({named, {static_cast<std::int64_t>(columns[k].size())}, columns[k]});
  }
}

inline Meaning meaning_of(Items items, const Shape& shape) {
  int named = 0;
  bool has_rest = false, has_arrays = false;
  for (const Item& item : items) {
    named += item.axes();
    has_rest = has_rest || item.kind == Item::Kind::rest;
    has_arrays = has_arrays || item.is_array();
  }
  if (!has_rest)
    items.push_back({});
  Meaning meaning;
  int axis = 0;
  enum { before, within, behind } where = before;
  for (const Item& item : items) {
    if (item.is_array() || item.kind == Item::Kind::entry) {
      meaning.apart = meaning.apart || (where == behind && has_arrays);
      if (where == before)
        meaning.at = meaning.free.size();
      where = within;
    } else if (where == within) {
      where = behind;
    }
    if (item.kind == Item::Kind::rest) {
      for (int left = shape.ndim() - named; left > 0; --left, ++axis)
        meaning.free.push_back({axis, entries_of({}, shape[axis])});
    } else if (item.kind == Item::Kind::new_axis) {
      meaning.free.push_back({-1, {0}});
    } else if (item.kind == Item::Kind::range) {
      meaning.free.push_back({axis, entries_of(item, shape[axis])});
    } else if (item.kind == Item::Kind::mask) {
      add_mask(meaning, item, axis);
    } else if (item.kind == Item::Kind::entry) {
      meaning.numbers.push_back({axis, {}, {item.entry}});
    } else {
      meaning.numbers.push_back({axis, item.shape, item.values});
    }
    axis += item.kind == Item::Kind::rest ? 0 : item.axes();
  }
  for (const AxisNumbers& each : meaning.numbers)
    meaning.together = broadcast_shape(meaning.together, each.shape, "reference");
  if (meaning.apart)
    meaning.at = 0;
  return meaning;
}

}  // namespace case_parts

/// Of an array of that shape. The subscripts are right ones.
inline Named named_by(const Items& items, const Shape& shape) {
  const case_parts::Meaning meaning = case_parts::meaning_of(items, shape);
  const int before = static_cast<int>(meaning.at), many = meaning.together.ndim();
  Named named;
  for (int i = 0; i < before; ++i)
    named.shape.push_back(static_cast<std::int64_t>(meaning.free[static_cast<std::size_t>(i)].entries.size()));
  for (const std::int64_t extent : meaning.together)
    named.shape.push_back(extent);
  for (std::size_t i = meaning.at; i < meaning.free.size(); ++i)
    named.shape.push_back(static_cast<std::int64_t>(meaning.free[i].entries.size()));
  if (named.shape.size() == 0)
    return named;
  std::vector<std::int64_t> at(static_cast<std::size_t>(named.shape.ndim()));
  do {
    std::vector<std::int64_t> from(static_cast<std::size_t>(shape.ndim()));
    for (std::size_t i = 0; i < meaning.free.size(); ++i) {
      const std::size_t axis = i < meaning.at ? i : i + static_cast<std::size_t>(many);
      if (meaning.free[i].axis >= 0)
        from[static_cast<std::size_t>(meaning.free[i].axis)] =
            meaning.free[i].entries[static_cast<std::size_t>(at[axis])];
    }
    for (const case_parts::AxisNumbers& each : meaning.numbers) {
      std::int64_t place = 0;
      for (int k = 0, ahead = many - each.shape.ndim(); k < each.shape.ndim(); ++k) {
        const std::int64_t index = at[static_cast<std::size_t>(before + ahead + k)];
        place = place * each.shape[k] + (each.shape[k] == 1 ? 0 : index);
      }
      const std::int64_t entry = each.values[static_cast<std::size_t>(place)];
      if (each.axis >= 0)
        from[static_cast<std::size_t>(each.axis)] = entry < 0 ? entry + shape[each.axis] : entry;
    }
    std::int64_t place = 0;
    for (int axis = 0; axis < shape.ndim(); ++axis)
      place = place * shape[axis] + from[static_cast<std::size_t>(axis)];
    named.places.push_back(place);
  } while (case_parts::next(at, named.shape));
  return named;
}

/// Makes shapes and subscripts that fit them.
class SubscriptMaker {
 public:
  explicit SubscriptMaker(std::uint64_t seed) : random_(seed) {}

  /// low <= number < high
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low));
  }
  bool chance(int percent) { return number(0, 100) < percent; }

  Shape shape() {
    Shape made;
    for (std::int64_t left = number(1, 5); left > 0; --left)
      made.push_back(chance(8) ? 0 : number(1, 5));
    return made;
  }

  /// `masks`: among them may be masks.
  Items items(const Shape& shape, bool masks) {
    together_ = {};
    for (std::int64_t left = number(0, 3); left > 0; --left)
      together_.push_back(chance(10) ? 0 : number(1, 4));
    has_mask_ = false;
    Items made;
    bool has_rest = false;
    int new_axes = 0;
    for (int axis = 0; axis < shape.ndim();) {
      if (new_axes < 2 && chance(12)) {
        made.push_back({.kind = Item::Kind::new_axis});
        ++new_axes;
      } else if (!has_rest && chance(12)) {
        made.push_back({});
        has_rest = true;
        axis += static_cast<int>(number(0, shape.ndim() - axis + 1));
      } else if (chance(8) && axis > 0 && !has_rest) {
        return made;
      } else {
        made.push_back(item(shape, axis, masks));
        axis += made.back().axes();
      }
    }
    return made;
  }

 private:
  Item item(const Shape& shape, int axis, bool masks) {
    const std::int64_t n = shape[axis];
    if (masks && !has_mask_ && chance(20))
      return mask(shape, axis);
    if (chance(45) && (n > 0 || together_.size() == 0))
      return numbers(n);
    if (n > 0 && chance(30))
      return {.kind = Item::Kind::entry, .entry = number(-n, n)};
    Item range{.kind = Item::Kind::range};
    if (chance(60))
      range.begin = number(-n - 1, n + 2);
    if (chance(60))
      range.end = number(-n - 1, n + 2);
    range.step = chance(50) ? 1 : chance(50) ? number(1, 4) : -number(1, 4);
    return range;
  }

  // Some of the extents that all numbers have, others 1.
  Item numbers(std::int64_t n) {
    Item made{.kind = Item::Kind::numbers};
    for (int axis = static_cast<int>(number(0, together_.ndim() + 1)); axis < together_.ndim(); ++axis)
      made.shape.push_back(chance(25) && n > 0 ? 1 : together_[axis]);
    if (n == 0)
      made.shape = together_;
    for (std::int64_t i = made.shape.size(); i > 0; --i)
      made.values.push_back(number(-n, n));
    return made;
  }

  // As many places as the last axis of all numbers has, so that they go together.
  Item mask(const Shape& shape, int axis) {
    has_mask_ = true;
    Item made{.kind = Item::Kind::mask};
    for (int axes = static_cast<int>(number(1, std::min(3, shape.ndim() - axis + 1))); axes > 0; --axes)
      made.shape.push_back(shape[axis++]);
    made.values.assign(static_cast<std::size_t>(made.shape.size()), 0);
    const std::int64_t wanted = together_.empty() ? 1 : together_.back();
    std::int64_t set = 0;
    for (std::size_t i = 0; i < made.values.size() && set < wanted; ++i)
      set += made.values[i] = chance(60) || static_cast<std::int64_t>(made.values.size() - i) <= wanted - set ? 1 : 0;
    return set == wanted || set == 1 ? made : Item{.kind = Item::Kind::range};
  }

  std::mt19937_64 random_;
  Shape together_;
  bool has_mask_ = false;
};

/// Calls f(list) with the same subscripts as the library takes them.
template <class F>
auto with_subscripts(const Items& items, Device device, SubscriptMaker& maker, const F& f) {
  std::vector<NDArray> arrays(items.size());
  std::vector<Subscript> at(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    const bool wide = std::any_of(item.values.begin(), item.values.end(), [](std::int64_t v) { return v < 0; });
    const DType types[] = {int64, int32, int16, int8, wide ? int64 : uint8, wide ? int32 : uint64};
    if (item.is_array()) {
      arrays[i] = array(item.values, item.shape)
                      .astype(item.kind == Item::Kind::mask ? bool_ : types[maker.number(0, 6)])
                      .to(device);
      if (maker.chance(30))  // otherwise than row by row
        arrays[i] = arrays[i].transpose().copy().transpose();
      at[i] = arrays[i];
    } else if (item.kind == Item::Kind::entry) {
      at[i] = item.entry;
    } else if (item.kind == Item::Kind::range) {
      at[i] = {item.begin, item.end, item.step};
    } else {
      at[i] = item.kind == Item::Kind::rest ? k_rest : k_new_axis;
    }
  }
  switch (at.size()) {
    case 0:
      return f({});
    case 1:
      return f({at[0]});
    case 2:
      return f({at[0], at[1]});
    case 3:
      return f({at[0], at[1], at[2]});
    case 4:
      return f({at[0], at[1], at[2], at[3]});
    case 5:
      return f({at[0], at[1], at[2], at[3], at[4]});
    case 6:
      return f({at[0], at[1], at[2], at[3], at[4], at[5]});
    default:
      return f({at.at(0), at.at(1), at.at(2), at.at(3), at.at(4), at.at(5), at.at(6)});
  }
}

}  // namespace sluice::test
