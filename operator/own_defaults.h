#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include <sluice/operator/attributes.h>

namespace sluice {

namespace detail {

template <auto defaults, class A>
Attributes make_with_defaults(std::string_view op, std::span<const NamedValue> values) {
  std::vector<NamedValue> all(values.begin(), values.end());
  for (NamedValue& field : Attributes::of(A(defaults())).values()) {
    const auto names = [&](const NamedValue& value) { return value.name == field.name; };
    if (std::none_of(values.begin(), values.end(), names))
      all.push_back(std::move(field));
  }
  return make_attributes<A>(op, all);
}

}  // namespace detail

/// The type of an attribute struct that several operators have, for one whose calls leave out other values than those
/// that the struct declares: what `defaults()` returns stands in their place.
template <auto defaults, class A = decltype(defaults())>
inline constexpr AttributeType attribute_type_from{
    &typeid(A), detail::values_of<A>, detail::make_with_defaults<defaults, A>, Attributes::k_in_place<A>};

}  // namespace sluice
