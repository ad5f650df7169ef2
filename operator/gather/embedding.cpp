// Operators put together of taking and replacing: embedding, scatter_nd.
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/indexed.h>
#include <sluice/operator/gather/indexing.h>
#include <sluice/operator/gather/replaced.h>
#include <sluice/operator/gather/subscripted.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/view/attributes.h>

namespace sluice {

namespace {

struct EmbeddingAttributes {
  std::optional<std::int64_t> padding;

  template <class V>
  void visit(V&& v) {
    v.field("padding", padding);
  }
};

// Errors of indices name who asked.
constexpr detail::GatherAttributes k_rows{.asked = "embedding"}, k_entries{.asked = "scatter_nd"};

// indices, weight
Specs infer_embedding(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const Shape& weight = inputs[1].shape;
  require<ShapeError>(weight.ndim() > 0, [&] { return message(op.name, ": a weight without axes has no rows"); });
  const std::optional<std::int64_t>& padding = attributes.as<EmbeddingAttributes>().padding;
  require<IndexError>(!padding || (*padding >= -weight[0] && *padding < weight[0]), [&] {
    return message(op.name, ": padding ", *padding, " is no row of a weight of shape ", weight);
  });
  ArraySpec spec = inputs[1];
  spec.shape = detail::taken_shape(op.name, detail::IndexKind::axis, inputs[0], weight, 0);
  return {spec};
}

Arrays embedded(std::span<const NDArray> inputs, const Attributes&, SourceLocation site) {
  return {invoke_one(k_take, {inputs[1], inputs[0]}, Attributes::of(k_rows), site)};
}

Arrays embedding_gradient(const GradientCall& call) {
  const NDArray& indices = call.inputs[0];
  NDArray dy = call.output_grads[0];
  const Shape& weight = call.input_specs[1].shape;
  if (const auto padding = call.attributes.as<EmbeddingAttributes>().padding) {
    const std::int64_t row = *padding < 0 ? *padding + weight[0] : *padding;
    const NDArray wide = indices.astype(int64);  // which holds both names of the row
    NDArray kept = logical_and(not_equal(wide, row), not_equal(wide, row - weight[0]));
    for (int axis = 1; axis < weight.ndim(); ++axis)
      kept = kept.expand_dims(-1);
    dy = where(kept, dy, 0);
  }
  const NDArray shape = shape_only(call.input_specs[1]);
  return {{}, invoke_one(k_take_backward, {indices, dy, shape}, Attributes::of(k_rows), {})};
}

constinit const Operator k_embedding{
    .name = "embedding",
    .inputs = 2,
    .attributes = &attribute_type<EmbeddingAttributes>,
    .infer = infer_embedding,
    .composition = embedded,
    .gradient = embedding_gradient,
    .saved_inputs = 0b01,
};

// -- scatter_nd: values, indices ------------------------------------------------------------------------------------
Specs infer_scatter_nd(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  ArraySpec spec = inputs[0];
  spec.shape = attributes.as<detail::ShapeAttribute>().shape;
  detail::check_taken(
      op.name, inputs[0].shape, detail::taken_shape(op.name, detail::IndexKind::tuple, inputs[1], spec.shape, 0));
  return {spec};
}

Arrays scattered(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const NDArray& values = inputs[0];
  const ArrayOptions as{.dtype = values.dtype(), .device = values.device()};
  const NDArray none = zeros(attributes.as<detail::ShapeAttribute>().shape, as, site);
  return {invoke_one(k_index_update_nd, {none, inputs[1], values}, Attributes::of(k_entries), site)};
}

// Values that others replace have none.
Arrays scatter_gradient(const GradientCall& call) {
  const NDArray inputs[] = {call.inputs[1], call.output_grads[0]};
  return {invoke(k_index_update_nd_backward, inputs, Attributes::of(k_entries), {})[1], {}};
}

constinit const Operator k_scatter_nd{
    .name = "scatter_nd",
    .inputs = 2,
    .attributes = &attribute_type<detail::ShapeAttribute>,
    .infer = infer_scatter_nd,
    .kernels = {on_gpu(SLUICE_GPU_KERNEL(detail::scatter_nd_gpu))},
    .composition = scattered,
    .gradient = scatter_gradient,
    .saved_inputs = 0b10,
};

}  // namespace

NDArray embedding(
    const NDArray& indices, const NDArray& weight, std::optional<std::int64_t> padding, SourceLocation site) {
  return invoke_one(k_embedding, {indices, weight}, Attributes::of(EmbeddingAttributes{padding}), site);
}

NDArray scatter_nd(const NDArray& values, const NDArray& indices, const Shape& shape, SourceLocation site) {
  return invoke_one(k_scatter_nd, {values, indices}, Attributes::of(detail::ShapeAttribute{shape}), site);
}

detail::OperatorList detail::indexed_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_gather_nd,
      &k_gather_nd_backward,
      &k_take_along_axis,
      &k_take_along_axis_backward,
      &k_index_update,
      &k_index_update_backward,
      &k_index_update_nd,
      &k_index_update_nd_backward,
      &k_put_along_axis,
      &k_put_along_axis_backward,
      &k_index_add,
      &k_index_add_nd,
      &k_add_along_axis,
      &detail::k_index_assign,
      &detail::k_put,
      &detail::k_masked_fill,
      &k_embedding,
      &k_scatter_nd};
  return list;
}

}  // namespace sluice
