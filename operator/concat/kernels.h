#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include <sluice/operator/operator.h>

// The kernels and constants of this family; the registry lists the constants.
namespace sluice {

extern const Operator k_concat, k_split;

namespace detail {

struct ConcatAttributes {
  std::int64_t axis = 0;
  std::optional<DType> dtype = {};  // of the result, which arrays of others are converted to as they are placed

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("dtype", dtype);
  }
};

/// Calls place(input, where it belongs in the result) for each that has elements.
template <class Place>
void for_each_placed(const KernelCall& call, Place&& place) {
  const int axis = static_cast<int>(call.attributes.as<ConcatAttributes>().axis);
  TensorView to = call.outputs[0];
  for (const TensorView& input : call.inputs) {
    to.shape[axis] = input.shape[axis];
    to.size = input.size;
    if (input.size > 0)
      place(input, to);
    to.data = to.as<char>() + input.shape[axis] * to.strides[axis] * static_cast<std::int64_t>(size_of(to.dtype));
  }
}

/// Whether some input is not just bytes beside each other in the result's type.
inline bool places_by_element(const KernelCall& call) {
  const DType dtype = call.outputs[0].dtype;
  return std::any_of(call.inputs.begin(), call.inputs.end(), [dtype](const TensorView& input) {
    return input.dtype != dtype || (!input.contiguous && input.size > 0);
  });
}

void concat_cpu(const KernelCall& call);
void concat_gpu(const KernelCall& call);

}  // namespace detail
}  // namespace sluice
