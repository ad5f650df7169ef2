#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/resize/resize.h>

namespace sluice {

/// Of box_nms(); what an index is counts from 0 along the last axis of data.
struct BoxNmsOptions {
  double overlap_thresh = 0.5;  // a box that overlaps one of a higher score by more goes
  double valid_thresh = 0;      // boxes whose score is not above it take no part
  std::int64_t topk = -1;       // of all that take part the best; below 1: all
  std::int64_t coord_start = 2;
  std::int64_t score_index = 1;
  std::int64_t id_index = -1;       // of classes: boxes of different ones leave each other alone; -1: none
  std::int64_t background_id = -1;  // boxes of that class take no part; -1: none
  bool force_suppress = false;      // whatever their classes are
  BoxFormat in_format = BoxFormat::corner, out_format = BoxFormat::corner;
};

/// Boxes without those that a better one overlaps (MXNet contrib.box_nms): data (.., N, K), K numbers a box, four of
/// them its place; overlaps are those of box_iou(). Gives data's shape: what remains in order of scores, equal ones as
/// they stood, then rows of -1. Scores that are NaN take no part. Floating types, compared in float32 or float64; the
/// gradient goes to the boxes that remain. Throws ShapeError, DTypeError, ValueError for an index outside the last
/// axis.
SLUICE_API NDArray
box_nms(const NDArray& data, const BoxNmsOptions& options = {}, SourceLocation site = SourceLocation::current());

/// Which boxes (N, 4) in corner format remain, in order of their scores (N,): indices (int64) as torchvision.ops.nms
/// gives them, and batched_nms where `ids` (N,), of an integer type, says classes. Waits: it looks at how many there
/// are. Throws ShapeError, DTypeError, ValueError while a program is traced.
SLUICE_API NDArray
nms(const NDArray& boxes,
    const NDArray& scores,
    double iou_threshold = 0.5,
    const NDArray& ids = {},
    SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator k_box_nms, k_nms_mask;
}  // namespace detail

}  // namespace sluice
