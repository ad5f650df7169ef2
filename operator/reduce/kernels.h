#pragma once

#include <sluice/operator/operator.h>
#include <sluice/operator/reduce/plan.h>

// The kernels and constants of this family; the registry lists the constants.
namespace sluice {

extern const Operator k_sum, k_mean, k_prod, k_max, k_min, k_argmax, k_argmin;

namespace detail {

void sum_cpu(const KernelCall& call);
void mean_cpu(const KernelCall& call);
void prod_cpu(const KernelCall& call);
void max_cpu(const KernelCall& call);
void min_cpu(const KernelCall& call);
void argmax_cpu(const KernelCall& call);
void argmin_cpu(const KernelCall& call);

void sum_gpu(const KernelCall& call);
void mean_gpu(const KernelCall& call);
void prod_gpu(const KernelCall& call);
void max_gpu(const KernelCall& call);
void min_gpu(const KernelCall& call);
void argmax_gpu(const KernelCall& call);
void argmin_gpu(const KernelCall& call);

}  // namespace detail
}  // namespace sluice
