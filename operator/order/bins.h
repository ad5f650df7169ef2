#pragma once

#include <cstdint>

#include <sluice/operator/operator.h>

namespace sluice::detail {

struct BincountAttributes {
  std::int64_t bins = 0;

  template <class V>
  void visit(V&& v) {
    v.field("bins", bins);
  }
};

void bincount_cpu(const KernelCall& call);
void bincount_gpu(const KernelCall& call);

}  // namespace sluice::detail
