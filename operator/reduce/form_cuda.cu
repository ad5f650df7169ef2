// Which kernel takes a reduction, and in how many pieces.
#include <algorithm>
#include <cstdint>

#include <sluice/operator/group.cuh>
#include <sluice/operator/reduce/form.h>
#include <sluice/operator/reduce/reduce_cuda.cuh>

namespace sluice::detail {

namespace {

bool is_rows(const ReducePlan& plan) {
  return plan.kept.ndim == 1 && plan.reduced.ndim == 1 && plan.reduced.inner_stride(0) == 1;
}
bool is_columns(const ReducePlan& plan) {
  return plan.columns() && plan.kept.ndim <= 2 && plan.reduced.ndim == 1;
}
bool begins_at_multiple(const void* x, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(x) % bytes == 0;
}

// Terms come in runs of neighbours that are whole vectors.
bool in_vectors(const ReducePlan& plan, const void* x, int V) {
  const StridedPlan<1>& reduced = plan.reduced;
  const int inner = reduced.ndim - 1;
  bool fit = begins_at_multiple(x, 16) && reduced.strides[0][inner] == 1 && reduced.extents[inner] % V == 0;
  for (int axis = 0; axis < inner; ++axis)
    fit = fit && reduced.strides[0][axis] % V == 0;
  for (int axis = 0; axis < plan.kept.ndim; ++axis)
    fit = fit && plan.kept.strides[1][axis] % V == 0;
  return fit;
}

Split split_of(std::int64_t units, std::int64_t terms, std::int64_t smallest_chunk) {
  Split split = split_terms(units, terms, 1024, smallest_chunk);
  if (split.pieces > 1) {
    // Whole vectors: every piece starts aligned.
    split.chunk = (split.chunk + 15) / 16 * 16;
    split.pieces = (terms + split.chunk - 1) / split.chunk;
  }
  return split;
}

ReduceForm in_groups(ReduceForm form, const ReducePlan& plan, std::int64_t terms, std::int64_t smallest_chunk) {
  form.split = split_of(plan.outputs(), terms, smallest_chunk);
  form.units = plan.outputs() * form.split.pieces;
  form.blocks = blocks_for_groups(form.units, form.width);
  return form;
}

ReduceForm of_rows(const ReducePlan& plan, const void* x, int V) {
  const bool aligned = begins_at_multiple(x, 16) && plan.kept.inner_stride(1) % V == 0;
  const ReduceForm form{
      .walk = ReduceWalk::rows, .vector = aligned ? V : 1, .width = row_width(plan.outputs(), plan.terms())};
  return in_groups(form, plan, plan.terms(), 16384);
}

ReduceForm of_columns(const ReducePlan& plan, const void* x, std::size_t bytes) {
  const ColumnShape shape = columns_of(plan);
  const int V = bytes == 2 ? 2 : 1;
  const bool in_vectors = begins_at_multiple(x, bytes * static_cast<std::size_t>(V)) && shape.columns % V == 0 &&
                          shape.step % V == 0 && shape.outer_step % V == 0;
  ReduceForm form{.walk = ReduceWalk::columns, .vector = in_vectors ? V : 1, .width = k_warp};
  // The cut is the same however many columns a thread takes, and with it the bits of the result.
  form.split = split_of(shape.outer * shape.tiles(1), plan.terms(), 256);
  form.units = shape.outer * shape.tiles(form.vector) * form.split.pieces;
  form.blocks = static_cast<unsigned>(std::min<std::int64_t>(form.units, 1 << 20));
  return form;
}

}  // namespace

ReduceForm form_of(const ReducePlan& plan, const void* x, std::size_t bytes, bool by_layout, bool placed) {
  if (plan.terms() == 0 || plan.outputs() == 0)
    return {};
  const int V = static_cast<int>(16 / bytes);
  if (by_layout && is_rows(plan))
    return of_rows(plan, x, V);
  if (by_layout && is_columns(plan))
    return of_columns(plan, x, bytes);
  // Places have one axis, so no planes to read in vectors.
  const int vector = by_layout && !placed && in_vectors(plan, x, V) ? V : 1;
  const std::int64_t terms = plan.terms() / vector;
  const ReduceForm form{.walk = ReduceWalk::general, .vector = vector, .width = group_width(terms)};
  return in_groups(form, plan, terms, 16384 / vector);
}

ReduceForm form_of_row(Reduction row, const TensorView& x, const Shape& axes) {
  bool by_layout = true;
  with_state<float>(row, {}, [&](const auto& op) { by_layout = k_by_layout<std::remove_cvref_t<decltype(op)>>; });
  return form_of(plan_reduce(x, axes), x.data, size_of(x.dtype), by_layout, false);
}

}  // namespace sluice::detail
