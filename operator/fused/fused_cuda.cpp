#include <algorithm>
#include <vector>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/elementwise/pieces.h>
#include <sluice/operator/fused/compiled.h>
#include <sluice/operator/fused/fused_gpu.h>
#include <sluice/operator/fused/layout.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::fused {

namespace {

constexpr unsigned k_block = 256;
constexpr std::int64_t k_most_blocks = 65536;  // kernels loop for what is left

void launch(const Compiled& compiled, const Args& args, cudaStream_t stream) {
  Layout layout = layout_of(args, compiled.source);
  std::array<void*, k_operands> pointers{};
  std::copy(args.data.begin(), args.data.end(), pointers.begin());
  void* parameters[] = {layout.words.data(), pointers.data(), const_cast<std::uint64_t*>(compiled.numbers.data())};
  const std::int64_t blocks = std::min((layout.threads + k_block - 1) / k_block, k_most_blocks);
  const void* const kernel = compiled.kernels[static_cast<std::size_t>(layout.walk)];
  launch_kernel(compiled, kernel, static_cast<unsigned>(blocks), {k_block}, parameters, stream);
}

// As launch_in_pieces does for kernels of one operator.
void launch_in_pieces(const Compiled& compiled, const Args& args, cudaStream_t stream) {
  const sluice::detail::Cut cut = sluice::detail::cut_of(args.plan, compiled.source.neighbours);
  if (cut.head == 0)
    return launch(compiled, args, stream);
  const std::int64_t rest = args.plan.extents[cut.axis] - cut.head;
  launch_in_pieces(compiled, sluice::detail::piece_of(args, cut.axis, 0, cut.head), stream);
  launch_in_pieces(compiled, sluice::detail::piece_of(args, cut.axis, cut.head, rest), stream);
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda::cuda_check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

std::size_t bytes_of(const TensorView& view) {
  constexpr std::size_t k_alignment = 256;
  const std::size_t bytes = static_cast<std::size_t>(view.size) * size_of(view.dtype);
  return (bytes + k_alignment - 1) / k_alignment * k_alignment;
}

}  // namespace

Straightened::Straightened(const KernelCall& call, std::span<const TensorView> results)
    : inputs_(call.inputs.begin(), call.inputs.end()), args_(args_of(call.op.name, results, inputs_)) {
  std::vector<std::size_t> turned;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!is_turned(args_, static_cast<int>(results.size() + i)))
      continue;
    turned.push_back(i);
    bytes += bytes_of(inputs_[i]);
  }
  if (turned.empty())
    return;
  scratch_.emplace(call.queue, bytes);
  auto* to = scratch_->as<std::byte>();
  for (const std::size_t i : turned) {
    TensorView straight = inputs_[i];
    straight.data = to;
    straight.strides = contiguous_strides(straight.shape);
    straight.contiguous = true;
    move_on_gpu(call, inputs_[i], straight);
    inputs_[i] = straight;
    to += bytes_of(straight);
  }
  args_ = args_of(call.op.name, results, inputs_);
}

const Compiled* kernels_for(const KernelCall& call, const Program& program, const Reduced& reduction) {
  const int gpu = call.queue.device().index;
  const Compiled* found = compiled_already(program, gpu, reduction);
  if (found == nullptr && !is_captured(detail::stream_of(call.queue)))
    found = &compiled(program, gpu, reduction);
  return found != nullptr && found->problem.empty() ? found : nullptr;
}

std::string why_not_compiled(Device gpu) {
  return why_not_compiled(gpu.index);
}

std::string compile_for(const Attributes& attributes, Device gpu) {
  return compiled(program_of(attributes), gpu.index).problem;
}

void run_on_gpu(const KernelCall& call) {
  const Program& program = program_of(call.attributes);
  if (call.outputs[0].size == 0)
    return;
  const Compiled* const kernels = kernels_for(call, program);
  if (kernels == nullptr)
    return run_one_by_one(call, program);
  const Straightened straight(call, call.outputs);
  launch_in_pieces(*kernels, straight.args(), detail::stream_of(call.queue));
}

}  // namespace sluice::fused
