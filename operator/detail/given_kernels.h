#pragma once

#include <sluice/operator/operator.h>

// Kernels that operators were given beside their own, by register_kernel().
namespace sluice::detail {

/// Null if there is none for that kind. Cheap as long as no operator at all was given one.
Kernel given_kernel(const Operator& op, DeviceKind kind) noexcept;
bool was_given_kernels(const Operator& op) noexcept;

}  // namespace sluice::detail
