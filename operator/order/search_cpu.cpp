#include <sluice/engine/parallel.h>
#include <sluice/operator/order/search.h>

namespace sluice::detail {

void searchsorted_cpu(const KernelCall& call) {
  by_key(call.inputs[0].dtype, [&]<class U>() {
    const Search<U> search(call);
    parallel_for(call.outputs[0].size, 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        search.find(i);
    });
  });
}

}  // namespace sluice::detail
