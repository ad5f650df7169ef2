#pragma once

// Which boxes overlap, the same on CPU and GPU.
#include <cstdint>

#include <sluice/operator/operator.h>

namespace sluice::detail {

/// Of nms_mask: boxes (B, N, 4) in order of their scores, which take part (bool), and classes if there are any.
struct NmsAttributes {
  double threshold = 0.5;

  template <class V>
  void visit(V&& v) {
    v.field("threshold", threshold);
  }
};

template <class C>
struct NmsWalk {
  const C* boxes;
  const bool* takes_part;
  const C* ids;  // null: all alike
  bool* kept;
  std::int64_t batch, n;
  C threshold;

  SLUICE_HD static C positive(C x) { return x > 0 ? x : C(0); }
  SLUICE_HD static C area(const C* box) { return positive(box[2] - box[0]) * positive(box[3] - box[1]); }
  /// The part that two boxes share along an axis.
  SLUICE_HD static C shared(const C* a, const C* b, int axis) {
    const C low = a[axis] > b[axis] ? a[axis] : b[axis];
    return positive((a[axis + 2] < b[axis + 2] ? a[axis + 2] : b[axis + 2]) - low);
  }

  SLUICE_HD const C* box(std::int64_t of, std::int64_t i) const { return boxes + (of * n + i) * 4; }
  SLUICE_HD bool are_alike(std::int64_t of, std::int64_t i, std::int64_t j) const {
    return ids == nullptr || ids[of * n + i] == ids[of * n + j];
  }
  SLUICE_HD bool overlap(const C* a, const C* b) const {
    const C both = shared(a, b, 0) * shared(a, b, 1), covered = area(a) + area(b) - both;
    return covered > 0 && both / covered > threshold;
  }
  /// Does box i of a batch end box j behind it?
  SLUICE_HD bool ends(std::int64_t of, std::int64_t i, std::int64_t j) const {
    return are_alike(of, i, j) && overlap(box(of, i), box(of, j));
  }
};

template <class C>
NmsWalk<C> nms_walk(const KernelCall& call) {
  const TensorView &boxes = call.inputs[0], &kept = call.outputs[0];
  const C* const ids = call.inputs.size() > 2 ? call.inputs[2].as<const C>() : nullptr;
  const auto threshold = static_cast<C>(call.attributes.as<NmsAttributes>().threshold);
  const bool* const takes_part = call.inputs[1].as<const bool>();
  return {boxes.as<const C>(), takes_part, ids, kept.as<bool>(), kept.shape[0], kept.shape[1], threshold};
}

// boxes, which take part, maybe ids -> which remain
void nms_mask_cpu(const KernelCall& call);
void nms_mask_gpu(const KernelCall& call);

}  // namespace sluice::detail
