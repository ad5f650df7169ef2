#include <sluice/operator/conv/row_windows.h>
#include <sluice/operator/conv/window_walk.h>
#include <sluice/operator/conv/windows.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sides.h>

namespace sluice {

namespace {

using detail::RowSums;
using detail::RowWindows;
using detail::WindowWalk;

// -- Attributes -----------------------------------------------------------------------------------------------------
struct ImageWindows {
  Shape kernel{3, 3}, stride{1, 1}, pad{0, 0}, dilation{1, 1};

  template <class V>
  void visit(V&& v) {
    v.field("kernel", kernel);
    v.field("stride", stride);
    v.field("pad", pad);
    v.field("dilation", dilation);
  }
};

struct ImageSums : ImageWindows {
  Shape output_size{1, 1};

  template <class V>
  void visit(V&& v) {
    v.field("output_size", output_size);
    ImageWindows::visit(v);
  }
};

WindowWalk walk_of(const char* op, const Shape& x, const ImageWindows& a, bool rows_first) {
  detail::check_pair(op, a.kernel, 1, "kernel");
  require<ShapeError>(x.ndim() == 4, [&] { return message(op, ": images must be (N, C, H, W), not ", x); });
  const detail::ConvolutionGeometry g = detail::convolution_geometry(
      op,
      x,
      {1, x[1], a.kernel[0], a.kernel[1]},
      DType::float32,
      {.stride = a.stride, .pad = a.pad, .dilation = a.dilation});
  WindowWalk walk{.images = x[0], .channels = x[1], .rows_first = rows_first};
  for (int axis = 0; axis < 2; ++axis) {
    walk.in[axis] = g.in[axis];
    walk.kernel[axis] = g.kernel[axis];
    walk.out[axis] = g.out[axis];
    walk.stride[axis] = g.stride[axis];
    walk.dilation[axis] = g.dilation[axis];
    walk.pad[axis] = g.pad[axis];
  }
  return walk;
}
WindowWalk walk_of(const char* op, const Shape& x, const RowWindows& a, bool rows_first) {
  require<ValueError>(a.pad.ndim() == 2, [&] { return message(op, ": pad is (in front, behind), not ", a.pad); });
  const ImageWindows of{{a.kernel, 1}, {a.stride, 1}, {a.pad[0], 0, a.pad[1], 0}, {a.dilation, 1}};
  return walk_of(op, x, of, rows_first);
}

template <class Windows>
constexpr bool k_rows_first = std::is_base_of_v<RowWindows, Windows>;

std::int64_t as_one(const char* op, const Shape& extents) {
  std::int64_t product = 1;
  bool overflows = false;
  for (const std::int64_t extent : extents)
    overflows |= __builtin_mul_overflow(product, extent, &product);
  require<ShapeError>(
      !overflows, [&] { return message(op, ": extents ", extents, " are too large to be one axis of columns"); });
  return product;
}

Shape columns_shape(const char* op, const WindowWalk& w) {
  if (w.rows_first)
    return {w.images, w.out[0], w.channels, w.kernel[0], w.out[1]};
  return {w.images, as_one(op, {w.channels, w.kernel[0], w.kernel[1]}), as_one(op, {w.out[0], w.out[1]})};
}

// -- Images to columns ------------------------------------------------------------------------------------------------
template <class Windows>
Specs infer_unfold(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& x = inputs[0];
  const WindowWalk walk = walk_of(op.name, x.shape, attributes.as<Windows>(), k_rows_first<Windows>);
  return {{columns_shape(op.name, walk), x.dtype, x.device}};
}

using Run = void (*)(const KernelCall& call, const WindowWalk& walk);

template <Run run, class Windows>
void unfold_kernel(const KernelCall& call) {
  run(call, walk_of(call.op.name, call.inputs[0].shape, call.attributes.as<Windows>(), k_rows_first<Windows>));
}

Arrays im2col_gradient(const GradientCall& call) {
  const Shape& x = call.input_specs[0].shape;
  const ImageSums how{call.attributes.as<ImageWindows>(), {x[2], x[3]}};
  return {invoke_one(detail::k_col2im, {call.output_grads[0]}, Attributes::of(how), SourceLocation::current())};
}
Arrays unfold_rows_gradient(const GradientCall& call) {
  const RowSums how{call.attributes.as<RowWindows>(), call.input_specs[0].shape[2]};
  return {invoke_one(detail::k_fold_rows, {call.output_grads[0]}, Attributes::of(how), SourceLocation::current())};
}

// -- Columns to images ------------------------------------------------------------------------------------------------
Shape images_shape(const Operator& op, const Shape& columns, const ImageSums& a) {
  detail::check_pair(op.name, a.output_size, 1, "output_size");
  detail::check_pair(op.name, a.kernel, 1, "kernel");
  const std::int64_t taps = a.kernel[0] * a.kernel[1];
  require<ShapeError>(columns.ndim() == 3 && columns[1] % taps == 0, [&] {
    return message(op.name, ": columns must be (N, C * KH * KW, OH * OW) of windows ", a.kernel, ", not ", columns);
  });
  return {columns[0], columns[1] / taps, a.output_size[0], a.output_size[1]};
}
Shape images_shape(const Operator& op, const Shape& columns, const RowSums& a) {
  require<ShapeError>(columns.ndim() == 5, [&] {
    return message(op.name, ": columns must be (N, windows, C, taps, width), not ", columns);
  });
  return {columns[0], columns[2], a.rows, columns[4]};
}

template <class Sums>
Specs infer_fold(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& columns = inputs[0];
  const auto& how = attributes.as<Sums>();
  require<DTypeError>(
      is_floating(columns.dtype), [&] { return message(op.name, ": adds floating types up, not ", columns.dtype); });
  const Shape x = images_shape(op, columns.shape, how);
  const WindowWalk walk = walk_of(op.name, x, how, k_rows_first<Sums>);
  const Shape wanted = columns_shape(op.name, walk);
  require<ShapeError>(columns.shape == wanted, [&] {
    return message(op.name, ": columns of shape ", columns.shape, ", not ", wanted, ", for images of shape ", x);
  });
  return {{x, columns.dtype, columns.device}};
}

template <Run run, class Sums>
void fold_kernel(const KernelCall& call) {
  run(call, walk_of(call.op.name, call.outputs[0].shape, call.attributes.as<Sums>(), k_rows_first<Sums>));
}

template <const Operator& unfold, class Sums, class Windows>
Arrays fold_gradient(const GradientCall& call) {
  const Windows& how = call.attributes.as<Sums>();
  return {invoke_one(unfold, {call.output_grads[0]}, Attributes::of(how), SourceLocation::current())};
}

}  // namespace

namespace detail {

constinit const Operator k_im2col{
    .name = "im2col",
    .attributes = &attribute_type<ImageWindows>,
    .infer = infer_unfold<ImageWindows>,
    .kernels =
        {on_cpu(unfold_kernel<unfold_cpu, ImageWindows>),
         on_gpu(SLUICE_GPU_KERNEL((unfold_kernel<unfold_gpu, ImageWindows>)))},
    .gradient = im2col_gradient,
};
constinit const Operator k_col2im{
    .name = "col2im",
    .attributes = &attribute_type<ImageSums>,
    .infer = infer_fold<ImageSums>,
    .kernels =
        {on_cpu(fold_kernel<fold_cpu, ImageSums>), on_gpu(SLUICE_GPU_KERNEL((fold_kernel<fold_gpu, ImageSums>)))},
    .gradient = fold_gradient<k_im2col, ImageSums, ImageWindows>,
};
constinit const Operator k_unfold_rows{
    .name = "unfold_rows",
    .attributes = &attribute_type<RowWindows>,
    .infer = infer_unfold<RowWindows>,
    .kernels =
        {on_cpu(unfold_kernel<unfold_cpu, RowWindows>),
         on_gpu(SLUICE_GPU_KERNEL((unfold_kernel<unfold_gpu, RowWindows>)))},
    .gradient = unfold_rows_gradient,
};
constinit const Operator k_fold_rows{
    .name = "fold_rows",
    .attributes = &attribute_type<RowSums>,
    .infer = infer_fold<RowSums>,
    .kernels = {on_cpu(fold_kernel<fold_cpu, RowSums>), on_gpu(SLUICE_GPU_KERNEL((fold_kernel<fold_gpu, RowSums>)))},
    .gradient = fold_gradient<k_unfold_rows, RowSums, RowWindows>,
};

}  // namespace detail

NDArray im2col(const NDArray& x, const WindowOptions& o, SourceLocation site) {
  const ImageWindows how{o.kernel, o.stride, o.pad, o.dilation};
  return invoke_one(detail::k_im2col, {x}, Attributes::of(how), site);
}

NDArray col2im(const NDArray& columns, const Shape& output_size, const WindowOptions& o, SourceLocation site) {
  const ImageSums how{{o.kernel, o.stride, o.pad, o.dilation}, output_size};
  return invoke_one(detail::k_col2im, {columns}, Attributes::of(how), site);
}

}  // namespace sluice
