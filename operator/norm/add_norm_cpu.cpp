// By the parts: nothing is read less often for it.
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/norm/add_norm.h>
#include <sluice/operator/norm/layer_norm_cpu.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

void add_norm_backward_cpu(const KernelCall& call) {
  const TensorView& other = call.inputs.back();
  const TensorView& sum = call.outputs[0];
  const bool rounds = call.attributes.as<LayerNormAttributes>().result.has_value();
  // The sum may lie where the other gradient does.
  const Workspace workspace(call.queue, static_cast<std::size_t>(sum.size) * size_of(sum.dtype));
  std::vector<TensorView> outputs(call.outputs.begin(), call.outputs.end() - (rounds ? 1 : 0));
  outputs[0].data = workspace.data();
  KernelCall norm = call;
  norm.inputs = call.inputs.first(call.inputs.size() - 1);
  norm.outputs = outputs;
  row_norm_backward_cpu(norm);
  by_floating(sum.dtype, [&]<class T>() {
    using C = Compute<T>;
    const T *dx = workspace.as<T>(), *added = other.as<const T>();
    T* const to = sum.as<T>();
    parallel_for(sum.size, k_norm_grain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        to[i] = T(static_cast<C>(dx[i]) + static_cast<C>(added[i]));
    });
  });
  if (rounds)
    round_elements(sum.as<float>(), call.outputs.back());
}

}  // namespace sluice::detail
