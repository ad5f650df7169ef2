#pragma once

// The rows of reduce.def as C++, as far as kernels need them: an enumerator, and the state that terms are added up in.
#include <cstdint>

#include <sluice/operator/elementwise/rows.h>
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

struct ReduceAttributes;
struct MomentAttributes;

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

}  // namespace sluice::detail
