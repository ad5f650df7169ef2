#pragma once

// The rows of reduce.def as C++: an enumerator and its traits each.
#include <cstddef>
#include <cstdint>

#include <sluice/operator/elementwise/rows.h>
#include <sluice/operator/reduce/made_terms.h>
#include <sluice/operator/reduce/plan.h>
#include <sluice/operator/reduce/states.h>

namespace sluice {

enum class Reduction : std::uint8_t {
#define REDUCTION(name, ...) name,
#include <sluice/operator/reduce/reduce.def>
#undef REDUCTION
};

/// Which types a row takes and gives, and whether there must be terms; see the head of reduce.def.
enum class ReduceTypes : std::uint8_t { kept, whole, exact, real, count, truth };
enum class OfNothing : std::uint8_t { start, refused };

}  // namespace sluice

namespace sluice::detail {

// What a row may be told: its attributes.
struct ReduceParameters {
  using none = ReduceAttributes;
  using ddof = MomentAttributes;
};

template <Reduction row>
struct ReductionRow;

#define REDUCTION(row, row_types, of_nothing, parameter, state_of_terms, derivative, row_uses, ...) \
  template <>                                                                                       \
  struct ReductionRow<Reduction::row> {                                                             \
    static constexpr const char* name = #row;                                                       \
    static constexpr ReduceTypes types = ReduceTypes::row_types;                                    \
    static constexpr OfNothing nothing = OfNothing::of_nothing;                                     \
    static constexpr Uses uses = row_uses;                                                          \
    using Attributes = ReduceParameters::parameter;                                                 \
    template <class T>                                                                              \
    static auto state([[maybe_unused]] double terms, [[maybe_unused]] double ddof) {                \
      return state_of_terms;                                                                        \
    }                                                                                               \
  };
#include <sluice/operator/reduce/reduce.def>
#undef REDUCTION

/// Whether a kernel of the row is given elements of type T: other types of `real` rows were cast.
template <Reduction row, class T>
inline constexpr bool k_reads = ReductionRow<row>::types != ReduceTypes::real || !std::is_integral_v<T>;

/// What of a call its kernels are told, whatever the row.
struct ReduceSettings {
  Shape axes;
  double terms = 1;
  double ddof = 0;
  const MadeTerms* made = nullptr;  // set, on a CPU: what the terms are in place of the input's elements
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
