#pragma once

#include <sluice/operator/operator.h>

// The kernels and constants of this family; the registry lists the constants.
namespace sluice {

extern const Operator k_concat, k_split;

namespace detail {

struct ConcatAttributes {
  std::int64_t axis = 0;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
  }
};

void concat_cpu(const KernelCall& call);
void concat_gpu(const KernelCall& call);

}  // namespace detail
}  // namespace sluice
