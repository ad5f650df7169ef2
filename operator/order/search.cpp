#include <limits>

#include <sluice/operator/detail/families.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/order/order.h>
#include <sluice/operator/order/search.h>

namespace sluice {

namespace {

using detail::SearchAttributes;

Specs infer_search(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const Shape &sorted = inputs[0].shape, &values = inputs[1].shape;
  const int last = sorted.ndim() - 1;
  bool fits = sorted.ndim() == 1 || (last > 0 && last == values.ndim() - 1);
  for (int axis = 0; fits && axis < last; ++axis)
    fits = sorted[axis] == values[axis];
  require<ShapeError>(
      fits, [&] { return message(op.name, ": values of shape ", values, " among sorted ones of shape ", sorted); });
  ArraySpec spec = inputs[1];
  spec.dtype = int64;
  return {spec};
}

constinit const Operator k_searchsorted = {
    .name = "searchsorted",
    .inputs = 2,
    .attributes = &attribute_type<SearchAttributes>,
    .normalise = detail::promote_inputs,
    .infer = infer_search,
    .kernels = {on_cpu(detail::searchsorted_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::searchsorted_gpu))},
};

}  // namespace

NDArray searchsorted(const NDArray& sorted, const NDArray& values, bool right, SourceLocation site) {
  return invoke_one(k_searchsorted, {sorted, values}, Attributes::of(SearchAttributes{right}), site);
}

detail::OperatorList detail::search_operators() noexcept {
  static constexpr const Operator* list[] = {&k_searchsorted};
  return list;
}

}  // namespace sluice
