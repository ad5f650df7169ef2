#include <limits>
#include <vector>

#include <sluice/ndarray/create.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/gather/indexing.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/order/order.h>
#include <sluice/operator/order/select.h>
#include <sluice/operator/vision/boxes.h>
#include <sluice/operator/vision/nms_walk.h>

namespace sluice {

namespace {

struct BoxNmsAttributes {
  double overlap_thresh = 0.5, valid_thresh = 0;
  std::int64_t topk = -1, coord_start = 2, score_index = 1, id_index = -1, background_id = -1;
  bool force_suppress = false, in_center = false, out_center = false;

  template <class V>
  void visit(V&& v) {
    v.field("overlap_thresh", overlap_thresh);
    v.field("valid_thresh", valid_thresh);
    v.field("topk", topk);
    v.field("coord_start", coord_start);
    v.field("score_index", score_index);
    v.field("id_index", id_index);
    v.field("background_id", background_id);
    v.field("force_suppress", force_suppress);
    v.field("in_center", in_center);
    v.field("out_center", out_center);
  }
};

// -- Which remain -----------------------------------------------------------------------------------------------------
Specs infer_mask(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  require<ValueError>(inputs.size() == 2 || inputs.size() == 3, [&] {
    return message(op.name, ": takes boxes, which take part and maybe classes, was given ", inputs.size());
  });
  const ArraySpec &boxes = inputs[0], &takes_part = inputs[1];
  require<DTypeError>(boxes.dtype == detail::wide_type(boxes.dtype) && takes_part.dtype == bool_, [&] {
    return message(op.name, ": boxes are float32 or float64 beside bool, not ", boxes.dtype, " and ", takes_part.dtype);
  });
  const bool fits = boxes.shape.ndim() == 3 && boxes.shape[2] == 4;
  require<ShapeError>(fits && takes_part.shape == Shape{boxes.shape[0], boxes.shape[1]}, [&] {
    return message(op.name, ": boxes are (B, N, 4) beside (B, N), not ", boxes.shape, " and ", takes_part.shape);
  });
  require<ShapeError>(inputs.size() < 3 || inputs[2].shape == takes_part.shape, [&] {
    return message(op.name, ": classes of shape ", inputs[2].shape, " for boxes of ", boxes.shape);
  });
  require<DTypeError>(inputs.size() < 3 || inputs[2].dtype == boxes.dtype, [&] {
    return message(op.name, ": classes are ", boxes.dtype, " as boxes are, not ", inputs[2].dtype);
  });
  return {takes_part};
}

NDArray mask_of(const std::vector<NDArray>& inputs, double threshold, SourceLocation site) {
  return invoke(detail::k_nms_mask, inputs, Attributes::of(detail::NmsAttributes{threshold}), site)[0];
}

// -- box_nms ----------------------------------------------------------------------------------------------------------
Specs infer_box_nms(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<BoxNmsAttributes>();
  const ArraySpec& data = inputs[0];
  require<DTypeError>(
      is_floating(data.dtype), [&] { return message(op.name, ": takes floating types, not ", data.dtype); });
  require<ShapeError>(data.shape.ndim() >= 2, [&] {
    return message(op.name, ": data must be (.., N, K), K numbers a box, not ", data.shape);
  });
  const std::int64_t numbers = data.shape.back();
  const auto is_inside = [&](std::int64_t index) { return index >= 0 && index < numbers; };
  const bool ids_inside = a.id_index < numbers;
  require<ValueError>(
      is_inside(a.coord_start) && is_inside(a.coord_start + 3) && is_inside(a.score_index) && ids_inside, [&] {
        return message(
            op.name,
            ": coord_start ",
            a.coord_start,
            ", score_index ",
            a.score_index,
            " or id_index ",
            a.id_index,
            " does not fit boxes of ",
            numbers,
            " numbers, of shape ",
            data.shape);
      });
  return {data};
}

// Numbers [begin, end) of each box.
NDArray numbers(const NDArray& boxes, std::int64_t begin, std::int64_t end, SourceLocation site) {
  return boxes.slice(2, begin, end, 1, site);
}

// Boxes around a centre as corners, or the other way round.
NDArray turned(const NDArray& boxes, bool to_center, SourceLocation site) {
  const NDArray a = numbers(boxes, 0, 2, site), b = numbers(boxes, 2, 4, site);
  if (to_center)
    return concat({multiply(add(a, b, site), 0.5, site), subtract(b, a, site)}, 2, site);
  const NDArray half = multiply(b, 0.5, site);
  return concat({subtract(a, half, site), add(a, half, site)}, 2, site);
}

NDArray rows_at(const NDArray& boxes, const NDArray& order, SourceLocation site) {
  return take_along_axis(boxes, order.expand_dims(2, site), 1, IndexMode::raise, site);
}

Arrays suppress(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_box_nms(detail::k_box_nms, detail::specs_of(inputs), attributes);
  const auto& a = attributes.as<BoxNmsAttributes>();
  const NDArray& data = inputs[0];
  const Shape shape = data.shape();
  std::int64_t batch = 1;
  for (int axis = 0; axis + 2 < shape.ndim(); ++axis)
    batch *= shape[axis];
  const std::int64_t n = shape[shape.ndim() - 2], last = shape.ndim() - 1;
  const NDArray all = data.reshape({batch, n, shape[static_cast<int>(last)]}, site);
  const NDArray plain = all.detach().astype(detail::wide_type(data.dtype()), site);
  const auto number = [&](std::int64_t i) { return numbers(plain, i, i + 1, site).squeeze(2, site); };
  const NDArray score = number(a.score_index);
  NDArray takes_part = greater(score, a.valid_thresh, site);
  if (a.id_index >= 0 && a.background_id >= 0)
    takes_part = logical_and(takes_part, not_equal(number(a.id_index), a.background_id, site), site);
  const NDArray order =
      argsort(where(takes_part, score, -std::numeric_limits<double>::infinity(), site), 1, true, site);
  takes_part = take_along_axis(takes_part, order, 1, IndexMode::raise, site);
  if (a.topk > 0) {
    const NDArray place = arange(0, static_cast<double>(n), 1, {.dtype = int64, .device = data.device()}, site);
    takes_part = logical_and(takes_part, less(place, a.topk, site), site);
  }
  NDArray boxes = rows_at(numbers(plain, a.coord_start, a.coord_start + 4, site), order, site);
  if (a.in_center)
    boxes = turned(boxes, false, site);
  std::vector<NDArray> of_mask{boxes, takes_part};
  if (a.id_index >= 0 && !a.force_suppress)
    of_mask.push_back(take_along_axis(number(a.id_index), order, 1, IndexMode::raise, site));
  const NDArray kept = mask_of(of_mask, a.overlap_thresh, site);
  const NDArray first = argsort(kept.astype(uint8, site), 1, true, site);
  NDArray rows = rows_at(all, take_along_axis(order, first, 1, IndexMode::raise, site), site);
  if (a.in_center != a.out_center) {
    const std::int64_t begin = a.coord_start, end = begin + 4;
    const NDArray place = turned(numbers(rows, begin, end, site), a.out_center, site);
    rows = concat({numbers(rows, 0, begin, site), place, numbers(rows, end, shape.back(), site)}, 2, site);
  }
  const NDArray remains = take_along_axis(kept, first, 1, IndexMode::raise, site).expand_dims(2, site);
  return {where(remains, rows, -1, site).reshape(shape, site)};
}

}  // namespace

namespace detail {

constinit const Operator k_nms_mask{
    .name = "nms_mask",
    .inputs = -1,
    .attributes = &attribute_type<NmsAttributes>,
    .infer = infer_mask,
    .kernels = {on_cpu(nms_mask_cpu), on_gpu(SLUICE_GPU_KERNEL(nms_mask_gpu))},
};
constinit const Operator k_box_nms{
    .name = "box_nms",
    .attributes = &attribute_type<BoxNmsAttributes>,
    .infer = infer_box_nms,
    .composition = suppress,
};

}  // namespace detail

NDArray box_nms(const NDArray& data, const BoxNmsOptions& o, SourceLocation site) {
  const BoxNmsAttributes how{
      o.overlap_thresh,
      o.valid_thresh,
      o.topk,
      o.coord_start,
      o.score_index,
      o.id_index,
      o.background_id,
      o.force_suppress,
      o.in_format == BoxFormat::center,
      o.out_format == BoxFormat::center};
  return invoke_one(detail::k_box_nms, {data}, Attributes::of(how), site);
}

NDArray nms(
    const NDArray& boxes, const NDArray& scores, double iou_threshold, const NDArray& ids, SourceLocation site) {
  require<DTypeError>(is_floating(boxes.dtype()) && is_floating(scores.dtype()), [&] {
    return message("nms: takes floating types, not ", boxes.dtype(), " and ", scores.dtype());
  });
  const bool fits = boxes.ndim() == 2 && boxes.shape()[1] == 4 && scores.shape() == Shape{boxes.shape()[0]};
  require<ShapeError>(fits && (!ids.defined() || ids.shape() == scores.shape()), [&] {
    return message(
        "nms: boxes are (N, 4), scores (N,) and ids so too, not ",
        boxes.shape(),
        ", ",
        scores.shape(),
        ids.defined() ? message(" and ", ids.shape()) : std::string());
  });
  const DType wide = detail::wide_type(boxes.dtype());
  const NDArray order = argsort(scores.detach(), 0, true, site), all = boxes.detach().astype(wide, site);
  const ArrayOptions flags{.dtype = bool_, .device = boxes.device()};
  std::vector<NDArray> inputs{take(all, order, 0, IndexMode::raise, site).expand_dims(0, site)};
  inputs.push_back(ones({1, scores.shape()[0]}, flags, site));
  if (ids.defined()) {
    require<DTypeError>(
        is_integer(ids.dtype()), [&] { return message("nms: ids are of an integer type, not ", ids.dtype()); });
    // Their places among all, as floats, which do not tell large numbers apart.
    const NDArray ranks = searchsorted(sort(ids, 0, false, site), ids, false, site);
    inputs.push_back(take(ranks, order, 0, IndexMode::raise, site).astype(wide, site).expand_dims(0, site));
  }
  return boolean_mask(order, mask_of(inputs, iou_threshold, site).squeeze(0, site), site);
}

}  // namespace sluice
