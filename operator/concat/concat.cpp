#include <type_traits>
#include <utility>

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

struct StackAttributes {
  std::int64_t axis = 0;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
  }
};

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
  spec.dtype = attributes.as<ConcatAttributes>().dtype.value_or(spec.dtype);
  return {spec};
}

Arrays concat_gradient(const GradientCall& call) {
  const int axis = detail::axis_of<ConcatAttributes>(call.attributes);
  Arrays grads(call.wanted.size());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const std::int64_t end = begin + call.input_specs[i].shape[axis];
    if (call.wanted[i])
      grads[i] = call.output_grads[0].slice(axis, begin, end).astype(call.input_specs[i].dtype);
    begin = end;
  }
  return grads;
}

// All of one type, the smallest that holds them all, unless the kernel converts them; the axis is one of the result's,
// which has so many axes more.
template <class A, int more>
bool normalise_joined(const RawCall& call, NormalCall& normal) {
  require<ValueError>(!call.inputs.empty(), [&] { return message(call.op.name, ": no arrays"); });
  A how = call.attributes.as<A>();
  const std::int64_t given = how.axis;
  const int axis = normal_axis(given, call.inputs[0].ndim() + more, call.op.name);
  DType dtype = call.inputs[0].dtype();
  for (const NDArray& array : call.inputs)
    dtype = promote(dtype, array.dtype());
  bool converts = false;
  if constexpr (std::is_same_v<A, ConcatAttributes>) {
    converts = how.dtype.has_value();
    // A cast between these reads denormals of float32 as zeros, a kernel that knows of float64 does not.
    if (converts && (dtype == float64 || *how.dtype == float64)) {
      converts = false;
      dtype = *how.dtype;
    }
  }
  const bool cast = !converts && detail::cast_inputs(call, dtype, normal);
  if (axis == given)
    return cast;
  if (!cast)
    normal.inputs.assign(call.inputs.begin(), call.inputs.end());
  how.axis = axis;
  normal.attributes = Attributes::of(std::move(how));
  return true;
}

// -- stack ----------------------------------------------------------------------------------------------------------

Specs infer_stack(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  ArraySpec spec = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    require<ShapeError>(inputs[i].shape == spec.shape, [&] {
      return message(op.name, ": array ", i, " has shape ", inputs[i].shape, ", the first one ", spec.shape);
    });
  }
  spec.shape.insert(detail::axis_of<StackAttributes>(attributes), static_cast<std::int64_t>(inputs.size()));
  return {spec};
}

Arrays stacked(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const int axis = detail::axis_of<StackAttributes>(attributes);
  Arrays rows;
  for (const NDArray& input : inputs)
    rows.push_back(input.expand_dims(axis, site));
  return {concat(rows, axis, site)};
}

constinit const Operator k_stack = {
    .name = "stack",
    .inputs = -1,
    .attributes = &attribute_type<StackAttributes>,
    .normalise = normalise_joined<StackAttributes, 1>,
    .infer = infer_stack,
    .composition = stacked,
};

}  // namespace

constinit const Operator k_concat = {
    .name = "concat",
    .inputs = -1,
    .attributes = &attribute_type<ConcatAttributes>,
    .normalise = normalise_joined<ConcatAttributes, 0>,
    .infer = infer_concat,
    .kernels = {on_cpu(detail::concat_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::concat_gpu))},
    .gradient = concat_gradient,
    .strided_inputs = k_all,
};

NDArray concat(std::span<const NDArray> arrays, int axis, SourceLocation site) {
  return detail::located(
      site, [&]() -> NDArray { return invoke(k_concat, arrays, Attributes::of(ConcatAttributes{axis}), site)[0]; });
}

NDArray concat(std::span<const NDArray> arrays, int axis, DType dtype, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    return invoke(k_concat, arrays, Attributes::of(ConcatAttributes{axis, dtype}), site)[0];
  });
}

NDArray concat(std::initializer_list<NDArray> arrays, int axis, SourceLocation site) {
  return concat(std::span(arrays.begin(), arrays.size()), axis, site);
}

NDArray stack(std::span<const NDArray> arrays, int axis, SourceLocation site) {
  return detail::located(
      site, [&]() -> NDArray { return invoke(k_stack, arrays, Attributes::of(StackAttributes{axis}), site)[0]; });
}

NDArray stack(std::initializer_list<NDArray> arrays, int axis, SourceLocation site) {
  return stack(std::span(arrays.begin(), arrays.size()), axis, site);
}

detail::OperatorList detail::concat_operators() noexcept {
  static constexpr const Operator* list[] = {&k_concat, &k_stack, &k_split};
  return list;
}

}  // namespace sluice
