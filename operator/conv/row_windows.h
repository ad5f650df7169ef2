#pragma once

#include <cstdint>

#include <sluice/operator/operator.h>

namespace sluice::detail {

/// Of unfold_rows: windows along the third axis of (N, C, rows, width), as (N, windows, C, taps, width).
struct RowWindows {
  std::int64_t kernel = 1, stride = 1, dilation = 1;
  Shape pad{0, 0};  // in front and behind

  template <class V>
  void visit(V&& v) {
    v.field("kernel", kernel);
    v.field("stride", stride);
    v.field("dilation", dilation);
    v.field("pad", pad);
  }
};

/// Of fold_rows, which adds windows up to (N, C, rows, width).
struct RowSums : RowWindows {
  std::int64_t rows = 1;

  template <class V>
  void visit(V&& v) {
    v.field("rows", rows);
    RowWindows::visit(v);
  }
};

extern const Operator k_unfold_rows, k_fold_rows;

}  // namespace sluice::detail
