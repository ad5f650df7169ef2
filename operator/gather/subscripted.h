#pragma once

#include <span>

#include <sluice/operator/view/parsed_subscripts.h>

// Subscripts among which are index arrays: a view of the axes that they name side by side, and one call that takes or
// puts there.
namespace sluice::detail {

/// What they name of x, as a new array. There are index arrays.
NDArray taken_at(const NDArray& x, const ParsedSubscripts& parsed, SourceLocation site);
/// x with values there, in `destination` if there is one, for `op`, which errors name.
NDArray put_at(
    const char* op,
    const NDArray& x,
    const ParsedSubscripts& parsed,
    const NDArray& values,
    SourceLocation site,
    std::span<const NDArray> destination = {});
/// x with values added there.
NDArray added_at(const NDArray& x, const ParsedSubscripts& parsed, const NDArray& values, SourceLocation site);
/// The same, written to x, for NDArray::add_at().
void add_into(const NDArray& x, const ParsedSubscripts& parsed, const NDArray& values, SourceLocation site);

/// x with values there as an operator: of x, values that are as long as what is named, and numbers, as gather_nd()
/// takes them. Its gradient zeroes dy where it was written, and takes it there for the values that stayed.
extern const Operator k_index_assign;
/// What it runs: entries of the first input, which may lie in any way, become values.
extern const Operator k_put_entries;

/// The view that the call names entries of, recorded.
NDArray placed_view(const NDArray& x, const IndexAssignAttributes& attributes, SourceLocation site);
/// A view of that shape with its axes where they were: x, or the part of it that ranges leave.
NDArray put_back(const NDArray& view, const IndexAssignAttributes& attributes, SourceLocation site);
/// How that view of an array of geometry `x` lies. Throws IndexError, and ValueError for axes that it does not have.
Geometry placed_geometry(const char* op, const Geometry& x, const IndexAssignAttributes& attributes);

}  // namespace sluice::detail
