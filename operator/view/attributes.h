#pragma once

#include <sluice/operator/operator.h>

namespace sluice::detail {

/// reshape, broadcast_to: the new shape. transpose: the order of axes.
struct ShapeAttribute {
  Shape shape;

  template <class V>
  void visit(V&& v) {
    v.field("shape", shape);
  }
};

/// Entries begin, begin + step, ... of an axis, `count` of them.
struct SliceAttributes {
  std::int64_t axis = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t step = 1;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("begin", begin);
    v.field("count", count);
    v.field("step", step);
  }
};

struct TypeAttribute {
  DType dtype = DType::float32;

  template <class V>
  void visit(V&& v) {
    v.field("dtype", dtype);
  }
};

struct DeviceAttribute {
  Device device = cpu();

  template <class V>
  void visit(V&& v) {
    v.field("device", device);
  }
};

/// A view of one array, recorded.
NDArray invoke_view(const Operator& op, const NDArray& input, Attributes attributes, SourceLocation site);

// Lists for the registry.
extern const Operator k_reshape, k_transpose, k_slice, k_unslice, k_broadcast_to;
extern const Operator k_cast, k_to_device, k_copy;

}  // namespace sluice::detail
