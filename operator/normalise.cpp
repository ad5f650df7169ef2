#include <algorithm>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/normalise.h>

namespace sluice::detail {

bool cast_inputs(const RawCall& call, DType dtype, NormalCall& normal) {
  const auto is_that = [dtype](const NDArray& input) { return input.object()->dtype == dtype; };
  if (std::all_of(call.inputs.begin(), call.inputs.end(), is_that))
    return false;
  for (const NDArray& input : call.inputs)
    normal.inputs.push_back(input.astype(dtype, call.site));
  normal.attributes = call.attributes;
  return true;
}

void as_given(const RawCall& call, NormalCall& normal) {
  normal.inputs.assign(call.inputs.begin(), call.inputs.end());
  normal.attributes = call.attributes;
}

bool promote_inputs(const RawCall& call, NormalCall& normal) {
  if (call.inputs.empty())
    return false;
  const DType first = call.inputs[0].object()->dtype;
  DType dtype = first;
  bool is_normal = true;
  for (const NDArray& input : call.inputs.subspan(1)) {
    is_normal = is_normal && input.object()->dtype == first;
    dtype = promote(dtype, input.object()->dtype);
  }
  return !is_normal && cast_inputs(call, dtype, normal);
}

Shape with_open_rows(Shape shape) {
  if (shape.ndim() == 0)
    return shape;
  Shape rest = shape;
  rest.erase(0);
  if (rest.size() != 0)
    shape[0] = -1;
  return shape;
}

}  // namespace sluice::detail
