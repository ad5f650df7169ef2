#include <memory>

#include <fmt/format.h>

#include <sluice/operator/gpu_kernel.h>
#include <sluice/sluice.h>

#include "samples/extension/kernels.h"
#include "samples/extension/parts.h"

namespace samples {

using namespace sluice;

namespace {

// Images (N, H, W) and a window (A, B) give (N, H - A + 1, W - B + 1).
ConvolutionExtents extents_of(const Shape& x, const Shape& window) {
  return {x[0], x[1], x[2], window[0], window[1]};
}

Specs infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const Shape &x = inputs[0].shape, &window = inputs[1].shape;
  require<DTypeError>(inputs[0].dtype == float32 && inputs[1].dtype == float32, [&] {
    return message(op.name, ": takes float32, not ", inputs[0].dtype, " and ", inputs[1].dtype);
  });
  require<ShapeError>(x.ndim() == 3 && window.ndim() == 2 && window[0] >= 1 && window[1] >= 1, [&] {
    return message(op.name, ": takes images (N, H, W) and a window (A, B), not ", x, " and ", window);
  });
  const ConvolutionExtents at = extents_of(x, window);
  require<ShapeError>(at.rows() >= 1 && at.columns() >= 1, [&] {
    return message(op.name, ": a window ", window, " does not fit into images ", x);
  });
  return {{{at.images, at.rows(), at.columns()}, float32, inputs[0].device}};
}

void run_on_cpu(const KernelCall& call) {
  const ConvolutionExtents at = extents_of(call.inputs[0].shape, call.inputs[1].shape);
  const float *const x = call.inputs[0].as<float>(), *const weight = call.inputs[1].as<float>();
  float* const y = call.outputs[0].as<float>();
  const std::int64_t columns = at.columns();
  // A row each, on as many threads as are free.
  parallel_for(at.images * at.rows(), 16, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t image = line / at.rows(), row = line % at.rows();
      for (std::int64_t column = 0; column < columns; ++column) {
        float sum = 0;
        for (std::int64_t a = 0; a < at.window_height; ++a) {
          for (std::int64_t b = 0; b < at.window_width; ++b)
            sum += x[(image * at.height + row + a) * at.width + column + b] * weight[a * at.window_width + b];
        }
        y[line * columns + column] = sum;
      }
    }
  });
}

#if SLUICE_CUDA
void run_on_gpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &window = call.inputs[1], &y = call.outputs[0];
  if (y.size == 0)
    return;
  const ConvolutionExtents at = extents_of(x.shape, window.shape);
  const int status = enqueue_convolution(call.queue.stream(), x.as<float>(), window.as<float>(), y.as<float>(), at);
  if (status != 0)
    throw CudaError(message(call.op.name, ": a window ", window.shape, ": CUDA says ", status), status);
}
#endif

// Of the images: the heads, with room around them, under the window turned round. Of the window: each image under its
// head. Both are the operator itself, and so have gradients again.
Arrays gradient(const GradientCall& call) {
  const NDArray &x = call.inputs[0], &window = call.inputs[1], &heads = call.output_grads[0];
  const auto convolve = [&](const NDArray& images, const NDArray& under) {
    return invoke_one(call.op, {images, under}, {}, SourceLocation::current());
  };
  Arrays grads(2);
  if (call.wanted[0]) {
    const std::int64_t above = window.shape()[0] - 1, beside = window.shape()[1] - 1;
    grads[0] = convolve(pad(heads, {{0, 0}, {above, above}, {beside, beside}}), flip(window));
  }
  if (call.wanted[1]) {
    grads[1] = zeros_like(window);
    for (std::int64_t image = 0; image < x.shape()[0]; ++image)
      grads[1] = grads[1] + convolve(x[{{image, image + 1}}], heads[image])[0];
  }
  return grads;
}

const Operator& own_operator() {
  static const Operator* const known = [] {
    auto op = std::make_shared<Operator>();
    op->name = "sample_convolution";
    op->inputs = 2;
    op->infer = infer;
    op->kernels = {on_cpu(run_on_cpu), on_gpu(SLUICE_GPU_KERNEL(run_on_gpu))};
    op->gradient = gradient;
    op->saved_inputs = k_all;
    register_operator(op);
    return op.get();
  }();
  return *known;
}

}  // namespace

void own_convolution(Device device) {
  random::seed(1);
  NDArray x = random::uniform(-1, 1, {3, 40, 50}, {.device = device});
  NDArray window = random::uniform(-1, 1, {3, 5}, {.device = device});
  x.attach_grad();
  window.attach_grad();
  NDArray own, loss;
  {
    const autograd::RecordScope record;
    own = invoke_one(own_operator(), {x, window}, {}, SourceLocation::current());
    loss = sum(square(own));
  }
  loss.backward();
  const NDArray own_x = x.grad().copy(), own_window = window.grad().copy();
  NDArray theirs;
  {
    const autograd::RecordScope record;
    theirs = convolution(x.expand_dims(1), window.reshape({1, 1, 3, 5}), NDArray());
    loss = sum(square(theirs));
  }
  loss.backward();
  const auto off = [](const NDArray& a, const NDArray& b) { return max(abs(a - b.reshape(a.shape()))).item<float>(); };
  const float values = off(own, theirs), of_x = off(own_x, x.grad()), of_window = off(own_window, window.grad());
  fmt::print(
      "convolution: {} on {}; off the library's by {:.1e}, its gradients by {:.1e} and {:.1e}\n",
      message(own.shape()),
      to_string(device),
      values,
      of_x,
      of_window);
  require<Error>(values < 1e-4F && of_x < 1e-3F && of_window < 1e-1F, [] { return "convolution: it is wrong"; });
}

}  // namespace samples
