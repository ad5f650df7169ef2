#pragma once

#include <utility>

#include <sluice/operator/conv/passes.h>

// What convolutions that are made of others ask of their operands: x, weight, maybe a bias.
namespace sluice::detail {

/// Throws ValueError for other numbers of inputs, otherwise as check_convolution_types().
inline void check_operands(const char* op, std::span<const ArraySpec> inputs) {
  require<ValueError>(inputs.size() == 2 || inputs.size() == 3, [&] {
    return message(op, ": takes x, weight and maybe a bias, was given ", inputs.size(), " inputs");
  });
  check_convolution_types(op, inputs);
}

/// Throws ShapeError for a bias that is not of so many channels.
inline void check_bias(const char* op, std::span<const ArraySpec> inputs, std::int64_t channels) {
  require<ShapeError>(inputs.size() < 3 || inputs[2].shape == Shape{channels}, [&] {
    return message(
        op, ": weight of shape ", inputs[1].shape, " needs a bias of shape (", channels, ",), not ", inputs[2].shape);
  });
}

/// A call with the bias, if it is defined.
inline NDArray call_with_bias(
    const Operator& op,
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    Attributes attributes,
    SourceLocation site) {
  if (bias.defined())
    return invoke_one(op, {x, weight, bias}, std::move(attributes), site);
  return invoke_one(op, {x, weight}, std::move(attributes), site);
}

}  // namespace sluice::detail
