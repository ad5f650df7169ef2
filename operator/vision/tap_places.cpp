#include <sluice/engine/parallel.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/floating_array.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/sides.h>
#include <sluice/operator/vision/tap_places.h>

namespace sluice::detail {

namespace {

Specs infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<TapPlacesAttributes>();
  check_pair(op.name, a.kernel, 1, "kernel");
  check_pair(op.name, a.out, 0, "out");
  check_pair(op.name, a.stride, 1, "stride");
  check_pair(op.name, a.begin, 0, "begin");
  check_pair(op.name, a.dilation, 1, "dilation");
  const ArraySpec& offset = inputs[0];
  require<DTypeError>(is_floating(offset.dtype) && offset.dtype == wide_type(offset.dtype), [&] {
    return message(op.name, ": takes float32 or float64, not ", offset.dtype);
  });
  const Shape& shape = offset.shape;
  const std::int64_t each = 2 * a.kernel[0] * a.kernel[1];
  require<ShapeError>(shape.ndim() == 4 && shape[1] % each == 0 && shape[2] == a.out[0] && shape[3] == a.out[1], [&] {
    return message(
        op.name, ": offsets of windows of ", a.kernel, " are (N, k * ", each, ") + ", a.out, ", not ", shape);
  });
  const ArraySpec of{{shape[0] * (shape[1] / each), each / 2, shape[2] * shape[3]}, offset.dtype, offset.device};
  return {of, of};
}

Arrays gradient(const GradientCall& call) {
  NDArray rows = call.output_grads[0], columns = call.output_grads[1];
  if (!call.wanted[0] || (!rows.defined() && !columns.defined()))
    return Arrays(1);
  if (!rows.defined())
    rows = zeros_like(columns);
  if (!columns.defined())
    columns = zeros_like(rows);
  const Shape& shape = call.input_specs[0].shape;
  return {stack({rows, columns}, 2).reshape({-1, shape[1], shape[2], shape[3]})};
}

}  // namespace

void tap_places_cpu(const KernelCall& call) {
  by_computing_type(call.inputs[0].dtype, [&]<class C>() {
    const TapPlaces<C> places(call);
    parallel_for(places.size, 4 * 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        places.put(i);
    });
  });
}

constinit const Operator k_tap_places{
    .name = "tap_places",
    .outputs = 2,
    .attributes = &attribute_type<TapPlacesAttributes>,
    .infer = infer,
    .kernels = {on_cpu(tap_places_cpu), on_gpu(SLUICE_GPU_KERNEL(tap_places_gpu))},
    .gradient = gradient,
};

}  // namespace sluice::detail
