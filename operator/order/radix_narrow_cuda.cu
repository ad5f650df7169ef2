#include <sluice/operator/order/radix_cuda.cuh>

namespace sluice::detail {

void radix_sort(const KernelCall& call, const RadixSort<std::uint32_t>& sort) {
  sort_by_radix(call, sort);
}

void radix_order_narrow(const OrderCall& order, const KernelCall& call) {
  radix_order<std::uint32_t>(order, call);
}

}  // namespace sluice::detail
