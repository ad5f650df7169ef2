#pragma once

#include <cstdint>

#include <sluice/operator/operator.h>

// Entries of an axis by their places, an array of the other axes' extents: what gradients of orders and of largest
// entries so far are made of. The registry lists the constants.
namespace sluice {

/// x, places -> y: entry i of y, along the axis, is entry places[i] of x. Places are from 0 to the extent of the axis.
extern const Operator k_take_places;
/// places, dy, x (shape alone) -> dx, the gradient of that: where no place stands twice in a row of the axis.
extern const Operator k_put_places;

/// A row of truths -> the places of those that are true, of which there are `count`. Where there are not: ValueError on
/// a CPU; on a GPU, which nobody waits for, the first of them, behind too few the row's extent.
extern const Operator k_true_places;
/// A row and as many truths -> the entries beside those that are true, counted as above.
extern const Operator k_true_entries;

/// A sorted row -> which entries are not the one before (bool): zeros are one, NaNs too.
extern const Operator k_run_begins;

namespace detail {

struct TruePlacesAttributes {
  std::int64_t count = 0;

  template <class V>
  void visit(V&& v) {
    v.field("count", count);
  }
};

/// `runs`: equal places stand side by side, and there are as many as entries; otherwise none stands twice.
struct PlacesAttributes {
  std::int64_t axis = 0;
  bool runs = false;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("runs", runs);
  }
};

/// Throws DTypeError unless they are integers, ShapeError where other axes differ from those of x.
void check_places(const Operator& op, const ArraySpec& places, const Shape& x, int axis);

void take_places_cpu(const KernelCall& call);
void take_places_gpu(const KernelCall& call);
void put_places_cpu(const KernelCall& call);
void put_places_gpu(const KernelCall& call);
void true_places_cpu(const KernelCall& call);
void true_places_gpu(const KernelCall& call);
void true_entries_gpu(const KernelCall& call);
void run_begins_gpu(const KernelCall& call);

}  // namespace detail
}  // namespace sluice
