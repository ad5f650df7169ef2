#pragma once

#include <optional>

#include <sluice/operator/operator.h>

namespace sluice::detail {

/// reshape: the new shape, in which one extent may be -1. broadcast_to: the new shape; -1 keeps what the array has
/// there. transpose: the order of axes, which may be negative; none turns it round.
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

/// What subscripts say of the first axes: of each begin, end and step as of a slice, or with a step of 0 that the entry
/// `begin` is taken and the axis disappears.
struct SubscriptAttributes {
  Shape begin, end, step;

  template <class V>
  void visit(V&& v) {
    v.field("begin", begin);
    v.field("end", end);
    v.field("step", step);
  }
};

/// Of index_assign: the view that subscripts say, its axes in another order (-1: one of extent 1 that it does not
/// have), and the first of those that numbers name entries of.
struct IndexAssignAttributes : SubscriptAttributes {
  Shape order;
  std::int64_t axis = 0;
  const char* asked = nullptr;  // what the program called, which errors name

  template <class V>
  void visit(V&& v) {
    SubscriptAttributes::visit(v);
    v.field("order", order);
    v.field("axis", axis);
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

/// `axis` of the view becomes what a slice of it is; `op` is named in errors.
void slice_axis(const char* op, Geometry& view, int axis, std::int64_t begin, std::int64_t end, std::int64_t step);
/// What subscripts name of an array that lies so; `op` is named in errors. Throws IndexError, ValueError.
Geometry subscripted(const char* op, const Geometry& input, const SubscriptAttributes& attributes);
/// Of the gradient of a view, made of dy and an array of the shape that was looked at: zeros, but for dy where the view
/// was.
Specs infer_unsliced(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes, ViewOf view);
void issue_unsliced(const IssueCall& call, ViewOf view);

/// A view of one array, recorded.
NDArray invoke_view(const Operator& op, const NDArray& input, Attributes attributes, SourceLocation site);

// Lists for the registry.
extern const Operator k_reshape, k_transpose, k_slice, k_unslice, k_broadcast_to, k_broadcast_like, k_expand_dims;
extern const Operator k_squeeze, k_detach;
extern const Operator k_slice_axes, k_unslice_axes, k_slice_assign;
extern const Operator k_cast, k_to_device, k_copy;
/// A copy that lies on a GPU as convolutions on tensor cores want it.
extern const Operator k_channels_last;
extern const Operator k_fill, k_full, k_arange;

}  // namespace sluice::detail
