// What runs where: a kernel that adds while it normalises, or otherwise the parts one after the other.
#include <vector>

#include <sluice/operator/norm/add_norm.h>
#include <sluice/operator/norm/layer_norm_sum_cuda.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

// Two arrays that may lie where the sum goes; of the sum's type T, or of a half type beside float32.
template <class T>
struct Addition {
  const T* a;
  const void* b;
  DType b_type;
  T* sum;
  void* rounded;  // null: not wanted
  DType half;
};

template <class T>
__global__ void __launch_bounds__(k_block) add_kernel(Addition<T> of, std::int64_t size) {
  using C = Compute<T>;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
    Neighbours<T, 1> values;
    load_raw(values, of.b, of.b_type, i);
    widen_raw(values, of.b_type);
    values.at[0] = static_cast<T>(static_cast<C>(of.a[i]) + static_cast<C>(values.at[0]));
    of.sum[i] = values.at[0];
    if (of.rounded != nullptr)
      store_as(of.rounded, of.half, i, values);
  }
}

template <class T>
void launch_addition(const KernelCall& call, const Addition<T>& of, std::int64_t size) {
  if (size == 0)
    return;
  add_kernel<<<blocks_for(size), k_block, 0, stream_of(call.queue)>>>(of, size);
  check_launch(call.op.name);
}

}  // namespace

void add_norm_gpu(const KernelCall& call) {
  const TensorView &a = call.inputs[0], &b = call.inputs[1], &sum = call.outputs.back();
  std::vector<TensorView> inputs(call.inputs.begin() + 1, call.inputs.end());
  inputs[0] = sum;
  KernelCall call_of_norm = call;
  call_of_norm.inputs = inputs;
  call_of_norm.outputs = call.outputs.first(call.outputs.size() - 1);
  const NormForward norm(call_of_norm);
  if (norm.dtype == DType::float32) {
    const NormAddends of{a.as<const float>(), b.data, b.dtype, sum.as<float>()};
    if (norm.rows.centred ? centred_sums_gpu(norm, of, call.queue) : uncentred_sums_gpu(norm, of, call.queue))
      return;
  }
  by_floating(sum.dtype, [&]<class T>() {
    const Addition<T> of{a.as<const T>(), b.data, b.dtype, sum.as<T>(), nullptr, b.dtype};
    launch_addition(call, of, sum.size);
  });
  row_norm_gpu(call_of_norm);
}

void add_norm_backward_gpu(const KernelCall& call) {
  const TensorView &other = call.inputs.back(), &sum = call.outputs[0];
  const bool rounds = call.attributes.as<LayerNormAttributes>().result.has_value();
  std::vector<TensorView> outputs(call.outputs.begin(), call.outputs.end() - (rounds ? 1 : 0));
  KernelCall norm = call;
  norm.inputs = call.inputs.first(call.inputs.size() - 1);
  norm.outputs = outputs;
  NormSum with{other.data};
  if (rounds) {
    with.rounded = call.outputs.back().data;
    with.half = call.outputs.back().dtype;
  }
  if (norm_backward_in_registers_gpu(NormBackward(norm), call.queue, with))
    return;
  // The sum may lie where the other gradient does.
  const Workspace dx(call.queue, static_cast<std::size_t>(sum.size) * size_of(sum.dtype));
  outputs[0].data = dx.data();
  row_norm_backward_gpu(norm);
  by_floating(sum.dtype, [&]<class T>() {
    const Addition<T> of{dx.as<T>(), other.data, other.dtype, sum.as<T>(), with.rounded, with.half};
    launch_addition(call, of, sum.size);
  });
}

}  // namespace sluice::detail
