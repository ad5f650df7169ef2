#pragma once

#include <cstdint>
#include <optional>

#include <sluice/ndarray/ndarray.h>

namespace sluice::detail {

/// How often was written what an array without memory stands for, as Buffer::version() says it of memory. Whoever takes
/// this thread's calls knows; none where nobody does. Defined in the operator room.
std::optional<std::uint64_t> abstract_version(const NDArray& array) noexcept;

}  // namespace sluice::detail
