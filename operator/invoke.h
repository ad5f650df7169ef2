#pragma once

#include <initializer_list>
#include <span>
#include <utility>

#include <sluice/operator/operator.h>

namespace sluice {

/// Runs `op` on `inputs`: checks devices and engines, infers, allocates outputs, records on the tape, pushes one
/// task. Every operator goes through here. `destinations`, if given, are written instead of new arrays (in-place and
/// `out=` forms): cast and copied where they do not match, inputs that overlap them otherwise than elementwise are
/// copied first. Errors name the user's line, `site`. Throws ShapeError, DTypeError, DeviceError, UnsupportedError,
/// OutOfMemory; errors of the work itself appear at a wait. Does not block.
SLUICE_API Arrays invoke(
    const Operator& op,
    std::span<const NDArray> inputs,
    Attributes attributes,
    SourceLocation site,
    std::span<const NDArray> destinations = {});

/// The same of arrays in braces, as programs call operators of their own: all outputs.
inline Arrays invoke(
    const Operator& op,
    std::initializer_list<NDArray> inputs,
    Attributes attributes = {},
    SourceLocation site = SourceLocation::current()) {
  return invoke(op, std::span(inputs.begin(), inputs.size()), std::move(attributes), site);
}

/// invoke() for operators with one output; of several the first.
SLUICE_API NDArray
invoke_one(const Operator& op, std::initializer_list<NDArray> inputs, Attributes attributes, SourceLocation site);

}  // namespace sluice
