#pragma once

// What the host's half of the reductions knows of the rows of reduce.def.
#include <cstddef>
#include <cstdint>

#include <sluice/operator/reduce/made_terms.h>
#include <sluice/operator/reduce/plan.h>
#include <sluice/operator/reduce/row_states.h>

namespace sluice::detail {

class MadeOnGpu;

/// Whether a kernel of the row is given elements of type T: other types of `real` rows were cast.
template <Reduction row, class T>
inline constexpr bool k_reads = ReductionRow<row>::types != ReduceTypes::real || !std::is_integral_v<T>;

/// What of a call its kernels are told, whatever the row.
struct ReduceSettings {
  Shape axes;
  double terms = 1;
  double ddof = 0;
  // Set: what the terms are in place of the input's elements, on a CPU and on a GPU.
  const MadeTerms* made = nullptr;
  const MadeOnGpu* made_on_gpu = nullptr;
};

/// The same loops for every row that keeps its terms in the same type T: one file a type, or a few.
template <class T>
void reduce_type_on_cpu(Reduction row, const KernelCall& call, const ReduceSettings& settings);
template <class T>
void reduce_type_on_gpu(Reduction row, const KernelCall& call, const ReduceSettings& settings);

/// Calls f(state) with the state of the row for T. Nothing for types that its kernels are not given.
template <class T, class F>
void with_state(Reduction row, const ReduceSettings& settings, const F& f) {
  switch (row) {
#define REDUCTION(name, ...)                                                              \
  case Reduction::name:                                                                   \
    if constexpr (k_reads<Reduction::name, T>)                                            \
      f(ReductionRow<Reduction::name>::template state<T>(settings.terms, settings.ddof)); \
    break;
#include <sluice/operator/reduce/reduce.def>
#undef REDUCTION
  }
}

}  // namespace sluice::detail
