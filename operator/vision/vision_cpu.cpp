#include <algorithm>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating_array.h>
#include <sluice/operator/vision/nms_walk.h>

namespace sluice::detail {

void nms_mask_cpu(const KernelCall& call) {
  by_computing_type(call.inputs[0].dtype, [&]<class C>() {
    const auto walk = nms_walk<C>(call);
    parallel_for(walk.batch, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t of = begin; of < end; ++of) {
        bool* const kept = walk.kept + of * walk.n;
        std::copy_n(walk.takes_part + of * walk.n, walk.n, kept);
        for (std::int64_t i = 0; i < walk.n; ++i) {
          for (std::int64_t j = i + 1; kept[i] && j < walk.n; ++j)
            kept[j] = kept[j] && !walk.ends(of, i, j);
        }
      }
    });
  });
}

}  // namespace sluice::detail
