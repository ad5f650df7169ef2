#pragma once

#include <optional>

#include <sluice/operator/operator.h>

namespace sluice::detail {

/// reshape: the new shape, in which one extent may be -1. broadcast_to: the new shape; -1 keeps what the array has
/// there. transpose: the order of axes, which may be negative.
struct ShapeAttribute {
  Shape shape;

  template <class V>
  void visit(V&& v) {
    v.field("shape", shape);
  }
};

/// Entries begin, begin + step, ... < end of an axis, with a negative step > end; negative begin and end count from the
/// back, all are clipped (NumPy).
struct SliceAttributes {
  std::int64_t axis = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("begin", begin);
    v.field("end", end);
    v.field("step", step);
  }
};

struct AxisAttribute {
  std::int64_t axis = 0;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
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

/// Of copy: another type or place, if any.
struct CopyAttributes {
  std::optional<DType> dtype;
  std::optional<Device> device;

  template <class V>
  void visit(V&& v) {
    v.field("dtype", dtype);
    v.field("device", device);
  }
};

/// A view of one array, recorded.
NDArray invoke_view(const Operator& op, const NDArray& input, Attributes attributes, SourceLocation site);

// Lists for the registry.
extern const Operator k_reshape, k_transpose, k_slice, k_unslice, k_broadcast_to, k_broadcast_like, k_expand_dims;
extern const Operator k_squeeze, k_detach;
extern const Operator k_cast, k_to_device, k_copy;
/// A copy that lies on a GPU as convolutions on tensor cores want it.
extern const Operator k_channels_last;
extern const Operator k_fill, k_full, k_arange;

}  // namespace sluice::detail
