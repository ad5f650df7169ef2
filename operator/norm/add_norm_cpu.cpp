// By the parts: nothing is read less often for it.
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/norm/add_norm.h>
#include <sluice/operator/norm/layer_norm_cpu.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

// Any of the three may lie where another does.
template <class T>
void add_elements(const T* a, const T* b, T* sum, std::int64_t size) {
  using C = Compute<T>;
  parallel_for(size, k_norm_grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      sum[i] = T(static_cast<C>(a[i]) + static_cast<C>(b[i]));
  });
}

}  // namespace

void add_norm_cpu(const KernelCall& call) {
  const TensorView &a = call.inputs[0], &sum = call.outputs.back();
  TensorView b = call.inputs[1];
  const bool widens = b.dtype != a.dtype;
  const Workspace wide(call.queue, widens ? sizeof(float) * static_cast<std::size_t>(b.size) : 0);
  if (widens) {
    widen_elements(b, wide.as<float>());
    b.data = wide.data();
  }
  by_floating(a.dtype, [&]<class T>() { add_elements(a.as<const T>(), b.as<const T>(), sum.as<T>(), sum.size); });
  std::vector<TensorView> inputs(call.inputs.begin() + 1, call.inputs.end());
  inputs[0] = sum;
  KernelCall norm = call;
  norm.inputs = inputs;
  norm.outputs = call.outputs.first(call.outputs.size() - 1);
  row_norm_cpu(norm);
}

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
  by_floating(
      sum.dtype, [&]<class T>() { add_elements(workspace.as<const T>(), other.as<const T>(), sum.as<T>(), sum.size); });
  if (rounds)
    round_elements(sum.as<float>(), call.outputs.back());
}

}  // namespace sluice::detail
