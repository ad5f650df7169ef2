#pragma once

#include <cstdint>

#include <sluice/engine/export.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::detail {

/// Which backward gave a variable its gradient last, or added to it: another number each time, 0 for none. Unlike the
/// version of the gradient's buffer it stays where others write.
SLUICE_API std::uint64_t last_deposit(const NDArray& variable) noexcept;

}  // namespace sluice::detail
