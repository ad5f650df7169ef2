#pragma once

#include <cstdint>

#include <sluice/operator/index_value.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// spread: the gradient of last.
enum class SequenceKind : std::uint8_t { mask, reverse, last, spread };

struct SequenceAttributes {
  std::int64_t axis = 0;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
  }
};
struct SequenceMaskAttributes : SequenceAttributes {
  Scalar value = 0;

  template <class V>
  void visit(V&& v) {
    SequenceAttributes::visit(v);
    v.field("value", value);
  }
};

/// Where rows of a result are from; a row is what lies behind steps and batch.
struct SequenceWalk {
  static constexpr std::int64_t k_hole = -1, k_fault = -2;

  const void* lengths;
  DType dtype;
  SequenceKind kind;
  bool steps_first;
  std::int64_t steps, batch;

  SLUICE_HD std::int64_t rows() const noexcept { return kind == SequenceKind::last ? batch : steps * batch; }
  SLUICE_HD std::int64_t row_of(std::int64_t step, std::int64_t i) const noexcept {
    return steps_first ? step * batch + i : i * steps + step;
  }
  SLUICE_HD std::int64_t sequence_of(std::int64_t row) const noexcept {
    return kind == SequenceKind::last ? row : steps_first ? row % batch : row / steps;
  }
  SLUICE_HD std::int64_t length_of(std::int64_t i) const noexcept { return load_index(lengths, dtype, i); }
  /// The row that result row `row`, of sequence i, is; k_hole for none, k_fault where the length cannot be.
  SLUICE_HD std::int64_t from(std::int64_t row, std::int64_t i) const noexcept {
    const std::int64_t length = length_of(i);
    const bool needs_one = kind == SequenceKind::last || kind == SequenceKind::spread;
    if (kind != SequenceKind::mask && (length < (needs_one ? 1 : 0) || length > steps))
      return k_fault;
    if (kind == SequenceKind::last)
      return row_of(length - 1, i);
    const std::int64_t step = steps_first ? row / batch : row % steps;
    if (kind == SequenceKind::spread)
      return step == length - 1 ? i : k_hole;
    if (kind == SequenceKind::reverse)
      return step < length ? row_of(length - 1 - step, i) : row;
    return step < length ? row : k_hole;
  }
};

/// One run, whatever the kind. `fill`: the bits of an element that stands in holes.
struct SequenceRun {
  SequenceWalk walk;
  std::int64_t inner;
  std::uint64_t fill = 0;
};

void sequence_cpu(const KernelCall& call, const TensorView& x, const SequenceRun& run);
void sequence_gpu(const KernelCall& call, const TensorView& x, const SequenceRun& run);

}  // namespace sluice::detail
