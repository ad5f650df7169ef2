#pragma once

#include <initializer_list>
#include <vector>

#include <sluice/operator/view/attributes.h>

namespace sluice::detail {

/// What subscripts say of an array: one view of its axes, axes that the view gets beside, by their places in it, and
/// index arrays with the axes of the view that they name.
struct ParsedSubscripts {
  SubscriptAttributes attributes;
  std::vector<int> new_axes;
  std::vector<NDArray> arrays;  // integers, one for each of `named`; a mask has become several
  std::vector<int> named;
  int ndim = 0;        // of the view with its new axes
  int first = 0;       // where the first index array, or entry before it, stands
  bool apart = false;  // something else stands between two of them: what they name comes first

  /// The same as one call says it: where the arrays' axes stand side by side, and where.
  IndexAssignAttributes placed() const;
  /// Are there index arrays and nothing else, for the first axes?
  bool names_first_axes() const noexcept;
};

/// Throws IndexError, ValueError, DTypeError, ShapeError naming `op`, as NDArray::operator[] says. Waits for masks.
ParsedSubscripts parse_subscripts(
    const char* op, std::initializer_list<Subscript> at, const Shape& shape, SourceLocation site);

/// Does the view leave no element out, and every axis where it is?
bool is_whole(const SubscriptAttributes& attributes) noexcept;

}  // namespace sluice::detail
