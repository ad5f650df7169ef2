// sort, argsort and topk: one kernel, told what is wanted of it.
#include <limits>

#include <sluice/ndarray/create.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/order/keys.h>
#include <sluice/operator/order/order.h>
#include <sluice/operator/order/places.h>
#include <sluice/operator/sink.h>

namespace sluice {

namespace {

struct SortAttributes {
  std::int64_t axis = -1;
  bool descending = false;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("descending", descending);
  }
};

struct TopkAttributes {
  std::int64_t axis = -1;
  std::int64_t k = 1;
  bool largest = true;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("k", k);
    v.field("largest", largest);
  }
};

extern const Operator k_sort, k_argsort, k_sort_with_indices, k_topk, k_topk_mask;

/// What an operator gives, in this order.
enum class Wanted { values, indices, both };

// -- Shape rules ----------------------------------------------------------------------------------------------------

// Indices are carried in 32 bits.
void check_count(const Operator& op, std::int64_t n) {
  require<UnsupportedError>(n <= std::int64_t{std::numeric_limits<std::uint32_t>::max()}, [&] {
    return message(op.name, ": an axis of ", n, " entries, of which 2^32 - 1 are the most");
  });
}

template <Wanted wanted>
Specs infer_sort(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  ArraySpec indices = inputs[0];
  indices.dtype = int64;
  if (wanted != Wanted::values)
    check_count(op, inputs[0].shape[detail::axis_of<SortAttributes>(attributes)]);
  if (wanted == Wanted::values)
    return {inputs[0]};
  if (wanted == Wanted::indices)
    return {indices};
  return {inputs[0], indices};
}

Specs infer_topk(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<TopkAttributes>();
  ArraySpec values = inputs[0];
  std::int64_t& extent = values.shape[static_cast<int>(a.axis)];
  check_count(op, extent);
  require<ValueError>(a.k >= 0 && a.k <= extent, [&] {
    return message(op.name, ": k is ", a.k, " along axis ", a.axis, " of shape ", inputs[0].shape);
  });
  extent = a.k;
  ArraySpec indices = values;
  indices.dtype = int64;
  return {values, indices};
}

Specs infer_mask(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  infer_topk(op, inputs, attributes);
  ArraySpec mask = inputs[0];
  mask.dtype = bool_;
  return {mask};
}

// -- Kernels --------------------------------------------------------------------------------------------------------

detail::OrderCall order_call(const KernelCall& call, std::int64_t axis, bool descending, Wanted wanted) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const detail::AxisLayout at = detail::axis_layout(x.shape, static_cast<int>(axis));
  detail::OrderCall order{x.data, nullptr, nullptr, x.dtype, at.outer, at.n, at.inner, 0, descending};
  order.kept = y.shape[static_cast<int>(axis)];
  if (wanted != Wanted::indices)
    order.values = y.data;
  if (wanted != Wanted::values)
    order.indices = call.outputs[wanted == Wanted::both ? 1 : 0].as<std::int64_t>();
  return order;
}

using Run = void (*)(const detail::OrderCall& order, const KernelCall& call);

template <Run run, Wanted wanted>
void sort_kernel(const KernelCall& call) {
  const auto& a = call.attributes.as<SortAttributes>();
  if (call.outputs[0].size != 0)
    run(order_call(call, a.axis, a.descending, wanted), call);
}

template <Run run>
void topk_kernel(const KernelCall& call) {
  const auto& a = call.attributes.as<TopkAttributes>();
  if (call.outputs[0].size != 0)
    run(order_call(call, a.axis, a.largest, Wanted::both), call);
}

// -- Gradients: heads go back to where values stood -----------------------------------------------------------------

NDArray put_back(const GradientCall& call, const NDArray& indices, std::int64_t axis) {
  const detail::PlacesAttributes how{axis, false};
  return invoke_one(
      k_put_places, {indices, call.output_grads[0], shape_only(call.input_specs[0])}, Attributes::of(how), {});
}

Arrays sort_gradient(const GradientCall& call) {
  const NDArray indices = invoke_one(k_argsort, {call.inputs[0]}, call.attributes, {});
  return {put_back(call, indices, call.attributes.as<SortAttributes>().axis)};
}

template <class A>
Arrays ordered_gradient(const GradientCall& call) {
  if (!call.output_grads[0].defined())
    return {NDArray()};
  return {put_back(call, call.outputs[1], call.attributes.as<A>().axis)};
}

// -- A mask: true values, put where the entries stand ---------------------------------------------------------------

Arrays compose_mask(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_mask(k_topk_mask, detail::specs_of(inputs), attributes);
  const NDArray indices = invoke(k_topk, inputs, attributes, site)[1];
  const detail::PlacesAttributes how{attributes.as<TopkAttributes>().axis, false};
  const NDArray truths = ones_like(indices, site).astype(bool_, site);
  return {invoke_one(k_put_places, {indices, truths, inputs[0]}, Attributes::of(how), site)};
}

// -- The operators --------------------------------------------------------------------------------------------------

constinit const Operator k_sort = {
    .name = "sort",
    .attributes = &attribute_type<SortAttributes>,
    .normalise = detail::normalise_axis<SortAttributes>,
    .infer = infer_sort<Wanted::values>,
    .kernels =
        {on_cpu(sort_kernel<detail::order_cpu, Wanted::values>),
         on_gpu(SLUICE_GPU_KERNEL((sort_kernel<detail::order_gpu, Wanted::values>)))},
    .gradient = sort_gradient,
    .saved_inputs = 0b1,
};
constinit const Operator k_argsort = {
    .name = "argsort",
    .attributes = &attribute_type<SortAttributes>,
    .normalise = detail::normalise_axis<SortAttributes>,
    .infer = infer_sort<Wanted::indices>,
    .kernels =
        {on_cpu(sort_kernel<detail::order_cpu, Wanted::indices>),
         on_gpu(SLUICE_GPU_KERNEL((sort_kernel<detail::order_gpu, Wanted::indices>)))},
};
constinit const Operator k_sort_with_indices = {
    .name = "sort_with_indices",
    .outputs = 2,
    .attributes = &attribute_type<SortAttributes>,
    .normalise = detail::normalise_axis<SortAttributes>,
    .infer = infer_sort<Wanted::both>,
    .kernels =
        {on_cpu(sort_kernel<detail::order_cpu, Wanted::both>),
         on_gpu(SLUICE_GPU_KERNEL((sort_kernel<detail::order_gpu, Wanted::both>)))},
    .gradient = ordered_gradient<SortAttributes>,
    .saved_outputs = 0b10,
};
constinit const Operator k_topk = {
    .name = "topk",
    .outputs = 2,
    .attributes = &attribute_type<TopkAttributes>,
    .normalise = detail::normalise_axis<TopkAttributes>,
    .infer = infer_topk,
    .kernels = {on_cpu(topk_kernel<detail::order_cpu>), on_gpu(SLUICE_GPU_KERNEL((topk_kernel<detail::order_gpu>)))},
    .gradient = ordered_gradient<TopkAttributes>,
    .saved_outputs = 0b10,
};

constinit const Operator k_topk_mask = {
    .name = "topk_mask",
    .attributes = &attribute_type<TopkAttributes>,
    .normalise = detail::normalise_axis<TopkAttributes>,
    .infer = infer_mask,
    .composition = compose_mask,
};

Ordered both(const Arrays& made) {
  return {made[0], made[1]};
}

}  // namespace

NDArray sort(const NDArray& x, int axis, bool descending, SourceLocation site) {
  // Where they stood is known at once then, and need not be found again.
  if (x.defined() && autograd::is_recording() && autograd::on_tape(x))
    return sort_with_indices(x, axis, descending, site).values;
  return invoke_one(k_sort, {x}, Attributes::of(SortAttributes{axis, descending}), site);
}

NDArray argsort(const NDArray& x, int axis, bool descending, SourceLocation site) {
  return invoke_one(k_argsort, {x}, Attributes::of(SortAttributes{axis, descending}), site);
}

Ordered sort_with_indices(const NDArray& x, int axis, bool descending, SourceLocation site) {
  return both(invoke(k_sort_with_indices, std::span(&x, 1), Attributes::of(SortAttributes{axis, descending}), site));
}

Ordered topk(const NDArray& x, std::int64_t k, int axis, bool largest, SourceLocation site) {
  return both(invoke(k_topk, std::span(&x, 1), Attributes::of(TopkAttributes{axis, k, largest}), site));
}

NDArray topk_mask(const NDArray& x, std::int64_t k, int axis, bool largest, SourceLocation site) {
  return invoke_one(k_topk_mask, {x}, Attributes::of(TopkAttributes{axis, k, largest}), site);
}

detail::OperatorList detail::order_operators() noexcept {
  static constexpr const Operator* list[] = {&k_sort, &k_argsort, &k_sort_with_indices, &k_topk, &k_topk_mask};
  return list;
}

}  // namespace sluice
