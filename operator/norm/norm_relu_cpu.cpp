// Batch norm with a relu behind it, where no pass over memory is saved: batch norm's own kernels and another pass.
#include <algorithm>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/norm/kernels.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_grain = 16 * 1024;  // elements worth a thread

template <class T>
T relu_of(T x) noexcept {
  return static_cast<Compute<T>>(x) <= Compute<T>(0) ? T(Compute<T>(0)) : x;
}

}  // namespace

void batch_norm_relu_cpu(const KernelCall& call) {
  KernelCall norm = call;
  norm.inputs = call.inputs.first(5);
  batch_norm_cpu(norm);
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    T* y = call.outputs[0].as<T>();
    const T* added = call.inputs.size() > 5 ? call.inputs[5].as<T>() : nullptr;
    parallel_for(call.outputs[0].size, k_grain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        using Acc = Compute<T>;
        y[i] = relu_of(added == nullptr ? y[i] : T(static_cast<Acc>(y[i]) + static_cast<Acc>(added[i])));
      }
    });
  });
}

// Forward again, of which the statistics are known, for what the relu let through.
void batch_norm_relu_backward_cpu(const KernelCall& call) {
  const TensorView& x = call.inputs[1];
  const Workspace workspace(call.queue, static_cast<std::size_t>(x.size) * size_of(x.dtype));
  std::vector<TensorView> inputs(call.inputs.begin(), call.inputs.begin() + 5);
  inputs[0].data = workspace.data();
  by_floating(x.dtype, [&]<class T>() {
    using Acc = Compute<T>;
    const BatchNormGradientChannel<Acc> channel(call, nullptr);
    const ChannelView view = channel_view(call.inputs[0], call.attributes.as<BatchNormAttributes>().axis);
    const auto* mean = call.inputs[3].as<const Acc>();
    const void* beta = call.inputs[5].data;
    const T *dy = call.inputs[0].as<const T>(), *values = x.as<const T>();
    T* passed = workspace.as<T>();
    const std::int64_t grain = std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, view.inner));
    parallel_for(view.outer * view.channels, grain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t c = row % view.channels;
        const Acc scale = channel.scale_of(c), shift = load_parameter<Acc>(beta, channel.parameters, c);
        for (std::int64_t i = row * view.inner; i < (row + 1) * view.inner; ++i) {
          const T y = T((static_cast<Acc>(values[i]) - mean[c]) * scale + shift);
          const T head = dy[i];
          passed[i] = static_cast<Acc>(y) <= Acc(0) ? T(Acc(0)) : head;
        }
      }
    });
  });
  KernelCall norm = call;
  norm.inputs = inputs;
  batch_norm_backward_cpu(norm);
}

void batch_norm_add_relu_backward_cpu(const KernelCall& call) {
  by_floating(call.inputs[1].dtype, [&]<class T>() {
    using Acc = Compute<T>;
    const T *dy = call.inputs[0].as<const T>(), *y = call.inputs[5].as<const T>();
    const T* other = call.inputs.size() > 6 ? call.inputs[6].as<const T>() : nullptr;
    T* passed = call.outputs[3].as<T>();
    parallel_for(call.outputs[3].size, k_grain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T head = other == nullptr ? dy[i] : T(static_cast<Acc>(dy[i]) + static_cast<Acc>(other[i]));
        passed[i] = static_cast<Acc>(y[i]) <= Acc(0) ? T(Acc(0)) : head;
      }
    });
  });
  std::vector<TensorView> inputs(call.inputs.begin(), call.inputs.begin() + 5);
  inputs[0] = call.outputs[3];
  KernelCall norm = call;
  norm.inputs = inputs;
  norm.outputs = call.outputs.first(3);
  batch_norm_backward_cpu(norm);
}

}  // namespace sluice::detail
