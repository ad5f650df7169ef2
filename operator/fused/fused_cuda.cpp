#include <algorithm>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/cuda/early_starts.h>
#include <sluice/operator/elementwise/pieces.h>
#include <sluice/operator/fused/compiled.h>
#include <sluice/operator/fused/fused_gpu.h>
#include <sluice/operator/fused/layout.h>
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
  launch_kernel(kernel, static_cast<unsigned>(blocks), k_block, parameters, stream);
  if (sluice::detail::EarlyStarts* const starts = sluice::detail::EarlyStarts::on(stream);
      starts != nullptr && compiled.starts_early) [[unlikely]]
    starts->note();
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

// Turned inputs are copied first, by a kernel that reads and writes long pieces.
void launch_straightened(const KernelCall& call, const Compiled& compiled, Args args, cudaStream_t stream) {
  constexpr std::size_t k_alignment = 256;
  std::vector<TensorView> inputs(call.inputs.begin(), call.inputs.end());
  std::size_t bytes = 0;
  const auto each_turned = [&](auto&& then) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_turned(args, static_cast<int>(call.outputs.size() + i)))
        continue;
      then(inputs[i], bytes);
      bytes += (static_cast<std::size_t>(inputs[i].size) * size_of(inputs[i].dtype) + k_alignment - 1) / k_alignment *
               k_alignment;
    }
  };
  each_turned([](const TensorView&, std::size_t) {});
  if (bytes == 0)
    return launch_in_pieces(compiled, args, stream);
  const Workspace scratch(call.queue, std::exchange(bytes, 0));
  each_turned([&](TensorView& input, std::size_t at) {
    TensorView straight = input;
    straight.data = scratch.as<std::byte>() + at;
    straight.strides = contiguous_strides(input.shape);
    straight.contiguous = true;
    move_on_gpu(call, input, straight);
    input = straight;
  });
  launch_in_pieces(compiled, args_of(call.op.name, call.outputs, inputs), stream);
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda::cuda_check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

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
  const auto stream = static_cast<cudaStream_t>(call.queue.stream());
  const int gpu = call.queue.device().index;
  const Compiled* found = compiled_already(program, gpu);
  if (found == nullptr && !is_captured(stream))
    found = &compiled(program, gpu);
  if (found == nullptr || !found->problem.empty())
    return run_one_by_one(call, program);
  launch_straightened(call, *found, args_of(call.op.name, call.outputs, call.inputs), stream);
}

}  // namespace sluice::fused
