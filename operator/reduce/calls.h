#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <sluice/operator/operator.h>
#include <sluice/operator/reduce/rows.h>

namespace sluice::detail {

/// A call of a row of reduce.def, whatever the row, in its normal form.
struct ReductionCall {
  Reduction row = Reduction::sum;
  Shape axes = {};
  bool keepdims = false;
  std::int64_t ddof = 0;
};

/// None where no row has that name.
std::optional<Reduction> row_named(std::string_view name) noexcept;
const Operator& operator_of(Reduction row) noexcept;
/// Whether there are kernels of the row for elements of that type: others are cast first.
bool reads(Reduction row, DType dtype) noexcept;
/// Whether the row is told `ddof`.
bool takes_ddof(Reduction row) noexcept;

/// None for operators that are no rows.
std::optional<ReductionCall> reduction_call(const Operator& op, const Attributes& attributes);
/// The attributes of its operator.
Attributes attributes_of(const ReductionCall& reduction);

/// The kernel of the row on a CPU, of terms that `made` gives: of the input of `call` only type, shape and strides,
/// which are row by row, are looked at. `made` is not null where there are terms.
void reduce_made_on_cpu(const ReductionCall& reduction, const KernelCall& call, const MadeTerms* made);
/// The same on a GPU, of terms that fit_32_bits().
void reduce_made_on_gpu(const ReductionCall& reduction, const KernelCall& call, const MadeOnGpu* made);

}  // namespace sluice::detail
