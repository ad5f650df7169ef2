#include <algorithm>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/element_size.h>
#include <sluice/operator/gather/entries_cpu.h>
#include <sluice/operator/gather/sequence_walk.h>

namespace sluice::detail {

void sequence_cpu(const KernelCall& call, const TensorView& x, const SequenceRun& run) {
  const SequenceWalk& walk = run.walk;
  by_element_size(size_of(x.dtype), [&]<class U>() {
    const U* const from = x.as<const U>();
    U* const to = call.outputs[0].as<U>();
    parallel_for(walk.rows(), grain_of(run.inner), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t i = walk.sequence_of(row), source = walk.from(row, i);
        require<IndexError>(source != SequenceWalk::k_fault, [&] {
          return message(
              call.op.name, ": length ", walk.length_of(i), " of sequence ", i, ", of ", walk.steps, " steps at most");
        });
        U* const at = to + row * run.inner;
        if (source < 0)
          std::fill_n(at, run.inner, static_cast<U>(run.fill));
        else
          std::copy_n(from + source * run.inner, run.inner, at);
      }
    });
  });
}

}  // namespace sluice::detail
