#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sides.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/vision/boxes.h>
#include <sluice/operator/vision/grid_rule.h>
#include <sluice/operator/vision/grid_sample.h>
#include <sluice/operator/vision/roi_align.h>
#include <sluice/operator/vision/roi_walk.h>
#include <sluice/operator/vision/samples.h>
#include <sluice/operator/vision/tap_places.h>

namespace sluice {

namespace {

using detail::RoiAttributes;

Shape check_regions(const Operator& op, const ArraySpec& x, const ArraySpec& rois, const RoiAttributes& a) {
  detail::check_pair(op.name, a.pooled_size, 1, "pooled_size");
  require<ValueError>(a.sampling_ratio >= 0 && a.sampling_ratio <= detail::k_most_of_window, [&] {
    return message(op.name, ": sampling_ratio must be >= 0 and < 2^31, not ", a.sampling_ratio);
  });
  require<DTypeError>(is_floating(x.dtype) && is_floating(rois.dtype), [&] {
    return message(op.name, ": takes floating types, not ", x.dtype, " and ", rois.dtype);
  });
  require<ShapeError>(x.shape.ndim() == 4 && x.shape[2] >= 1 && x.shape[3] >= 1, [&] {
    return message(op.name, ": x must be (N, C, H, W) of at least a pixel, not ", x.shape);
  });
  require<ShapeError>(rois.shape.ndim() == 2 && rois.shape[1] == 5, [&] {
    return message(op.name, ": rois are (R, 5), of (image, left, top, right, bottom), not ", rois.shape);
  });
  return {rois.shape[0], x.shape[1], a.pooled_size[0], a.pooled_size[1]};
}

Specs infer_align(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& x = inputs[0];
  return {{check_regions(op, x, inputs[1], attributes.as<RoiAttributes>()), x.dtype, x.device}};
}

void check_rois(const Operator& op, const ArraySpec& x, const ArraySpec& rois) {
  require<DTypeError>(rois.dtype == detail::wide_type(x.dtype), [&] {
    return message(op.name, ": rois beside ", x.dtype, " are ", detail::wide_type(x.dtype), ", not ", rois.dtype);
  });
}

Specs infer_samples(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const Specs specs = infer_align(op, inputs, attributes);
  check_rois(op, inputs[0], inputs[1]);
  return specs;
}

// dy, rois, x (shape alone)
Specs infer_samples_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec &dy = inputs[0], &x = inputs[2];
  const Shape y = check_regions(op, {x.shape, dy.dtype, x.device}, inputs[1], attributes.as<RoiAttributes>());
  check_rois(op, dy, inputs[1]);
  require<ShapeError>(dy.shape == y, [&] {
    return message(op.name, ": a gradient of shape ", dy.shape, " is not that of a result of shape ", y);
  });
  return {{x.shape, dy.dtype, dy.device}};
}

Arrays align(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_align(detail::k_roi_align, detail::specs_of(inputs), attributes);
  const NDArray rois = inputs[1].detach().astype(detail::wide_type(inputs[0].dtype()), site);
  return {invoke_one(detail::k_roi_samples, {inputs[0], rois}, attributes, site)};
}

Arrays samples_gradient(const GradientCall& call) {
  Arrays grads(2);
  if (call.wanted[0] && call.output_grads[0].defined())
    grads[0] = invoke_one(
        detail::k_roi_samples_backward,
        {call.output_grads[0], call.inputs[1], shape_only(call.input_specs[0])},
        call.attributes,
        SourceLocation::current());
  return grads;
}

Arrays samples_backward_gradient(const GradientCall& call) {
  Arrays grads(3);
  if (call.wanted[0] && call.output_grads[0].defined())
    grads[0] = invoke_one(
        detail::k_roi_samples, {call.output_grads[0], call.inputs[1]}, call.attributes, SourceLocation::current());
  return grads;
}

}  // namespace

namespace detail {

constinit const Operator k_roi_align{
    .name = "roi_align",
    .inputs = 2,
    .attributes = &attribute_type<RoiAttributes>,
    .infer = infer_align,
    .composition = align,
};
constinit const Operator k_roi_samples{
    .name = "roi_samples",
    .inputs = 2,
    .attributes = &attribute_type<RoiAttributes>,
    .infer = infer_samples,
    .kernels = {on_cpu(roi_samples_cpu), on_gpu(SLUICE_GPU_KERNEL(roi_samples_gpu))},
    .gradient = samples_gradient,
    .saved_inputs = 0b10,
};
constinit const Operator k_roi_samples_backward{
    .name = "roi_samples_backward",
    .inputs = 3,
    .attributes = &attribute_type<RoiAttributes>,
    .infer = infer_samples_backward,
    .kernels = {on_cpu(roi_samples_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(roi_samples_backward_gpu))},
    .gradient = samples_backward_gradient,
    .saved_inputs = 0b10,
    .shape_inputs = 0b100,
};

OperatorList vision_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_box_nms,
      &k_nms_mask,
      &k_roi_align,
      &k_roi_samples,
      &k_roi_samples_backward,
      &k_grid_places,
      &k_grid_places_backward,
      &k_tap_places,
      &k_plane_samples,
      &k_plane_samples_backward,
      &k_plane_slopes,
      &k_grid_sample,
      &k_deformable_convolution};
  return list;
}

}  // namespace detail

NDArray roi_align(const NDArray& x, const NDArray& rois, const RoiAlignOptions& o, SourceLocation site) {
  const RoiAttributes how{o.pooled_size, o.spatial_scale, o.sampling_ratio, o.aligned};
  return invoke_one(detail::k_roi_align, {x, rois}, Attributes::of(how), site);
}

}  // namespace sluice
