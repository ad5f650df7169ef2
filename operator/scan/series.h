#pragma once

#include <cstdint>
#include <optional>

#include <sluice/ndarray/ndarray.h>

// Calls of diff(), cumprod() and concat(), recorded and traced as these. None of them blocks.
namespace sluice {

/// Differences of neighbours among all elements, row by row, of one axis; with numbers, of one axis after ravel(), in
/// front and behind where there are some (numpy.ediff1d), to which types are promoted. Rules of diff().
SLUICE_API NDArray ediff1d(
    const NDArray& x,
    const NDArray& to_end = {},
    const NDArray& to_begin = {},
    SourceLocation site = SourceLocation::current());

/// Powers of x's elements along a new last axis, n of them (as many as x's last axis has where none is said): those of
/// x^(n - 1), ..., x, 1, or the other way round where `increasing` (numpy.vander, torch.vander; of more axes than one
/// torch.linalg.vander). Those of integers and bool are int64. Throws ValueError for a negative n and for an x without
/// axes.
SLUICE_API NDArray vander(
    const NDArray& x,
    std::optional<std::int64_t> n = {},
    bool increasing = false,
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
