#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/concat/kernels.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>

namespace sluice {

namespace {

using detail::ConcatAttributes;

Specs infer_concat(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const int axis = detail::axis_of<ConcatAttributes>(attributes);
  ArraySpec spec = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    Shape expected = spec.shape;
    if (inputs[i].shape.ndim() == expected.ndim())
      expected[axis] = inputs[i].shape[axis];
    require<ShapeError>(inputs[i].shape == expected, [&] {
      return message(
          "concat: array ", i, " of shape ", inputs[i].shape, " does not fit ", inputs[0].shape, " along axis ", axis);
    });
    spec.shape[axis] += inputs[i].shape[axis];
  }
  return {spec};
}

Arrays gradient_concat(const GradientCall& call) {
  const int axis = detail::axis_of<ConcatAttributes>(call.attributes);
  Arrays grads(call.wanted.size());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const std::int64_t end = begin + call.input_specs[i].shape[axis];
    if (call.wanted[i])
      grads[i] = call.output_grads[0].slice(axis, begin, end);
    begin = end;
  }
  return grads;
}

// All of one type, the smallest that holds them all.
bool normalise_concat(const RawCall& call, NormalCall& normal) {
  require<ValueError>(!call.inputs.empty(), [&] { return message(call.op.name, ": no arrays"); });
  const bool counted = detail::normalise_axis<ConcatAttributes>(call, normal);
  DType dtype = call.inputs[0].dtype();
  for (const NDArray& array : call.inputs)
    dtype = promote(dtype, array.dtype());
  if (!counted)
    return detail::cast_inputs(call, dtype, normal);
  for (NDArray& input : normal.inputs)
    input = input.astype(dtype, call.site);
  return true;
}

}  // namespace

constinit const Operator k_concat = {
    .name = "concat",
    .inputs = -1,
    .attributes = &attribute_type<ConcatAttributes>,
    .normalise = normalise_concat,
    .infer = infer_concat,
    .kernels = {on_cpu(detail::concat_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::concat_gpu))},
    .gradient = gradient_concat,
};

NDArray concat(std::span<const NDArray> arrays, int axis, SourceLocation site) {
  return detail::located(
      site, [&]() -> NDArray { return invoke(k_concat, arrays, Attributes::of(ConcatAttributes{axis}), site)[0]; });
}

NDArray concat(std::initializer_list<NDArray> arrays, int axis, SourceLocation site) {
  return concat(std::span(arrays.begin(), arrays.size()), axis, site);
}

NDArray stack(std::span<const NDArray> arrays, int axis, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    require<ValueError>(!arrays.empty(), [] { return "stack: no arrays"; });
    std::vector<NDArray> rows(arrays.begin(), arrays.end());
    // The calls are the same for all extents, which a trace need not see.
    const Shape shape = detail::object_of(rows[0], "stack").shape;
    const int normal = normal_axis(axis, shape.ndim() + 1, "stack");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Shape& given = detail::object_of(rows[i], "stack").shape;
      require<ShapeError>(
          given == shape, [&] { return message("stack: array ", i, " has shape ", given, ", the first one ", shape); });
      rows[i] = rows[i].expand_dims(normal, site);
    }
    return concat(rows, normal, site);
  });
}

NDArray stack(std::initializer_list<NDArray> arrays, int axis, SourceLocation site) {
  return stack(std::span(arrays.begin(), arrays.size()), axis, site);
}

detail::OperatorList detail::concat_operators() noexcept {
  static constexpr const Operator* list[] = {&k_concat, &k_split};
  return list;
}

}  // namespace sluice
