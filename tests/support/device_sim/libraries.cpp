// What cuBLASLt, cuDNN and nvcc do for operators, on the simulated GPU: products by plain loops in float64 that run as
// kernels do, convolutions by unfolding.
#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/early_starts.h>
#include <sluice/ndarray/detail/gpu_build.h>
#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/fused.h>
#include <sluice/operator/conv/shallow.h>
#include <sluice/operator/conv/strip_tiles.h>
#include <sluice/operator/conv/tensor_tiles.h>
#include <sluice/operator/conv/weight_tiles.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/fused/compiled.h>
#include <sluice/operator/library/channel.h>
#include <sluice/operator/matmul/product.h>
#include <sluice/operator/matmul/row_product.h>
#include <sluice/operator/matmul/small_product.h>

#include "tests/support/cuda_sim/sim.h"
#include "tests/support/device_sim/compiled.h"

namespace sluice::detail {
namespace {

template <class T>
double at(const Matrix& matrix, std::int64_t batch, std::int64_t row, std::int64_t column) {
  const std::int64_t place = batch * matrix.batch + row * matrix.row + column * matrix.column;
  return static_cast<double>(static_cast<const T*>(matrix.data)[place]);
}

template <class T>
void multiply(const GemmProblem& p) {
  for (std::int64_t batch = 0; batch < p.batch; ++batch) {
    for (std::int64_t m = 0; m < p.m; ++m) {
      for (std::int64_t n = 0; n < p.n; ++n) {
        T& target = static_cast<T*>(p.c.data)[batch * p.c.batch + m * p.c.row + n];
        double sum = p.accumulate ? static_cast<double>(target) : 0;
        for (std::int64_t k = 0; k < p.k; ++k)
          sum += at<T>(p.a, batch, m, k) * at<T>(p.b, batch, k, n);
        if (p.column_bias != nullptr)
          sum += static_cast<double>(static_cast<const T*>(p.column_bias)[n]);
        target = T(static_cast<Compute<T>>(p.relu && sum <= 0 ? 0 : sum));
      }
    }
  }
}

void run(
    const Queue& queue,
    ConvolutionPass pass,
    const ConvolutionGeometry& g,
    MemoryOrder order,
    const ConvolutionData& d) {
  const std::int64_t sizes[] = {g.x_shape().size(), g.weight_shape().size(), g.y_shape().size()};
  if (std::find(std::begin(sizes), std::end(sizes), 0) == std::end(sizes)) {
    if (pass == ConvolutionPass::backward_weights && is_weight_tiled(g, order, d))
      return weights_by_tiles_gpu(queue, g, d);
    if (ran_by_strips(queue, pass, g, order, d, {}))
      return;
    return convolution_unfolded_gpu(queue, pass, g, d, order);
  }
  const int target = pass == ConvolutionPass::forward ? 2 : pass == ConvolutionPass::backward_data ? 0 : 1;
  void* const to = target == 2 ? d.y : target == 0 ? d.x : d.weight;
  if (sizes[target] > 0)
    cudaMemsetAsync(
        to, 0, static_cast<std::size_t>(sizes[target]) * size_of(g.dtype), static_cast<cudaStream_t>(queue.stream()));
}
void run(const KernelCall& call, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& d) {
  run(call.queue, pass, g, order_in(call), d);
}

// One number of a convolution of arrays whose channels are neighbours.
template <class T>
double convolved(
    const ConvolutionGeometry& g, const T* x, const T* w, std::int64_t n, std::int64_t o, const std::int64_t (&at)[2]) {
  double sum = 0;
  for (std::int64_t ky = 0; ky < g.kernel[0]; ++ky) {
    for (std::int64_t kx = 0; kx < g.kernel[1]; ++kx) {
      const std::int64_t row = at[0] * g.stride[0] - g.pad[0] + ky * g.dilation[0];
      const std::int64_t column = at[1] * g.stride[1] - g.pad[1] + kx * g.dilation[1];
      if (row < 0 || row >= g.in[0] || column < 0 || column >= g.in[1])
        continue;
      const T* const pixel = x + ((n * g.in[0] + row) * g.in[1] + column) * g.inputs;
      const T* const tap = w + ((o * g.kernel[0] + ky) * g.kernel[1] + kx) * g.inputs;
      for (std::int64_t c = 0; c < g.inputs; ++c)
        sum += static_cast<double>(pixel[c]) * static_cast<double>(tap[c]);
    }
  }
  return sum;
}

// As a graph of cuDNN's: rounded once.
template <class T>
void convolve_and_finish(const ConvolutionGeometry& g, const ConvolutionData& d, const ChannelEpilogue& then) {
  T* y = static_cast<T*>(d.y);
  const T* residual = static_cast<const T*>(then.residual);
  for (std::int64_t i = 0; i < g.y_shape().size(); ++i) {
    const std::int64_t o = i % g.outputs, place = i / g.outputs;
    const std::int64_t at[] = {place / g.out[1] % g.out[0], place % g.out[1]};
    double value =
        convolved(g, static_cast<const T*>(d.x), static_cast<const T*>(d.weight), place / g.out_plane(), o, at);
    if (then.scale != nullptr)
      value *= static_cast<const float*>(then.scale)[o];
    if (then.shift != nullptr)
      value += static_cast<const float*>(then.shift)[o];
    if (residual != nullptr)
      value += static_cast<double>(residual[i]);
    y[i] = T(static_cast<Compute<T>>(then.relu && value <= 0 ? 0 : value));
  }
}

}  // namespace

GpuFacts probe_gpu(int) {
  return {};
}
GpuBuild gpu_build() noexcept {
  return {};
}
bool kernels_wait_themselves() noexcept {
  return true;
}

void product_gpu(const Queue& queue, const GemmProblem& p, void* row_sums) {
  if (is_integer(p.dtype)) {
    if (p.batch * p.m * p.n * p.k > 0)
      return integer_product_gpu(queue, p);
    const std::size_t bytes = static_cast<std::size_t>(p.batch * p.m * p.n) * size_of(p.dtype);
    cudaMemsetAsync(p.c.data, 0, bytes, static_cast<cudaStream_t>(queue.stream()));
    return;
  }
  if (p.batch * p.m * p.n * p.k > 0 && is_small_product(p))
    return small_product_gpu(queue, p, row_sums);
  if (p.batch * p.m * p.n * p.k > 0 && row_sums == nullptr && is_row_product(p))
    return row_product_gpu(queue, p);
  require<UnsupportedError>(p.batch * p.m * p.n * p.k == 0 || is_plain(p), [&] {
    return message("matmul: on a GPU, operands need rows or columns of neighbours");
  });
  if (row_sums != nullptr && p.m > 0)
    channel_sum_gpu(queue, {p.k, p.m, 1, p.dtype}, p.a.data, row_sums);
  test::sim::launch(
      static_cast<cudaStream_t>(queue.stream()), [p] { by_floating(p.dtype, [&]<class T>() { multiply<T>(p); }); });
}

void matmul_gpu(const KernelCall& call) {
  if (call.outputs[0].size == 0)
    return;
  const auto product =
      batched_product(call.inputs[0], call.inputs[1], call.outputs[0], call.attributes.as<MatmulAttributes>());
  for_each_product(product, [&](const GemmProblem& problem) { product_gpu(call.queue, problem); });
}

void dense_gpu(const KernelCall& call) {
  product_gpu(call.queue, dense_problem(call));
}

void dense_backward_weights_gpu(const KernelCall& call) {
  void* const bias = call.outputs.size() > 1 ? call.outputs[1].data : nullptr;
  product_gpu(call.queue, dense_backward_weights_problem(call), bias);
}

void convolution_gpu(const KernelCall& call) {
  const ConvolutionGeometry g = forward_geometry(call);
  const bool relu = &call.op == &convolution_relu_op;
  const void* const bias = call.inputs.size() > 2 ? call.inputs[2].data : nullptr;
  const ConvolutionData data{call.inputs[0].data, call.inputs[1].data, call.outputs[0].data, bias};
  if (is_shallow(g, ConvolutionPass::forward))
    return shallow_forward_gpu(call.queue, g, order_in(call), data, relu);
  if (ran_by_strips(call.queue, ConvolutionPass::forward, g, order_in(call), data, {.relu = relu, .bias = bias}))
    return;
  run(call, ConvolutionPass::forward, g, data);
  if ((bias != nullptr || relu) && g.y_shape().size() > 0)
    channel_add_gpu(call.queue, channels_of(g, order_in(call)), call.outputs[0].data, bias, relu);
}

bool ran_by_strips(
    const Queue& queue,
    ConvolutionPass pass,
    const ConvolutionGeometry& g,
    MemoryOrder order,
    const ConvolutionData& data,
    const ChannelEpilogue& then) {
  if (!is_strip_tiled(pass, g, order, data) || !is_aligned(then.residual))
    return false;
  convolution_by_strips(queue, pass, g, data, then);
  return true;
}

void convolution_sums_gpu(
    const Queue& queue, const ConvolutionGeometry& g, MemoryOrder order, const ConvolutionData& data) {
  run(queue, ConvolutionPass::forward, g, order, data);
}

bool convolution_fused_by_plan(
    const Queue& queue,
    const ConvolutionGeometry& g,
    MemoryOrder order,
    const ConvolutionData& data,
    const ChannelEpilogue& then) {
  if (g.dtype == DType::float64 || order != MemoryOrder::channels_last)
    return false;
  test::sim::launch(static_cast<cudaStream_t>(queue.stream()), [g, data, then] {
    by_floating(g.dtype, [&]<class T>() { convolve_and_finish<T>(g, data, then); });
  });
  return true;
}

void convolution_backward_data_gpu(const KernelCall& call) {
  run(call,
      ConvolutionPass::backward_data,
      backward_data_geometry(call),
      {call.outputs[0].data, call.inputs[1].data, call.inputs[0].data});
}

void convolution_backward_weights_gpu(const KernelCall& call) {
  const ConvolutionGeometry g = backward_weights_geometry(call);
  void* const bias = call.outputs.size() > 1 ? call.outputs[1].data : nullptr;
  const ConvolutionData data{
      .x = call.inputs[0].data, .weight = call.outputs[0].data, .y = call.inputs[1].data, .bias_grad = bias};
  if (is_shallow(g, ConvolutionPass::backward_weights))
    return shallow_weights_gpu(call.queue, g, order_in(call), data, nullptr);
  run(call, ConvolutionPass::backward_weights, g, data);
  if (bias != nullptr)
    channel_sum_gpu(call.queue, channels_of(g, order_in(call)), data.y, bias);
}

}  // namespace sluice::detail

namespace sluice::fused {

// Nothing is compiled at run time: fused programs run call by call, but for sources that were compiled with the test.
std::string why_not_compiled(int) {
  return "a simulated GPU runs no machine code";
}
const Compiled* compiled_already(const Program& program, int gpu, const Reduced& reduction) noexcept {
  return &compiled(program, gpu, reduction);
}
const Compiled& compiled(const Program& program, int gpu, const Reduced& reduction) {
  static const Compiled none{.problem = why_not_compiled(gpu)};
  if (!reduction)
    return none;
  static std::map<std::string, Compiled> all;
  static std::mutex mutex;
  const std::lock_guard hold(mutex);
  KernelSource source = source_of(program, *reduction);
  const auto& sources = device_sim::host_sources();
  const auto found =
      std::find_if(sources.begin(), sources.end(), [&](const auto& one) { return one.text == source.text; });
  if (found == sources.end())
    return none;
  // Numbers are no part of the text.
  Compiled& made = all[to_text(program) + source.text];
  if (made.kernels[0] == nullptr) {
    for (std::size_t i = 0; i < found->kernels.size(); ++i)
      made.kernels[i] = reinterpret_cast<const void*>(found->kernels[i]);
    made.numbers = numbers_of(program);
    made.numbers.insert(made.numbers.begin(), 0);
    made.numbers.resize(std::max<std::size_t>(made.numbers.size(), 2));
    made.source = std::move(source);
    made.starts_early = true;
  }
  return made;
}
void launch_kernel(
    const Compiled& of, const void* kernel, unsigned blocks, Block threads, void** parameters, void* stream) {
  const auto launch = reinterpret_cast<device_sim::HostKernel>(const_cast<void*>(kernel));
  launch(dim3(blocks), dim3(threads.x, threads.y), parameters, static_cast<cudaStream_t>(stream));
  if (auto* const starts = sluice::detail::EarlyStarts::on(static_cast<cudaStream_t>(stream));
      starts != nullptr && of.starts_early)
    starts->note();
}

}  // namespace sluice::fused

std::vector<device_sim::HostSource>& device_sim::host_sources() {
  static std::vector<HostSource> all;
  return all;
}
long& device_sim::host_launches() noexcept {
  static long count = 0;
  return count;
}
