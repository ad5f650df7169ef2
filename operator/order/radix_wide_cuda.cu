#include <sluice/operator/order/radix_cuda.cuh>

namespace sluice::detail {

void radix_order_wide(const OrderCall& order, const KernelCall& call) {
  radix_order<std::uint64_t>(order, call);
}

}  // namespace sluice::detail
