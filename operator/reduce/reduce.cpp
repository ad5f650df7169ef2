#include <algorithm>
#include <type_traits>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/reduce/families.h>
#include <sluice/operator/reduce/gradient.h>
#include <sluice/operator/reduce/kernels.h>
#include <sluice/operator/reduce/normal_axes.h>
#include <sluice/operator/reduce/product_gradient.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/reduce/rows.h>

namespace sluice {

namespace {

using detail::MomentAttributes;
using detail::ReduceAttributes;
using detail::ReduceSettings;
using detail::ReductionRow;

// -- Shape rules ------------------------------------------------------------------------------------------------

template <class A>
ArraySpec reduced_spec(std::span<const ArraySpec> inputs, const A& a) {
  return {detail::reduced_shape(inputs[0].shape, a.axes, a.keepdims), inputs[0].dtype, inputs[0].device};
}

DType result_type(ReduceTypes types, DType dtype) {
  switch (types) {
    case ReduceTypes::kept:
      return dtype;
    case ReduceTypes::whole:
      return is_floating(dtype) || dtype == uint64 ? dtype : int64;
    case ReduceTypes::exact:
    case ReduceTypes::real:
      return is_floating(dtype) ? dtype : float32;
    case ReduceTypes::count:
      return int64;
    case ReduceTypes::truth:
      return bool_;
  }
  return dtype;
}

void check_not_empty(const Operator& op, const ArraySpec& input, const Shape& axes) {
  for (const std::int64_t axis : axes) {
    require<ValueError>(input.shape[static_cast<int>(axis)] > 0, [&] {
      return message(op.name, ": nothing to reduce along axis ", axis, " of shape ", input.shape);
    });
  }
}

template <Reduction row>
Specs infer_row(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  using Row = ReductionRow<row>;
  const auto& a = attributes.as<typename Row::Attributes>();
  if (Row::nothing == OfNothing::refused)
    check_not_empty(op, inputs[0], a.axes);
  ArraySpec spec = reduced_spec(inputs, a);
  spec.dtype = result_type(Row::types, spec.dtype);
  return {spec};
}

Specs infer_arg(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<ReduceAttributes>();
  check_not_empty(op, inputs[0], a.axes);
  ArraySpec spec = reduced_spec(inputs, a);
  spec.dtype = int64;
  return {spec};
}

// -- Normal form ------------------------------------------------------------------------------------------------

// A place along several axes counts their elements row by row: they are made one axis, by a copy where they lie apart.
// It stands where the first of them stood, so that keepdims leaves each of them as 1.
bool normalise_arg(const RawCall& call, NormalCall& normal) {
  const auto& given = call.attributes.as<ReduceAttributes>();
  const Shape axes = detail::normal_axes(call, given.axes);
  if (axes.ndim() < 2)
    return detail::normalise_axes<ReduceAttributes, false>(call, normal);
  const NDArray& x = call.inputs[0];
  const Shape& shape = x.shape();
  const int first = static_cast<int>(axes[0]);
  Shape order, joined;
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    const bool is_kept = std::find(axes.begin(), axes.end(), axis) == axes.end();
    if (axis == first) {
      for (const std::int64_t reduced : axes)
        order.push_back(reduced);
      joined.push_back(1);
    }
    if (is_kept) {
      order.push_back(axis);
      joined.push_back(shape[axis]);
    } else {
      joined[first] *= shape[axis];
      if (axis != first && given.keepdims)
        joined.push_back(1);
    }
  }
  detail::with_attributes(call, ReduceAttributes{{first}, given.keepdims}, normal);
  normal.inputs[0] = x.transpose(order, call.site).reshape(joined, call.site);
  return true;
}

// -- Kernels ----------------------------------------------------------------------------------------------------

template <Reduction row>
ReduceSettings settings_of(const KernelCall& call) {
  const auto& a = call.attributes.as<typename ReductionRow<row>::Attributes>();
  ReduceSettings settings{a.axes, 1, static_cast<double>(detail::ddof_of(a))};
  for (const std::int64_t axis : a.axes)
    settings.terms *= static_cast<double>(call.inputs[0].shape[static_cast<int>(axis)]);
  return settings;
}

template <Reduction row>
void row_cpu(const KernelCall& call) {
  by_dtype(call.inputs[0].dtype, [&]<class T>() { detail::reduce_type_on_cpu<T>(row, call, settings_of<row>(call)); });
}

// bool is read as the byte that it is.
template <Reduction row>
[[maybe_unused]] void row_gpu(const KernelCall& call) {
  by_dtype(call.inputs[0].dtype, [&]<class T>() {
    using Read = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    detail::reduce_type_on_gpu<Read>(row, call, settings_of<row>(call));
  });
}

// -- Gradients --------------------------------------------------------------------------------------------------

template <Reduction row>
struct Derivative;

#define REDUCTION(row, types, nothing, parameter, state, derivative, ...) \
  template <>                                                             \
  struct Derivative<Reduction::row> {                                     \
    static NDArray of(                                                    \
        [[maybe_unused]] const detail::ReductionGradient& r,              \
        [[maybe_unused]] const NDArray& dy,                               \
        [[maybe_unused]] const NDArray& x,                                \
        [[maybe_unused]] const NDArray& y) {                              \
      return derivative;                                                  \
    }                                                                     \
  };
#include <sluice/operator/reduce/reduce.def>
#undef REDUCTION

template <Reduction row>
Arrays gradient_row(const GradientCall& call) {
  using Row = ReductionRow<row>;
  const auto& a = call.attributes.as<typename Row::Attributes>();
  const detail::ReductionGradient r(call, a.axes, a.keepdims, detail::ddof_of(a));
  NDArray x = call.inputs[0], y = call.outputs[0], dy = call.output_grads[0];
  const DType dtype = call.input_specs[0].dtype;
  if (Row::types == ReduceTypes::real && size_of(dtype) < sizeof(float)) {
    // In float, the result too: rounded to half precision, e^(x - y) would be anything.
    x = widened(x);
    dy = widened(dy);
    if (y.defined())
      y = invoke_one(call.op, {x}, call.attributes, SourceLocation::current());
  }
  const NDArray dx = Derivative<row>::of(r, r.aligned(dy), x, y.defined() ? r.aligned(y) : y);
  return {dx.dtype() == dtype ? dx : dx.astype(dtype)};
}

// -- Operators --------------------------------------------------------------------------------------------------

template <Reduction row>
constexpr Operator make_row() {
  using Row = ReductionRow<row>;
  constexpr bool has_gradient = Row::types != ReduceTypes::count && Row::types != ReduceTypes::truth;
  Operator op;
  op.name = Row::name;
  op.attributes = &attribute_type<typename Row::Attributes>;
  op.normalise = detail::normalise_axes<typename Row::Attributes, Row::types == ReduceTypes::real>;
  op.infer = infer_row<row>;
  op.kernels = {on_cpu(row_cpu<row>), on_gpu(SLUICE_GPU_KERNEL(row_gpu<row>))};
  if (has_gradient)
    op.gradient = gradient_row<row>;
  op.saved_inputs = (Row::uses & x_) != 0 ? k_all : k_none;
  op.saved_outputs = (Row::uses & y_) != 0 ? k_all : k_none;
  op.strided_inputs = k_all;
  op.prompt = true;
  return op;
}

template <Reduction row>
constinit const Operator k_row = make_row<row>();

constexpr Operator make_arg(const char* name, Kernel cpu, Kernel gpu) {
  Operator op;
  op.name = name;
  op.attributes = &attribute_type<ReduceAttributes>;
  op.normalise = normalise_arg;
  op.infer = infer_arg;
  op.kernels = {on_cpu(cpu), on_gpu(gpu)};
  op.strided_inputs = k_all;
  op.prompt = true;
  return op;
}

}  // namespace

constinit const Operator detail::k_argmax =
    make_arg("argmax", detail::argmax_cpu, SLUICE_GPU_KERNEL(detail::argmax_gpu));
constinit const Operator detail::k_argmin =
    make_arg("argmin", detail::argmin_cpu, SLUICE_GPU_KERNEL(detail::argmin_gpu));

namespace {

// -- Calls ------------------------------------------------------------------------------------------------------

template <class A>
NDArray reduce(const Operator& op, const NDArray& x, A attributes, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, op.name);
    return invoke_one(op, {x}, Attributes::of(std::move(attributes)), site);
  });
}

}  // namespace

#define SLUICE_TAKES_none
#define SLUICE_TAKES_ddof std::int64_t ddof,
#define SLUICE_PUTS_none
#define SLUICE_PUTS_ddof , ddof
#define REDUCTION(name, types, nothing, parameter, ...)                                                            \
  NDArray name(const NDArray& x, const Shape& axes, bool keepdims, SLUICE_TAKES_##parameter SourceLocation site) { \
    using A = ReductionRow<Reduction::name>::Attributes;                                                           \
    return reduce(k_row<Reduction::name>, x, A{axes, keepdims SLUICE_PUTS_##parameter}, site);                     \
  }
#include <sluice/operator/reduce/reduce.def>
#undef REDUCTION

NDArray argmax(const NDArray& x, int axis, bool keepdims, SourceLocation site) {
  return reduce(detail::k_argmax, x, ReduceAttributes{{axis}, keepdims}, site);
}

NDArray argmin(const NDArray& x, int axis, bool keepdims, SourceLocation site) {
  return reduce(detail::k_argmin, x, ReduceAttributes{{axis}, keepdims}, site);
}

NDArray argmax(const NDArray& x, SourceLocation site) {
  return reduce(detail::k_argmax, x, ReduceAttributes{}, site);
}

NDArray argmin(const NDArray& x, SourceLocation site) {
  return reduce(detail::k_argmin, x, ReduceAttributes{}, site);
}

detail::OperatorList detail::reduce_operators() noexcept {
  static constexpr const Operator* list[] = {
#define REDUCTION(name, ...) &k_row<Reduction::name>,
#include <sluice/operator/reduce/reduce.def>
#undef REDUCTION
      &k_argmax,
      &k_argmin,
      &k_divide_by_terms,
      &k_prod_backward,
      &k_nanprod,
      &k_nanmean,
      &k_nanmax,
      &k_nanmin,
      &k_norm,
      &k_nanvar,
      &k_nanstd,
      &k_nanargmax,
      &k_nanargmin};
  return list;
}

}  // namespace sluice
