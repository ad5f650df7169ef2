#pragma once

#include <sluice/operator/operator.h>
#include <sluice/operator/reduce/plan.h>

// The kernels of this family that are no rows of reduce.def.
namespace sluice::detail {

void argmax_cpu(const KernelCall& call);
void argmin_cpu(const KernelCall& call);
void argmax_gpu(const KernelCall& call);
void argmin_gpu(const KernelCall& call);

}  // namespace sluice::detail
